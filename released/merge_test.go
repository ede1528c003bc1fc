package released_test

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/model/backbone"
	"assay/released"
)

// merged merges a scorer directory, and opens the result.
func merged(t *testing.T, dir string) (*model.Scorer, *lora.MergeResult) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "merged")
	r, err := model.MergeScorer(t.Context(), dir, lora.MergeOptions{Out: out})
	if err != nil {
		t.Fatal(err)
	}
	return openDir(t, out, ""), r
}

// TestMergeImported merges an imported judge and its base into one folder. It has the same scores to the last bit,
// the same gradient, and a checkpoint that opens without the judge's own names.
func TestMergeImported(t *testing.T) {
	long.Test(t)
	each(t, func(t *testing.T, s suite) {
		edit, hps := filepath.Join(s.dir, "editreward"), filepath.Join(s.dir, "hpsv3")
		flat := filepath.Join(t.TempDir(), "flat")
		writeFlat(t, filepath.Join(edit, "weights", "model.safetensors"), flat)
		cases := oracle.Read[editSuite](t, filepath.Join(edit, "cases.json"))
		question := filepath.Join(t.TempDir(), "question.txt")
		if err := os.WriteFile(question, []byte("Is {instruction} done?"), 0o666); err != nil {
			t.Fatal(err)
		}
		pair := cases.Cases[0].pair(t, s)
		for _, c := range []struct {
			kind  string
			o     released.Options
			files string // of the weights
		}{
			{"editreward", released.Options{Base: filepath.Join(edit, "base"), Weights: filepath.Join(edit, "weights"),
				Config: filepath.Join(edit, cases.Cases[0].Config), Prompts: filepath.Join(edit, "prompts")},
				checkpoints.SingleFile},
			{"editreward", released.Options{Base: filepath.Join(edit, "base"), Weights: flat, Copy: true,
				Config: filepath.Join(edit, cases.Cases[0].Config), Prompts: filepath.Join(edit, "prompts")},
				checkpoints.IndexFile},
			{"hpsv3", released.Options{Base: filepath.Join(hps, "base"), Weights: filepath.Join(hps, "HPSv3.safetensors"),
				Prompts: filepath.Join(hps, "prompts")}, checkpoints.SingleFile},
			{"adiee", released.Options{Weights: filepath.Join(s.dir, "adiee", "classifier"), Prompts: question},
				checkpoints.SingleFile},
			{"adiee", released.Options{Weights: filepath.Join(s.dir, "adiee", "regressor"), Prompts: question},
				checkpoints.IndexFile},
		} {
			if c.kind == "adiee" {
				c.o.PairSize = []int{32, 32}
			}
			scorer := open(t, c.kind, c.o)
			dir := filepath.Join(t.TempDir(), "scorer")
			c.o.Out = dir
			if _, err := released.Import(c.kind, c.o); err != nil {
				t.Fatal(err)
			}
			one, r := merged(t, dir)
			config := one.Config()
			if r.Weights != 0 || config.Weights != "" || len(config.Origin.Weights)+len(config.Origin.Base) > 0 {
				t.Errorf("%s: %+v, %+v", c.kind, r, config.Origin)
			}
			if _, err := os.Stat(filepath.Join(config.Backbone, c.files)); err != nil {
				t.Error(err)
			}
			b, err := backbone.OpenBackbone(config.Backbone)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range b.Weights.Names() {
				if strings.HasPrefix(name, "vlm.") || strings.Contains(name, "rm_head") || strings.Contains(name, "decoder.4") {
					t.Errorf("%s: %s is not the backbone's", c.kind, name)
				}
			}
			b.Close()
			asked := *pair
			if c.kind == "hpsv3" {
				asked.Sources = nil
			}
			want, got := gradient(t, scorer, &asked), gradient(t, one, &asked)
			if got.Score01 != want.Score01 || got.Score.Sigma != want.Score.Sigma {
				t.Errorf("%s: %+v in one folder, %+v in two", c.kind, got.Score, want.Score)
			}
			oracle.Close(t, "gradient", got.Output.Values, want.Output.Values, 0, 0)
			if c.kind == "hpsv3" { // separate weights train only with an adapter; in one folder all of them train
				trainsWhole(t, dir, config.Backbone)
			}
		}
	})
}

