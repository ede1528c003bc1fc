package released_test

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/oracle"
	"assay/model"
	"assay/model/batch"
	"assay/released"
)

// TestTogether: scores are the same alone, in a batch, and in a batch of another order, to the last bit.
func TestTogether(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		scorer := open(t, "editreward", released.Options{
			Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"), Prompts: filepath.Join(dir, "prompts"),
			Config: filepath.Join(dir, all.Cases[0].Config), Copy: true,
		})
		var samples []*batch.Sample
		for _, c := range all.Cases {
			samples = append(samples, prepare(t, scorer, c.pair(t, s)))
		}
		more := all.Cases[0].pair(t, s)
		more.Sources = append(more.Sources, more.Sources[0])
		const refused = "the edit has 2 sources, and this judge looks at 1"
		if _, err := scorer.Sample(more, model.Ask{}); err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("two sources: got %v, want an error with %q", err, refused)
		}
		together, err := scorer.ScoreSamples(t.Context(), samples)
		if err != nil {
			t.Fatal(err)
		}
		backwards := slices.Clone(samples)
		slices.Reverse(backwards)
		scores, err := scorer.Score01(t.Context(), backwards)
		if err != nil {
			t.Fatal(err)
		}
		slices.Reverse(scores)
		for i, sample := range samples {
			alone := judge(t, scorer, sample)
			if alone.Score01 != together[i].Score01 || alone.Sigma != together[i].Sigma || alone.Score01 != scores[i] {
				t.Errorf("case %d: %v alone, %v and %g among others", i, alone, together[i], scores[i])
			}
		}
	})
}

// TestDimension: a dimension is one head, with only the pass that it needs, and different scorers have different
// fingerprints.
func TestDimension(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "editreward")
		all := oracle.Read[editSuite](t, filepath.Join(dir, "cases.json"))
		o := released.Options{
			Base: filepath.Join(dir, "base"), Weights: filepath.Join(dir, "weights"), Prompts: filepath.Join(dir, "prompts"),
			Config: filepath.Join(dir, all.Cases[0].Config), Out: filepath.Join(t.TempDir(), "scorer"),
		}
		if r, err := released.Import("editreward", o); err != nil || r.Published || len(r.Warnings) != 2 {
			t.Fatalf("%+v, %v: the prompts are not the published ones", r, err)
		}
		prints := map[string]string{}
		note := func(what string, s *model.Scorer) {
			print, err := s.Fingerprint()
			if err != nil {
				t.Fatal(err)
			}
			if other := prints[print]; other != "" {
				t.Errorf("%s and %s have the same fingerprint", what, other)
			}
			prints[print] = what
		}
		note("all", openDir(t, o.Out, ""))
		for i, want := range all.Cases[0].Passes {
			one := openDir(t, o.Out, want.Name)
			note(want.Name, one)
			sample := prepare(t, one, all.Cases[0].pair(t, s))
			j := judge(t, one, sample)
			near(t, want.Name, j.Score01, want.Mu)
			near(t, "log of sigma", math.Log(j.Sigma), want.LogSigma)
			if len(j.Dimensions) != 1 || len(readings(t, one, sample)) != 1 {
				t.Errorf("dimension %d of %v needs one pass", i, j.Dimensions)
			}
		}
		if _, err := model.OpenScorer(o.Out, model.Options{Dimension: "looks"}); err == nil ||
			!strings.Contains(err.Error(), "following, quality") {
			t.Errorf("error %v, want one that names the dimensions", err)
		}
		for from, to := range map[string]string{
			"positions: plain": "positions: own", "rotary: bfloat16": "rotary: float32", "alpha: drop": "alpha: white",
			"fusion: mean": "fusion: min",
		} {
			note(to, openDir(t, changed(t, o.Out, from, to), ""))
		}
		for want, change := range map[string][2]string{
			`unknown field "pair"`:  {"kind: heads", "kind: heads\npair: sequence"},
			"one of at, before":     {"position: at", "position: behind"},
			"there is no head":      {"heads: [following]", "heads: [looks]"},
			"contain the token":     {"token: <|Reward|>", "token: <|Other|>"},
			"unknown field":         {"kind: heads", "kind: heads\nthreshold: 3"},
			"shape":                 {"hidden: [1024, 16]", "hidden: [1024, 17]"},
			"one of mean, min":      {"fusion: mean", "fusion: median"},
			`unknown field "`:       {"format: 2", "format: 1"},
			"formats 1 and 2":       {"format: 2", "format: 3"},
			"cannot be":             {"least: ", "least: 9"},
			"one of own, plain":     {"positions: plain", "positions: mrope"},
			"score_range: want [lo": {"score_range: none", "score_range: 7"},
			"pass following is not": {"Compare the", "Compare an"},
		} {
			if want == "shape" {
				want = "is float32"
			}
			if want == "one of mean, min" {
				want = "score.fusion"
			}
			if _, err := model.OpenScorer(changed(t, o.Out, change[0], change[1]), model.Options{}); err == nil ||
				!strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v, want one about %q", change[1], err, want)
			}
		}
	})
}

// changed copies a scorer directory to a folder next to it, with another text in scorer.yaml.
func changed(t *testing.T, dir, from, to string) string {
	t.Helper()
	out, err := os.MkdirTemp(filepath.Dir(dir), "changed")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{model.ConfigFile, model.HeadFile} {
		raw, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if name == model.ConfigFile {
			if !strings.Contains(string(raw), from) {
				t.Fatalf("%s does not contain %q", name, from)
			}
			raw = []byte(strings.Replace(string(raw), from, to, 1))
		}
		if err := os.WriteFile(filepath.Join(out, name), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return out
}
