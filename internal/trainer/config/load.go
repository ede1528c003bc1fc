package config

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/goccy/go-yaml"

	"assay/internal/remote"
	"assay/internal/strictyaml"
	"assay/lora"
	"assay/model"
)

// Load reads a run's YAML file. The error lists every problem with file and line (a strictyaml.Problems), or says why
// the file cannot be read. All paths of the result are absolute.
func Load(path string) (*Config, error) {
	text, folder, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := Default()
	d := strictyaml.Decode(path, text, c)
	if d.Unreadable {
		return nil, d.Err()
	}
	if err := c.fetch(d, folder); err != nil {
		return nil, err
	}
	if c.Mode != ModeText {
		c.readJudge(d, folder)
	}
	if c.Mode == ModeText && c.Init != "" && !d.Bad("init") {
		c, d = withAdapter(path, text, strictyaml.Absolute(folder, c.Init), c, d)
	} else if c.Init != "" && !d.Bad("init") && c.Judge == nil {
		base := Default()
		if err := base.fromScorer(strictyaml.Absolute(folder, c.Init)); err != nil {
			d.Problem("init", "%v", err)
		} else {
			d = strictyaml.Decode(path, text, base)
			keepsScorer(d, base, c.Init)
			c = base
		}
	}
	if err := c.fetch(d, folder); err != nil { // the keys that were decoded again
		return nil, err
	}
	c.settle(d, folder)
	c.check(d)
	if err := d.Err(); err != nil {
		return nil, err
	}
	return c, nil
}

// settle makes paths absolute, and fills in what follows from the keys that are set.
func (c *Config) settle(d *strictyaml.Document, folder string) {
	if c.Lora.Targets.wholePaths() && !d.Has("lora.parts") {
		c.Lora.Parts = lora.Parts() // an expression for whole paths selects the parts itself
	}
	c.refuseStorage(d)
	if d.Has("backbone") && c.Backbone != "" {
		c.Backbone = strictyaml.Absolute(folder, c.Backbone)
	}
	c.Optimizer.Groups.settle(c)
	c.inheritSchedules(d)
	for _, p := range []*string{&c.Init, &c.Scorer, &c.Out, &c.Cache.Folder} {
		*p = strictyaml.Absolute(folder, *p)
	}
	for _, tables := range []Strings{c.Data.Train, c.Data.Validation.Tables} {
		for i := range tables {
			tables[i] = strictyaml.Absolute(folder, tables[i])
		}
	}
	if b := c.Validate.Benchmark; b != nil {
		for _, p := range []*string{&b.Ratings, &b.Images, &b.Votes, &b.Targets} {
			*p = strictyaml.Absolute(folder, *p)
		}
	}
	c.settleText()
	c.settleGRPO(d, folder)
	c.settleTrain(checker{d})
	if c.Steps > 0 && !d.Has("epochs") {
		c.Epochs = 0
	}
	if c.compares() && !d.Has("data.sampling") {
		c.Data.Sampling = WholeGroups
	}
	if d.Has("losses") && d.Has("loss") {
		d.Problem("loss", "conflicts with losses, which is the complete objective (its text term is {kind: text})")
	}
}

// refuseStorage refuses object storage URLs: as paths they would be folders on this machine.
func (c *Config) refuseStorage(d *strictyaml.Document) {
	paths := map[string][]string{
		"backbone": {c.Backbone}, "init": {c.Init}, "scorer": {c.Scorer}, "out": {c.Out}, "cache.folder": {c.Cache.Folder},
		"data.train": c.Data.Train, "data.validation": c.Data.Validation.Tables,
	}
	for key, r := range c.scoringRewards() {
		paths[key] = []string{r.Judge}
	}
	for _, key := range slices.Sorted(maps.Keys(paths)) {
		for _, path := range paths[key] {
			if problem := remote.Refuse("training", path); problem != "" {
				d.Problem(key, "%s", problem)
			}
		}
	}
}

