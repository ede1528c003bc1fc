package released_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"assay/edit"
	"assay/internal/oracle"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/model/batch"
	"assay/released"
)

// TestChoicesTrain compares the training of a head of choices with torch (tools/oracle/choices_train.py): the loss, and
// its gradients with respect to the answers' rows and to the backbone. The rows are then part of the scorer.
func TestChoicesTrain(t *testing.T) {
	if os.Getenv("ASSAY_ORACLE") != "" {
		t.Skip("testdata/choices_train.json belongs to the repository's fixtures")
	}
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "logits")
		c := oracle.Read[map[string]*choicesJudge](t, filepath.Join(dir, "judges.json"))["yes_no"]
		o := c.options(t, s, dir)
		o.Out = filepath.Join(t.TempDir(), "scorer")
		if _, err := released.Import("choices", o); err != nil {
			t.Fatal(err)
		}
		p, err := model.LoadScorerState(o.Out)
		if err != nil {
			t.Fatal(err)
		}
		half := 0.5
		u, err := model.NewTuner(p, model.TuneOptions{Options: model.Options{Device: "cpu", Threads: 1}, Full: true,
			Terms: []losses.Spec{{Kind: "classes"}, {Kind: "l1", Weight: &half}}})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		want := oracle.Read[struct {
			Loss  float64
			Cases []struct {
				Case  int
				Label float64
			}
		}](t, filepath.Join("testdata", "choices_train.json"))
		grads := oracle.Tensors(t, filepath.Join("testdata", "choices_train.safetensors"))
		var samples []*batch.Sample
		items := make([][]losses.Item, 2)
		for i, q := range want.Cases {
			of := c.Cases[q.Case]
			sample, err := u.Sample(edit.New(s.picture(t, of.Source), s.picture(t, of.Edited), of.Instruction),
				model.Ask{Pixels: true})
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, sample)
			for k := range items {
				items[k] = append(items[k], losses.Item{Edits: []int{i}, Label: q.Label, Weight: 0.5})
			}
		}
		r, err := u.Step(context.Background(), samples, model.StepInput{Items: items, Weight: 0.5})
		if err != nil {
			t.Fatal(err)
		}
		near(t, "loss", (r.Loss[0]+r.Loss[1])/2, want.Loss)
		seen := 0
		for name, g := range r.Grads {
			key := lora.Canonical(name)
			if name == "heads.question.rows" {
				key = "rows"
			}
			if w := grads[key]; w != nil {
				oracle.Close(t, name, g.Float32s(), w.Float32s(), 1e-7, 1e-4)
				seen++
			}
		}
		if seen != len(grads) {
			t.Errorf("%d of %d gradients were found", seen, len(grads))
		}
		// The trained rows are saved, and used by the scorer.
		names, values := u.Params()
		for i, name := range names {
			if name == "heads.question.rows" {
				values[i].Float32s()[0] += 1
			}
		}
		again := filepath.Join(t.TempDir(), "trained")
		if err := os.Mkdir(again, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := u.SaveScorer(again); err != nil {
			t.Fatal(err)
		}
		scores, err := u.Scorer.Score01(context.Background(), samples)
		if err != nil {
			t.Fatal(err)
		}
		opened, err := model.OpenScorer(again, model.Options{Device: "cpu", Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer opened.Close()
		for i, v := range scores {
			j, err := opened.ScoreSamples(context.Background(), []*batch.Sample{samples[i]})
			if err != nil {
				t.Fatal(err)
			}
			near(t, "score of the scorer that was saved", j[0].Score01, v)
			if r.Score[i] == v {
				t.Errorf("the rows changed, and the score %g did not", v)
			}
		}
	})
}
