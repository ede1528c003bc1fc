package model

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/digests"
	"assay/model/text"
)

// RecordDigests records in c the digests of the backbone and the weights as they are now. The digests of the scorer's
// own files are recorded when they are written.
func RecordDigests(c *ScorerConfig) error {
	d := digests.Digests{}
	if c.Digests != nil {
		d.Scorer = c.Digests.Scorer
	}
	path := c.Weights
	path = cmp.Or(path, c.Backbone)
	w, err := checkpoints.OpenWeightsAt(path)
	if err != nil {
		return err
	}
	defer w.Close()
	if d.Weights, err = digests.Of(digests.WeightFiles(w)); err != nil {
		return err
	}
	d.Backbone, err = digests.Of(c.backboneFiles(nil))
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

// completeDigests records the digests of the scorer's own files in dir, and of backbone and weights if they are
// unknown.
func (c *ScorerConfig) completeDigests(dir string) error {
	if !c.Digests.Complete() {
		if err := RecordDigests(c); err != nil {
			return err
		}
	}
	own, err := digests.Of(c.ownFiles(dir))
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
		c.Digests = &digests.Digests{Weights: c.Origin.Weights, Backbone: c.Origin.Base}
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
	return digests.Compare("digests.backbone in "+ConfigFile, c.Digests.Backbone,
		c.backboneFiles(c.Digests.Backbone), c.remedy())
}

// checkWeights refuses weights that differ from those the scorer was made with. Absent ones are not compared.
func (c *ScorerConfig) checkWeights(w *checkpoints.Weights) error {
	if c.Digests == nil || len(c.Digests.Weights) == 0 || w.Absent() {
		return nil
	}
	files := digests.WeightFiles(w)
	if c.Digests.Weights[checkpoints.IndexFile] == "" { // not recorded by an earlier version of `score import`
		delete(files, checkpoints.IndexFile)
	}
	for name := range c.Digests.Weights {
		if files[name] == "" {
			files[name] = filepath.Join(w.Dir(), name)
		}
	}
	return digests.Compare("digests.weights in "+ConfigFile, c.Digests.Weights, files, c.remedy())
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
	return digests.Compare("digests.scorer in "+ConfigFile, recorded, files, remedy)
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

// digest is the SHA-256 of a pass's prompt and answer.
func (q *PassConfig) digest() string {
	sum := sha256.Sum256([]byte(string(q.Prompt) + "\x00" + string(q.Answer)))
	return hex.EncodeToString(sum[:])
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
		d = &digests.Digests{}
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