// fromScorer takes the settings of a scorer directory as the defaults of a run that starts from it.
func (c *Config) fromScorer(dir string) error {
	a, noAdapter := lora.LoadConfig(dir)
	if BareAdapter(dir) && !errors.Is(noAdapter, fs.ErrNotExist) {
		return c.fromAdapter(a, noAdapter)
	}
	scorer, err := model.ReadScorerConfig(filepath.Join(dir, model.ConfigFile))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("not a scorer directory: %w", err)
	} else if err != nil {
		return err
	}
	c.takeOnePass(scorer.OnePass())
	if noAdapter == nil {
		c.takeAdapter(a)
	} else if !errors.Is(noAdapter, fs.ErrNotExist) {
		return noAdapter
	}
	return nil
}

// fromAdapter takes the settings of a bare PEFT adapter as the defaults of a run that starts from it: its layers, and
// its backbone if that is a folder on this machine.
func (c *Config) fromAdapter(a *lora.Config, err error) error {
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(a.Base, "config.json")); err == nil && filepath.IsAbs(a.Base) {
		c.Backbone = a.Base
	}
	c.takeAdapter(a)
	return nil
}

// takeAdapter takes the layers and ranks of an adapter. Dropout only affects training, so the run's own is kept.
func (c *Config) takeAdapter(a *lora.Config) {
	dropout := c.Lora.Dropout
	c.Lora = LoraConfigOf(a)
	c.Lora.Dropout = dropout
}

// BareAdapter reports whether init is a PEFT adapter without a scorer.yaml.
func BareAdapter(init string) bool {
	_, err := os.Stat(filepath.Join(init, model.ConfigFile))
	return errors.Is(err, fs.ErrNotExist)
}

// keepsScorer refuses settings that contradict init's weights: another head or score token. (Comparing the adapter
// needs the backbone: see checkSameAdapter.)
func keepsScorer(d *strictyaml.Document, c *Config, init string) {
	was := Default()
	dir := strictyaml.Absolute(filepath.Dir(d.File), init)
	if err := was.fromScorer(dir); err != nil || BareAdapter(dir) {
		return // already reported, or there is nothing to keep
	}
	if d.Has("score_token") && !d.Bad("score_token") && c.ScoreToken != was.ScoreToken {
		d.Problem("score_token",
			"%q here, but the scorer of init was trained with %q and includes its rows: leave this key out", c.ScoreToken,
			was.ScoreToken)
	}
	if d.Has("head") && !d.Bad("head") && !sameValue(c.values(), was.values(), "head") {
		head, _ := yaml.Marshal(was.Head)
		d.Problem("head", "the scorer of init has another head:\n%s", head)
	}
}

// Departures lists the settings of init's scorer that this run changes, in readable form. They do not contradict its
// weights, which can adapt, but the scorer was trained with other values.
func (c *Config) Departures() []string {
	was := Default()
	if c.Init == "" || c.Judge != nil || BareAdapter(c.Init) || was.fromScorer(c.Init) != nil {
		return nil
	}
	var out []string
	before, now := was.values(), c.values()
	for _, key := range append(slices.Clone(formatOneKeys), "dtype") {
		if a, b := before[key], now[key]; a != b {
			out = append(out, fmt.Sprintf("%s: %q in the scorer of init, %q in this run", key, a, b))
		}
	}
	return out
}

// Loadable returns YAML without the key loss if losses replaces it: Load refuses both.
func (c *Config) Loadable() ([]byte, error) {
	text, err := c.YAML()
	if err != nil || len(c.Losses) == 0 {
		return text, err
	}
	var all yaml.MapSlice
	if err := yaml.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(item yaml.MapItem) bool { return item.Key == "loss" })
	return yaml.MarshalWithOptions(all, yaml.Flow(false), yaml.IndentSequence(true))
}

// YAML returns the configuration with every key.
func (c *Config) YAML() ([]byte, error) {
	return yaml.MarshalWithOptions(c, yaml.Flow(false), yaml.IndentSequence(true))
}
