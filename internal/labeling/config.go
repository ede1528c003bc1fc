package labeling

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"assay/data/readers"
	"assay/heuristics"
	"assay/internal/hub"
	"assay/internal/labeling/nearcopy"
	"assay/internal/remote"
	"assay/internal/strictyaml"
	"assay/ort"
)

// Config is one run: data sets in, one label table out.
type Config struct {
	Out string `yaml:"out"` // folder
	// name or name/version; sets the defaults of rules, chains and encoders.clip_d
	Profile    string            `yaml:"profile"`
	Preset     string            `yaml:"preset"` // its old name: paper, released
	Seed       uint64            `yaml:"seed"`
	Sources    []SourceConfig    `yaml:"sources"`
	Encoders   EncoderConfig     `yaml:"encoders"`
	Rules      heuristics.Rules  `yaml:"rules"`
	Chains     heuristics.Chains `yaml:"chains"`
	Foreign    ForeignConfig     `yaml:"foreign"`
	Split      SplitConfig       `yaml:"split"`
	Guard      GuardConfig       `yaml:"guard"`
	Pictures   string            `yaml:"pictures"`   // embed, files
	Unlabelled string            `yaml:"unlabelled"` // keep, drop
	MaxBad     float64           `yaml:"max_bad"`    // share of rows that may be bad
	Workers    int               `yaml:"workers"`    // pictures decoded at once; 0: one per core

	profile heuristics.Profile
}

// SourceConfig is one data set.
type SourceConfig struct {
	Layout     string            `yaml:"layout"`
	Path       string            `yaml:"path"`
	Name       string            `yaml:"name"` // the table's dataset column
	Pictures   string            `yaml:"pictures"`
	Columns    map[string]string `yaml:"columns"`
	Editor     string            `yaml:"editor"`
	Tasks      []string          `yaml:"tasks"`
	Chains     bool              `yaml:"chains"`
	Drop       []string          `yaml:"drop"`
	LabelRange []float64         `yaml:"label_range"`
	Split      string            `yaml:"split"`   // of all its rows, or "own": from the data set
	Profile    string            `yaml:"profile"` // that the similarities in it were measured with
}

// EncoderConfig names the models that measure similarities. Without them only similarities that came with the data
// are known.
type EncoderConfig struct {
	Clip    string `yaml:"clip"` // checkpoint directory or .onnx file
	Dino    string `yaml:"dino"`
	Device  string `yaml:"device"`
	Threads int    `yaml:"threads"`
	Batch   int    `yaml:"batch"`
	Cache   string `yaml:"cache"` // folder of cached embeddings
	Given   string `yaml:"given"` // similarities that came with the data: keep, replace

	CacheSize strictyaml.Bytes     `yaml:"cache_size"`
	ClipD     heuristics.Direction `yaml:"clip_d"` // the definition: raw, unit
}

// ForeignConfig pairs targets with other samples' instructions: see foreign.go.
type ForeignConfig struct {
	Instructions int     `yaml:"instructions"` // for each target
	ClipD        float64 `yaml:"clip_d"`       // largest CLIP-D, with the other sample's captions
}

// SplitConfig sets how many rows are held out.
type SplitConfig struct {
	Validation float64 `yaml:"validation"` // share of the rows; a scene is never divided
}

// GuardConfig names pictures that must not be trained on.
type GuardConfig struct {
	Folders  []string `yaml:"folders"`
	Distance int      `yaml:"distance"` // largest distance of hashes, in bits of 63, at which pictures are compared
}

// How pictures are stored in the table.
const (
	PicturesEmbed = "embed"
	PicturesFiles = "files"
)

// defaults returns the configuration that a file overrides.
func defaults() *Config {
	c := &Config{
		Pictures:   PicturesEmbed,
		Unlabelled: "keep",
		MaxBad:     0.05,
		Split:      SplitConfig{Validation: 0.1},
		Guard:      GuardConfig{Distance: nearcopy.MaxDistance},
		Encoders:   EncoderConfig{Device: "auto", Batch: 32, CacheSize: 20e9, Given: "keep"},
	}
	c.adopt(heuristics.ProfilePaper, "")
	c.Foreign.ClipD = c.Rules.PartialClipD
	return c
}

