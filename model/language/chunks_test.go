package language_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"assay/internal/oracle"
	"assay/lora"
	"assay/model"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/language"
	"assay/model/nn"
	"assay/model/text"
)

// TestLossInChunks: losses, likeliest tokens and gradients of answers in chunks of rows equal those in one piece, with
// and without a padded last chunk.
func TestLossInChunks(t *testing.T) {
	for _, family := range []string{"llavanext", "qwen2_vl"} { // with its own lm_head, and with a tied one
		for name, adapts := range map[string]bool{"adapter": true, "every weight": false} {
			t.Run(family+", "+name, func(t *testing.T) {
				dir := filepath.Join("../../testdata/oracle", family, "backbone")
				whole, samples := tuner(t, dir, adapts, 0)
				weights := []float64{0.25, 0.75}
				want, err := whole.Step(t.Context(), samples, weights, 0)
				if err != nil {
					t.Fatal(err)
				}
				n := samples[0].Targets() + samples[1].Targets()
				for _, rows := range []int{5, 8, n - 1, n} { // n: in one piece
					chunks, _ := tuner(t, dir, adapts, rows)
					got, err := chunks.Step(t.Context(), samples, weights, 0)
					if err != nil {
						t.Fatal(err)
					}
					for i, w := range want.Loss {
						oracle.Close(t, "loss", []float32{float32(got.Loss[i])}, []float32{float32(w)}, 1e-6, 1e-6)
					}
					for p, w := range want.Grads {
						oracle.Close(t, p, got.Grads[p].Float32s(), w.Float32s(), 1e-7, 1e-5)
					}
					a, err := whole.Measure(t.Context(), samples)
					if err != nil {
						t.Fatal(err)
					}
					b, err := chunks.Measure(t.Context(), samples)
					if err != nil {
						t.Fatal(err)
					}
					if d := cmp.Diff(a.Right, b.Right); d != "" {
						t.Errorf("%d rows in a chunk: likeliest tokens (-in one piece +in chunks): %s", rows, d)
					}
				}
			})
		}
	}
}

// TestPolicyInChunks: log-probabilities of answers and the gradients of their policy loss in chunks of rows equal those
// in one piece.
func TestPolicyInChunks(t *testing.T) {
	dir := filepath.Join("../../testdata/oracle", "qwen2_vl", "backbone")
	policy := nn.Policy{Temperature: 0.8, Beta: 0.1, EpsilonLow: 0.2, EpsilonHigh: 0.3}
	run := func(rows int) ([][]float64, *language.AnswersResult) {
		u, _ := tuner(t, dir, true, rows)
		prompt, err := u.Question(language.Conversation{Messages: []text.Message{
			{Role: "user", Content: []text.Content{{Text: "What is there to see?"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var samples []*batch.Sample
		var answers []language.Answer
		for i, ids := range [][]int64{{5, 9, 40, 7, 300, 12}, {8, 8, 21}, {300, 2, 77, 50}} {
			samples = append(samples, language.Answered(prompt, ids))
			answers = append(answers, language.Answer{Sample: samples[i], Advantage: float64(i) - 1.5, Weight: 0.1})
		}
		old, err := u.LogProbs(t.Context(), samples, policy.Temperature, false)
		if err != nil {
			t.Fatal(err)
		}
		base, err := u.LogProbs(t.Context(), samples, policy.Temperature, true)
		if err != nil {
			t.Fatal(err)
		}
		for i := range answers {
			answers[i].Old, answers[i].Base = old[i], base[i]
		}
		r, err := u.StepAnswers(t.Context(), answers, policy, 0)
		if err != nil {
			t.Fatal(err)
		}
		return append(old, base...), r
	}
	logProbs, want := run(1 << 20)
	for _, rows := range []int{4, 5, 12} {
		got, step := run(rows)
		if d := cmp.Diff(logProbs, got, cmpopts.EquateApprox(0, 1e-5)); d != "" {
			t.Errorf("%d rows in a chunk: log-probabilities (-in one piece +in chunks): %s", rows, d)
		}
		if d := cmp.Diff(want.LogProbs, step.LogProbs, cmpopts.EquateApprox(0, 1e-5)); d != "" {
			t.Errorf("%d rows in a chunk: a step's log-probabilities (-in one piece +in chunks): %s", rows, d)
		}
		for p, w := range want.Grads {
			oracle.Close(t, p, step.Grads[p].Float32s(), w.Float32s(), 1e-7, 1e-5)
		}
	}
}

// tuner opens a backbone for training with chunks of that many rows, and prepares two conversations for it.
func tuner(t *testing.T, dir string, adapts bool, rows int) (*language.Tuner, []*language.TextSample) {
	t.Helper()
	o := language.TuneOptions{Options: model.Options{LossRows: rows, Threads: 1}}
	if adapts {
		b, err := backbone.OpenBackbone(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		c := lora.NewConfig(2, 4, lora.Names{List: []string{"q_proj", "v_proj"}})
		if o.Adapter, err = lora.New(c, lora.Modules(b.Weights), 3); err != nil {
			t.Fatal(err)
		}
		for _, m := range o.Adapter.Tensors { // B is zero: A would get no gradient
			for i, v := range m.Float32s() {
				m.Float32s()[i] = v + float32(i%7-3)/50
			}
		}
	}
	u, err := language.NewTuner(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { u.Close() })
	var samples []*language.TextSample
	for _, answer := range []string{"It is a cup of coffee.", "Nothing at all is there to be seen, and nothing was."} {
		s, err := u.Prepare(language.Conversation{Messages: []text.Message{
			{Role: "user", Content: []text.Content{{Text: "What is there to see?"}}},
			{Role: "assistant", Content: []text.Content{{Text: answer}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	if n := samples[0].Targets() + samples[1].Targets(); n <= 8 {
		t.Fatalf("%d targets, want several chunks", n)
	}
	return u, samples
}
