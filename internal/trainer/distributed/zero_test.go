package distributed

import (
	"fmt"
	"slices"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/optim"
)

// broadParams returns tensors of several optimizer blocks.
func broadParams() (out []optim.Param) {
	for i, shape := range [][]int{{3, 70_000}, {5}, {2*optim.Block + 300}, {20_000}} {
		t := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
		values := t.Float32s()
		for j := range values {
			values[j] = float32(j%97)/97 - 0.5
		}
		out = append(out, optim.Param{Name: fmt.Sprintf("layers.%d.weight", i+1), Value: t})
	}
	return out
}

// TestCut: every rank owns an equal part, up to one block, in whole blocks of tensors, and every element has an
// owner.
func TestCut(t *testing.T) {
	params := broadParams()
	total, begins := 0, map[int]bool{}
	for _, p := range params {
		for at := 0; at < len(p.Floats()); at += optim.Block {
			begins[total+at] = true
		}
		total += len(p.Floats())
	}
	begins[total] = true
	for n := 1; n < 20; n++ {
		cuts, sum := cut(params, n), 0
		if cuts[0] != 0 || cuts[n] != total || !slices.IsSorted(cuts) {
			t.Fatal(n, cuts)
		}
		for i := range n {
			if !begins[cuts[i]] || cuts[i+1]-cuts[i] > total/n+optim.Block {
				t.Errorf("%d ranks: %v", n, cuts)
			}
			for _, p := range stretches(params, cuts[i], cuts[i+1]) {
				sum += len(p.Floats())
			}
		}
		if sum != total {
			t.Errorf("%d ranks own %d of %d elements", n, sum, total)
		}
	}
}