// Load reads a configuration. The error lists all problems with file and line (a strictyaml.Problems), or says why
// the file cannot be read. Paths in the file are relative to its folder; paths in the result are absolute.
func Load(path string) (*Config, error) {
	text, folder, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := defaults()
	d := strictyaml.Decode(path, text, c)
	named := defaults()
	if !d.Unreadable && named.adopt(c.Profile, c.Preset) {
		c = named
		d = strictyaml.Decode(path, text, c)
	}
	if d.Unreadable {
		return nil, d.Err()
	}
	paths := []*string{&c.Out, &c.Encoders.Clip, &c.Encoders.Dino, &c.Encoders.Cache}
	for i := range c.Sources {
		paths = append(paths, &c.Sources[i].Path, &c.Sources[i].Pictures)
	}
	for i := range c.Guard.Folders {
		paths = append(paths, &c.Guard.Folders[i])
	}
	for _, p := range []*string{&c.Encoders.Clip, &c.Encoders.Dino} {
		if *p, err = hub.Beside(folder, *p, "config.json"); err != nil {
			return nil, err
		}
	}
	for i := range c.Sources {
		if c.Sources[i].Path, err = hub.ResolveURI(c.Sources[i].Path); err != nil {
			return nil, err
		}
	}
	for _, p := range paths {
		if problem := remote.Refuse("labelling", *p); problem != "" {
			d.Problem("", "%s", problem)
		}
		*p = strictyaml.Absolute(folder, *p)
	}
	c.check(d)
	if err := d.Err(); err != nil {
		return nil, err
	}
	c.Encoders.Cache = cmp.Or(c.Encoders.Cache, filepath.Join(c.Out, "cache"))
	return c, nil
}

// under returns a function that records problems of keys below another key.
func under(d *strictyaml.Document, key string) func(string, string, ...any) {
	return func(k, format string, args ...any) { d.Want(false, key+"."+k, format, args...) }
}

// wantFile records a problem if a path does not exist; "" is allowed.
func wantFile(d *strictyaml.Document, path, key string) {
	if path == "" {
		return
	}
	if _, err := os.Stat(path); err != nil {
		var e *os.PathError
		if errors.As(err, &e) {
			err = e.Err
		}
		d.Want(false, key, "%s: %v", path, err)
	}
}

// Check returns all problems of the values, for a configuration that a program has changed: [Load] checks files.
func (c *Config) Check() error {
	var d strictyaml.Document
	c.check(&d)
	return d.Err()
}

func (c *Config) check(d *strictyaml.Document) {
	d.Want(c.Out != "", "out", "want the output folder")
	_, err := heuristics.ParseProfile(c.Profile)
	d.Want(err == nil, "profile", "%v", err)
	if c.Preset != "" {
		_, ok := presets[c.Preset]
		d.Want(ok, "preset", "is the old name of profile: set profile to one of %v instead of %q",
			heuristics.ProfileNames(), c.Preset)
		d.Want(c.Profile == heuristics.ProfilePaper, "preset", "is the old name of profile: set only one of them")
	}
	d.Want(len(c.Sources) > 0, "sources", "want a list of data sets")
	names := map[string]bool{}
	for i := range c.Sources {
		s := &c.Sources[i]
		key := fmt.Sprintf("sources[%d]", i)
		s.check(d, key)
		d.Want(!names[s.Name], key+".name", "two sources %q: give them different names", s.Name)
		names[s.Name] = true
	}
	c.Rules.Check(under(d, "rules"))
	c.Chains.Check(under(d, "chains"))
	d.Want(c.Foreign.Instructions >= 0, "foreign.instructions", "want at least 0, not %d", c.Foreign.Instructions)
	c.Encoders.check(d)
	d.Want(0 <= c.Split.Validation && c.Split.Validation < 1, "split.validation", "want a share from 0 to below 1, not %v",
		c.Split.Validation)
	d.Want(0 <= c.Guard.Distance && c.Guard.Distance <= nearcopy.MaxDistance, "guard.distance",
		"want 0 to %d bits, not %d", nearcopy.MaxDistance, c.Guard.Distance)
	for i, folder := range c.Guard.Folders {
		wantFile(d, folder, fmt.Sprintf("guard.folders[%d]", i))
	}
	d.Want(c.Pictures == PicturesEmbed || c.Pictures == PicturesFiles, "pictures", "want embed, files, not %q", c.Pictures)
	d.Want(c.Unlabelled == "keep" || c.Unlabelled == "drop", "unlabelled", "want keep, drop, not %q", c.Unlabelled)
	d.Want(0 <= c.MaxBad && c.MaxBad <= 1, "max_bad", "want a share from 0 to 1, not %v", c.MaxBad)
	d.Want(c.Workers >= 0, "workers", "want at least 0 (one per core), not %d", c.Workers)
}

