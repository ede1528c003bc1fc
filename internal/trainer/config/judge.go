package config

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/strictyaml"
	"assay/lora"
	"assay/losses"
	"assay/model"
)

// readJudge checks whether the run trains a scorer of format 2: scorer is the file of a new one, init the directory
// of a trained one.
func (c *Config) readJudge(d *strictyaml.Document, folder string) {
	file, key := strictyaml.Absolute(folder, c.Scorer), "scorer"
	if c.Scorer == "" {
		if c.Init == "" {
			return
		}
		file, key = filepath.Join(strictyaml.Absolute(folder, c.Init), model.ConfigFile), "init"
	}
	if _, err := os.Stat(file); err != nil && key == "init" { // reported later
		return
	}
	judge, err := model.ReadScorerConfig(file)
	switch {
	case key == "init" && (err != nil || judge.Format != 2): // reported later, as for format 1
		return
	case err != nil:
		d.Problem(key, "%v", err)
		return
	case judge.Format != 2:
		d.Problem(key, "%s has format %d: a scorer of format 1 is configured by the keys of the run", file, judge.Format)
		return
	}
	if c.Init != "" && c.Scorer != "" {
		d.Problem("scorer", "init already has a scorer: set only one of the two")
	}
	usual := Default() // what config.yaml of such a run has
	usual.Question, usual.Answer = Strings{""}, Strings{""}
	now, empty := c.values(), usual.values()
	for _, k := range formatOneKeys {
		if d.Has(k) && !sameValue(now, empty, k) {
			d.Problem(k, "belongs to scorers of format 1; here %s sets it", file)
		}
	}
	c.takeJudge(d, judge, folder)
}

// takeJudge takes from a scorer of format 2 what the configuration does not set.
func (c *Config) takeJudge(d *strictyaml.Document, judge *model.ScorerConfig, folder string) {
	c.Judge = judge
	c.Backbone = cmp.Or(c.Backbone, judge.Backbone)
	if d.Has("dtype") && c.Dtype != "auto" { // as with a scorer of format 1, it may be changed
		judge.DType = c.Dtype
	}
	// Format 1 questions are not used, and config.yaml records that.
	c.Question, c.Answer, c.Dtype = Strings{""}, Strings{""}, judge.DType
	if c.Init != "" {
		if a, err := lora.LoadConfig(strictyaml.Absolute(folder, c.Init)); err == nil && !d.Has("lora") {
			c.takeAdapter(a)
		}
	}
}

// Classes returns the names of unordered classes by dimension.
func (c *Config) Classes() map[string][]string {
	out := map[string][]string{}
	if c.Judge != nil {
		for name, h := range c.Judge.Heads {
			if len(h.Names) > 0 {
				out[name] = h.Names
			}
		}
	}
	return out
}

// checkTerm checks a term against the heads of a scorer of format 2.
func (c *Config) checkTerm(d checker, key string, s *losses.Spec, row *losses.Row) {
	d.Want(row.Over != losses.Tokens, key+".kind", "a scorer of format 2 learns no text")
	if row.Over == losses.Tokens {
		return
	}
	d.Want(!s.Fused || s.Dimension == "", key+".fused",
		"a fused term has no dimension: it learns from the labels of the score")
	d.Want(!s.Fused || len(c.Judge.Score.Of) > 0, key+".fused", "no head has a score to fuse")
	name, head, err := c.Judge.HeadOf(s)
	if err != nil {
		d.Problem(key+".dimension", "%v", err)
		return
	}
	d.Want(len(head.Names) == 0 || s.Kind == "classes", key+".kind",
		"the classes of heads.%s have no order: want classes, not %s", name, s.Kind)
	d.Want(row.Outputs == losses.Value || row.Outputs == head.LossOutputs(), key+".kind",
		"%s needs a head with outputs: %s; heads.%s has %s", s.Kind, row.Outputs, name, head.Outputs)
}

// checkFused refuses a new scorer of format 2 whose score includes a head that no term trains: it would keep its
// random initialization.
func (c *Config) checkFused(d checker) {
	if c.Judge == nil || c.Judge.Score == nil || c.Init != "" || len(c.Losses) == 0 {
		return
	}
	for _, name := range c.Judge.Score.Of {
		d.Want(c.Trains(name), "losses", "no loss trains heads.%s, but the score includes it: add a term with dimension: "+
			"%s, or leave it out of score.of in %s", name, name, c.Scorer)
	}
}

// Trains reports whether a term of the losses trains a head of a scorer of format 2, directly or through the fusion.
func (c *Config) Trains(head string) bool {
	return slices.ContainsFunc(c.Losses, func(s losses.Spec) bool {
		if s.Factor() == 0 || s.Over() == losses.Tokens {
			return false
		}
		if s.Fused {
			return slices.Contains(c.Judge.Score.Of, head)
		}
		name, _, err := c.Judge.HeadOf(&s)
		return err == nil && name == head
	})
}