func trainsWhole(t *testing.T, apart, whole string) {
	t.Helper()
	for _, dir := range []string{apart, whole} {
		p, err := model.LoadScorerState(dir)
		if err != nil {
			t.Fatal(err)
		}
		u, err := model.NewTuner(p, model.TuneOptions{Options: model.Options{Device: "cpu", Threads: 1}, Full: true,
			Terms: []losses.Spec{{Kind: "l1"}}})
		if err == nil {
			u.Close()
		}
		if (err == nil) != (dir == whole) || dir == apart && !strings.Contains(err.Error(), "train merge --scorer") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestMergeAdapted merges an adapter over an imported judge, and one over a stock model that is asked for choices.
// The scores stay the same, and so do the outputs of an export of the result.
func TestMergeAdapted(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		var pair *edit.Edit
		for _, c := range []struct {
			name  string
			moves float64 // the score, on 0..1
		}{{"regressor", 1e-4}, {"classifier", 0.01}} { // float32; bfloat16: merging rounds the sum to 8 bits
			weights := filepath.Join(s.dir, "adiee", c.name)
			all := oracle.Read[adieeSuite](t, filepath.Join(weights, "cases.json"))
			o := released.Options{Weights: weights, PairSize: all.PairSize, Answer: all.Cases[0].Forced.Answer,
				Prompts: filepath.Join(t.TempDir(), "question.txt"), Out: filepath.Join(t.TempDir(), "scorer")}
			if err := os.WriteFile(o.Prompts, []byte("Is {instruction} done?"), 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := released.Import("adiee", o); err != nil {
				t.Fatal(err)
			}
			pair = edit.New(s.picture(t, all.Cases[0].Source), s.picture(t, all.Cases[0].Edited), all.Cases[0].Instruction)
			checkAdapted(t, o.Out, pair, c.moves)
		}

		logits := filepath.Join(s.dir, "logits")
		c := oracle.Read[map[string]*choicesJudge](t, filepath.Join(logits, "judges.json"))["yes_no"]
		o := c.options(t, s, logits)
		o.Out = filepath.Join(t.TempDir(), "choices")
		if _, err := released.Import("choices", o); err != nil {
			t.Fatal(err)
		}
		checkAdapted(t, o.Out, pair, 1e-4)
	})
}

// addAdapter adds an adapter to a scorer that changes its scores.
func addAdapter(t *testing.T, p *model.ScorerState) {
	t.Helper()
	weights := p.Config.Weights
	if weights == "" {
		weights = p.Config.Backbone
	}
	b, err := backbone.OpenBackboneWith(p.Config.Backbone, weights)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p.Adapter, err = lora.New(lora.NewConfig(4, 8, lora.Names{List: []string{"q_proj", "v_proj"}}),
		lora.Modules(b.Weights), 7)
	if err != nil {
		t.Fatal(err)
	}
	for name, v := range p.Adapter.Tensors {
		if strings.Contains(name, "lora_B") {
			for i := range v.Float32s() {
				v.Float32s()[i] = float32(i%7-3) / 50
			}
		}
	}
}

// checkAdapted merges an adapter; the score may change by the rounding to the stored type.
func checkAdapted(t *testing.T, dir string, pair *edit.Edit, moves float64) {
	t.Helper()
	p, err := model.LoadScorerState(dir)
	if err != nil {
		t.Fatal(err)
	}
	addAdapter(t, p)
	adapted := filepath.Join(filepath.Dir(dir), "adapted")
	if err := os.Mkdir(adapted, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := p.Save(adapted); err != nil {
		t.Fatal(err)
	}
	plain, scorer := openDir(t, dir, ""), openDir(t, adapted, "")
	one, r := merged(t, adapted)
	if r.Weights != len(p.Adapter.Targets) {
		t.Errorf("%d merged weights of %d", r.Weights, len(p.Adapter.Targets))
	}
	sample := prepare(t, scorer, pair)
	want := judge(t, scorer, sample).Score01
	sum := judge(t, one, sample).Score01
	t.Logf("merged: %g instead of %g", sum, want)
	if !(math.Abs(sum-want) <= moves) {
		t.Errorf("score of the merged scorer: %g, want %g", sum, want)
	}
	if was := judge(t, plain, sample).Score01; !(math.Abs(was-want) >= max(1e-4, 2*math.Abs(sum-want))) {
		t.Errorf("the adapter does nothing: %g and %g", was, want)
	}
	for s, says := range map[*model.Scorer]float64{scorer: want, one: sum} {
		e := openExport(t, s)
		near(t, "score of the export", number(e.state(t, sample.IDs[:sample.ScoreIndex+1], sample), "score01"), says)
	}
}
