package exec_test

import (
	"testing"

	"gorgonia.org/tensor"

	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// tables are absent weights.
type tables map[string]*onnx.Tensor

func (w tables) Has(name string) bool                     { return w[name] != nil }
func (w tables) Tensor(name string) (*onnx.Tensor, error) { return w[name], nil }
func (w tables) Dense(string) (*tensor.Dense, error)      { panic("no values") }

// lossPeak is the planned peak of a loss and its gradient with respect to the states, and to lm_head if that is
// trained.
func lossPeak(t *testing.T, chunks, trained bool, rows, vocab, hidden int) int64 {
	t.Helper()
	w := tables{"head": {Name: "head", Type: onnx.BFloat16, Shape: []int64{int64(vocab), int64(hidden)},
		External: &onnx.External{Location: "none", Length: 2 * int64(vocab) * int64(hidden)}}}
	g := nn.NewGraph("loss", w)
	g.Compute, g.Variant = onnx.BFloat16, nn.Variant{Chunks: chunks}
	g.TrainsWeight = func(string) bool { return trained }
	h := g.Input("h", onnx.Float, onnx.Dims("rows", hidden))
	g.CrossEntropy(nn.Keys{Output: "head"}, h, true)
	wrt := []string{"h"}
	if trained {
		wrt = append(wrt, "head")
	}
	if _, err := g.Backward(nn.OutLoss, wrt...); err != nil {
		t.Fatal(err)
	}
	if err := g.Err(); err != nil {
		t.Fatal(err)
	}
	ids, weights := make([]int64, rows), make([]float32, rows)
	of := func(v any) *tensor.Dense { return tensor.New(tensor.WithShape(rows), tensor.WithBacking(v)) }
	peak, _, err := exec.Peak(g.M, exec.Shapes(map[string]*tensor.Dense{
		"h":          tensor.New(tensor.Of(tensor.Float32), tensor.WithShape(rows, hidden)),
		nn.InPredict: of(ids), nn.InTargets: of(ids), nn.InTargetWeight: of(weights),
	}))
	if err != nil {
		t.Fatal(err)
	}
	return peak
}

// TestLossInChunksMemory: the loss of 11,360 rows over 152,064 ids has no logits of all rows by all ids, 6.9 GB in
// float32.
func TestLossInChunksMemory(t *testing.T) {
	const rows, vocab, hidden = 11360, 152064, 3584
	for name, c := range map[string]struct {
		trained     bool
		whole, most float64 // GB
	}{
		"frozen lm_head":  {false, 14, 1.1},
		"trained lm_head": {true, 15, 12}, // the sum of its gradient and a chunk's, 2.2 GB each

	} {
		t.Run(name, func(t *testing.T) {
			whole := float64(lossPeak(t, false, c.trained, rows, vocab, hidden)) / 1e9
			chunks := float64(lossPeak(t, true, c.trained, rows, vocab, hidden)) / 1e9
			t.Logf("%.1f GB in one piece, %.1f GB in chunks of %d rows", whole, chunks, nn.ChunkRows(vocab))
			if whole < c.whole || chunks > c.most {
				t.Errorf("%.2f GB in one piece, %.2f GB in chunks; want at least %g and at most %g", whole, chunks, c.whole, c.most)
			}
		})
	}
}
