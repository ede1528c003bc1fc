package modeltest

import (
	"bytes"
	"context"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/long"
	"assay/model"
	"assay/model/batch"
	"assay/onnx"
)

// fusedRepeats runs a step over all cases of each scorer with fused operators, and requires the same bytes on
// repetition, with one thread and with four. With another number of threads the runtime's matrix products round
// differently; the fused operators do not, see TestFusedGradientsRepeat of onnx/grad.
func (f Family) fusedRepeats(t *testing.T) {
	long.Test(t)
	f.eachFile(t, func(t *testing.T, rs []*reference) {
		byScorer := map[string][]*reference{}
		for _, r := range rs {
			byScorer[r.scorer()] = append(byScorer[r.scorer()], r)
		}
		for dir, rs := range byScorer {
			first := map[int]map[string]*tensor.Dense{} // by number of threads
			for _, threads := range []int{1, 1, 4, 4} {
				o := fused
				o.Threads = threads
				u := openTuner(t, dir, model.TuneOptions{Options: o})
				var samples []*batch.Sample
				for _, r := range rs {
					samples = append(samples, r.sample(t, u))
				}
				got, err := u.Step(context.Background(), samples,
					model.StepInput{Labels: make([]float64, len(samples)), Weight: 1})
				if err != nil {
					t.Fatal(err)
				}
				if first[threads] == nil {
					first[threads] = got.Grads
				}
				for name, g := range got.Grads {
					want := first[threads][name]
					if !bytes.Equal(onnx.Float32Bytes(g.Float32s()), onnx.Float32Bytes(want.Float32s())) {
						t.Errorf("%s: %s with %d threads: got different bytes, want the same", dir, name, threads)
					}
				}
			}
		}
	})
}