func (s *SourceConfig) check(d *strictyaml.Document, key string) {
	l, ok := readers.Lookup(s.Layout)
	if !ok {
		var names []string
		for _, l := range readers.Layouts() {
			names = append(names, l.Name)
		}
		d.Want(false, key+".layout", "want one of %v, not %q", names, s.Layout)
		return
	}
	d.Want(s.Path != "", key+".path", "want the data set's file or folder")
	if l.Many {
		_, err := readers.Files(s.Path)
		d.Want(s.Path == "" || err == nil, key+".path", "%v", err)
	} else {
		wantFile(d, s.Path, key+".path")
	}
	wantFile(d, s.Pictures, key+".pictures")
	d.Want(s.Split == "" || s.Split == splitOwn || slices.Contains(splitNames, s.Split), key+".split",
		"want own or one of %v, not %q", splitNames, s.Split)
	for field := range s.Columns {
		_, ok := l.Fields[field]
		d.Want(ok, key+".columns", "layout %s has no field %q, only %v", s.Layout, field, slices.Sorted(maps.Keys(l.Fields)))
	}
	for option, given := range map[string]bool{"tasks": len(s.Tasks) > 0, "chains": s.Chains, "drop": len(s.Drop) > 0} {
		d.Want(!given || slices.Contains(l.Takes, option), key+"."+option, "layout %s has none: leave it out", s.Layout)
	}
	_, one := l.Fields["label"]
	_, each := l.Fields["left_score"]
	d.Want(len(s.LabelRange) == 0 || one || each, key+".label_range",
		"layout %s has no human labels: leave it out", s.Layout)
	d.Want(len(s.LabelRange) == 0 || len(s.LabelRange) == 2 && s.LabelRange[0] < s.LabelRange[1], key+".label_range",
		"want [lowest, highest], not %v", s.LabelRange)
	if s.Profile != "" {
		_, err := heuristics.ParseProfile(s.Profile)
		d.Want(err == nil, key+".profile", "%v", err)
	}
	s.Name = cmp.Or(s.Name, s.Layout)
}

func (e *EncoderConfig) check(d *strictyaml.Document) {
	wantFile(d, e.Clip, "encoders.clip")
	wantFile(d, e.Dino, "encoders.dino")
	d.Want(ort.IsDevice(e.Device), "encoders.device", "want auto, cpu or cuda:N, not %q", e.Device)
	d.Want(e.Threads >= 0, "encoders.threads", "want at least 0 (all cores), not %d", e.Threads)
	d.Want(e.Batch > 0, "encoders.batch", "want at least 1, not %d", e.Batch)
	d.Want(e.CacheSize >= 1, "encoders.cache_size", "want at least one byte, not %v", e.CacheSize)
	d.Want(e.ClipD == heuristics.DirectionRaw || e.ClipD == heuristics.DirectionUnit, "encoders.clip_d",
		"want raw, unit, not %q", e.ClipD)
	d.Want(e.Given == "keep" || e.Given == "replace", "encoders.given", "want keep, replace, not %q", e.Given)
}

// options returns the options that the source's reader is opened with.
func (s *SourceConfig) options(out string) readers.Options {
	o := readers.Options{
		Path:     s.Path,
		Pictures: s.Pictures,
		Columns:  s.Columns,
		Editor:   s.Editor,
		Tasks:    s.Tasks,
		Chains:   s.Chains,
		Drop:     s.Drop,
		Profile:  s.Profile,
		Unpack:   filepath.Join(out, "unpacked", s.Name),
	}
	if len(s.LabelRange) == 2 {
		o.LabelRange = [2]float64(s.LabelRange)
	}
	return o
}
