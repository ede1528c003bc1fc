package model

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/workers"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/text"
)

// Digests are the SHA-256 digests of the files that a scorer's numbers depend on, by file name. They are recorded when
// a scorer is written, and compared whenever it is opened. A section that is empty is not compared.
type Digests struct {
	Weights  map[string]string `yaml:"weights,omitempty"`  // tensor files, of the backbone or a separate folder
	Backbone map[string]string `yaml:"backbone,omitempty"` // configuration, tokenizer, chat template, processor
	Scorer   map[string]string `yaml:"scorer,omitempty"`   // head, adapter, calibration
}

// check rejects names that escape their folder.
func (d *Digests) check() error {
	if d == nil {
		return nil
	}
	for _, section := range []map[string]string{d.Weights, d.Backbone, d.Scorer} {
		for name := range section {
			if !filepath.IsLocal(filepath.FromSlash(name)) {
				return fmt.Errorf("digests: %q is not a file of the scorer or its backbone", name)
			}
		}
	}
	return nil
}

// RecordDigests records in c the digests of the backbone and the weights as they are now. The digests of the scorer's
// own files are recorded when they are written.
func RecordDigests(c *ScorerConfig) error {
	d := Digests{}
	if c.Digests != nil {
		d.Scorer = c.Digests.Scorer
	}
	path := c.Weights
	if path == "" {
		path = c.Backbone
	}
	w, err := checkpoints.OpenWeightsAt(path)
	if err != nil {
		return err
	}
	defer w.Close()
	if d.Weights, err = digestsOf(weightFiles(w)); err != nil {
		return err
	}
	d.Backbone, err = digestsOf(c.backboneFiles(nil))
	c.Digests = &d
	return err
}

// RecordOrigin is [RecordDigests] for an imported scorer, which also records the prompts in c.Origin.
func RecordOrigin(c *ScorerConfig) error {
	c.Origin.Passes = map[string]string{}
	for i := range c.Passes {
		c.Origin.Passes[c.Passes[i].Name] = c.Passes[i].digest()
	}
	return RecordDigests(c)
}

// recorded reports whether the digests of backbone and weights are known.
func (c *ScorerConfig) recorded() bool {
	return c.Digests != nil && len(c.Digests.Weights) > 0 && len(c.Digests.Backbone) > 0
}

// completeDigests records the digests of the scorer's own files in dir, and of backbone and weights if they are
// unknown.
func (c *ScorerConfig) completeDigests(dir string) error {
	if !c.recorded() {
		if err := RecordDigests(c); err != nil {
			return err
		}
	}
	own, err := digestsOf(c.ownFiles(dir))
	d := *c.Digests
	d.Scorer, c.Digests = own, &d
	return err
}

// adoptOrigin takes the file digests from where earlier versions stored them in imported scorers.
func (c *ScorerConfig) adoptOrigin() {
	if c.Origin == nil || len(c.Origin.Weights)+len(c.Origin.Base) == 0 {
		return
	}
	if c.Digests == nil {
		c.Digests = &Digests{Weights: c.Origin.Weights, Backbone: c.Origin.Base}
	}
	o := *c.Origin
	o.Weights, o.Base, c.Origin = nil, nil, &o
}

// checkBackbone refuses a backbone whose files (weights aside) differ from those the scorer was made with, and prompts
// that differ from the imported ones.
func (c *ScorerConfig) checkBackbone() error {
	if c.Origin != nil {
		for i := range c.Passes {
			q := &c.Passes[i]
			if want, ok := c.Origin.Passes[q.Name]; ok && want != q.digest() {
				return exit.Usagef("%s: the prompt or answer of pass %s is not the imported one (origin.passes): the scores "+
					"would be another judge's; import the scorer again with `score import`", ConfigFile, q.Name)
			}
		}
	}
	if c.Digests == nil {
		return nil
	}
	return compareDigests("backbone", c.Digests.Backbone, c.backboneFiles(c.Digests.Backbone), c.remedy())
}

// checkWeights refuses weights that differ from those the scorer was made with. Absent ones are not compared.
func (c *ScorerConfig) checkWeights(w *checkpoints.Weights) error {
	if c.Digests == nil || len(c.Digests.Weights) == 0 || w.Absent() {
		return nil
	}
	files := weightFiles(w)
	if c.Digests.Weights[checkpoints.IndexFile] == "" { // not recorded by an earlier version of `score import`
		delete(files, checkpoints.IndexFile)
	}
	for name := range c.Digests.Weights {
		if files[name] == "" {
			files[name] = filepath.Join(w.Dir(), name)
		}
	}
	return compareDigests("weights", c.Digests.Weights, files, c.remedy())
}

// checkOwn refuses a head, an adapter or a calibration in dir that differs from the one written with scorer.yaml.
func (c *ScorerConfig) checkOwn(dir string) error {
	if c.Digests == nil {
		return nil
	}
	recorded, files := maps.Clone(c.Digests.Scorer), c.ownFiles(dir)
	maps.DeleteFunc(recorded, func(name, _ string) bool { return files[name] == "" }) // a calibration no longer named
	if c.Calibration != "" && recorded[c.Calibration] == "" {
		delete(files, c.Calibration) // being refitted, or named by hand: the file itself states its scorer
	}
	remedy := "restore the file, or use an intact copy of the scorer"
	if c.Calibration != "" {
		remedy += "; if only the calibration is lost, remove its line from " + ConfigFile +
			" and refit it with `score calibrate`"
	}
	return compareDigests("scorer", recorded, files, remedy)
}

