package language_test

import (
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/oracle"
	"assay/lora"
	"assay/model"
	"assay/model/backbone"
	"assay/model/language"
	"assay/model/text"
)

// TestLossInChunks: losses, likeliest tokens and gradients of answers in chunks of five rows are those in one piece. So
// they are with a last chunk that is filled up, and with one that is not.
func TestLossInChunks(t *testing.T) {
	for _, family := range []string{"llavanext", "qwen2_vl"} { // of its own lm_head, and of a tied one
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
				for _, rows := range []int{5, 8, n - 1, n} { // the last one: in one piece
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

// tuner opens a backbone for training with chunks of so many rows, and prepares two conversations for it.
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
		for _, m := range o.Adapter.Tensors { // B is zero, and so would be what A learns
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