// remedy says what to do about a backbone that is not the recorded one.
func (c *ScorerConfig) remedy() string {
	text := "restore the file, or pass the right backbone with --backbone DIR"
	if c.Weights != "" {
		text = "restore the file, or correct backbone and weights in " + ConfigFile
	}
	if c.Origin != nil {
		text += ", or import the scorer again with `score import`"
	}
	return text
}

// compareDigests refuses files, given by name, that differ from the recorded ones: changed, missing, or new.
func compareDigests(section string, recorded, files map[string]string, remedy string) error {
	if len(recorded) == 0 {
		return nil
	}
	found, err := digestsOf(files)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(recorded))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if recorded[name] == "" {
			names = append(names, name)
		}
	}
	var wrong []string
	for _, name := range names {
		switch want, got := recorded[name], found[name]; {
		case want == got:
		case got == "":
			wrong = append(wrong, fmt.Sprintf("%s is missing", files[name]))
		case want == "":
			wrong = append(wrong, fmt.Sprintf("%s was not there when the scorer was made", files[name]))
		default:
			wrong = append(wrong, fmt.Sprintf("%s is not the file that the scorer was made with (recorded %.12s, found %.12s)",
				files[name], want, got))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	more := ""
	if n := len(wrong) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more files differ", n)
	}
	return exit.Usagef("%s%s: the scores would be another scorer's (digests.%s in %s): %s", wrong[0], more, section,
		ConfigFile, remedy)
}

// digest is the SHA-256 of a pass's prompt and answer.
func (q *PassConfig) digest() string {
	sum := sha256.Sum256([]byte(string(q.Prompt) + "\x00" + string(q.Answer)))
	return hex.EncodeToString(sum[:])
}

// digestsOf returns the digests of files, given as name and path; missing files are left out. Large files are read
// once: see [store.Files].
func digestsOf(files map[string]string) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(files))
	sums := make([]string, len(names))
	err := workers.Each(len(names), 4, func(i int) error {
		k, err := store.FileDigest(files[names[i]])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		sums[i] = k.String()
		return err
	})
	out := map[string]string{}
	for i, name := range names {
		if sums[i] != "" {
			out[name] = sums[i]
		}
	}
	return out, err
}

// weightFiles are a checkpoint's tensor files by name, plus the index if there are several.
func weightFiles(w *checkpoints.Weights) map[string]string {
	files := map[string]string{}
	for _, s := range w.Shards() {
		files[s.Name] = s.Path()
	}
	if len(files) > 1 {
		files[checkpoints.IndexFile] = filepath.Join(w.Dir(), checkpoints.IndexFile)
	}
	return files
}

// backboneFiles are the files of the backbone, besides its weights and their index, that are read or recorded. A chat
// template or processor that another file overrides is not read.
func (c *ScorerConfig) backboneFiles(recorded map[string]string) map[string]string {
	files := map[string]string{}
	add := func(name string) { files[name] = filepath.Join(c.Backbone, name) }
	for _, name := range append(slices.Collect(maps.Keys(recorded)), "config.json", "tokenizer.json",
		"tokenizer_config.json", "special_tokens_map.json", "processor_config.json") {
		add(name)
	}
	if c.ChatTemplate == "" {
		if file := text.TemplateFile(c.Backbone); file != "" {
			add(filepath.Base(file))
		}
	}
	if _, _, file, err := backbone.OpenProcessor(c.Backbone); err == nil {
		add(filepath.Base(file))
	}
	return files
}

// ownFiles are the files of a scorer directory that its numbers depend on, besides scorer.yaml.
func (c *ScorerConfig) ownFiles(dir string) map[string]string {
	files := map[string]string{}
	for _, name := range []string{HeadFile, lora.ConfigFile, lora.WeightsFile, c.Calibration} {
		if name != "" {
			files[name] = filepath.Join(dir, filepath.FromSlash(name))
		}
	}
	for _, member := range c.Members {
		for _, file := range memberFiles {
			name := member + "/" + file
			files[name] = filepath.Join(dir, filepath.FromSlash(name))
		}
	}
	return files
}

// Undigested describes which digests the scorer in dir lacks, as scorers of earlier versions do; "": none. They are
// added when it is next written.
func (c *ScorerConfig) Undigested(dir string) string {
	d := c.Digests
	if d == nil {
		d = &Digests{}
	}
	var lacks []string
	if len(d.Backbone) == 0 {
		lacks = append(lacks, "its backbone")
	}
	if len(d.Weights) == 0 {
		lacks = append(lacks, "its weights")
	}
	for _, path := range c.ownFiles(dir) {
		if len(d.Scorer) == 0 && backbone.Exists(path) {
			lacks = append(lacks, "head and adapter")
			break
		}
	}
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("%s has no digests of %s, so changes to these files go unnoticed; they are added when it "+
		"is next written", filepath.Join(dir, ConfigFile), strings.Join(lacks, ", "))
}
