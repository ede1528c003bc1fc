package lora

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"
)

// TestPlain: an adapter with a start becomes one of twice the rank, [A; A0] and [B -B0], with the same factors s.
func TestPlain(t *testing.T) {
	for name, test := range map[string]struct {
		rslora bool
		grow   float64 // of alpha
	}{"alpha/r": {false, 2}, "alpha/sqrt(r)": {true, math.Sqrt2}} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(2, 3, Names{List: []string{"q_proj", "v_proj"}})
			c.Start, c.RSLoRA, c.ModulesToSave = StartOLoRA, test.rslora, []string{"model.norm"}
			c.Ranks, c.Alphas = Overrides{{"v_proj", 1}}, Overrides{{"v_proj", 7}}
			a := freshAdapter(t, c, smallBackbone())
			a.spelled = map[string]string{qProj: "other"}
			put := func(to map[string]*tensor.Dense, module string, matA, matB *tensor.Dense) {
				to[NameA(module)], to[NameB(module)] = matA, matB
			}
			put(a.Tensors, qProj, matrix(2, 2, 1, 2, 3, 4), matrix(3, 2, 5, 6, 7, 8, 9, 10))
			put(a.Tensors, vProj, matrix(1, 3, 1, 2, 3), matrix(2, 1, 4, 5))
			a.InitOffset = map[string]*tensor.Dense{}
			put(a.InitOffset, qProj, matrix(2, 2, 11, 12, 13, 14), matrix(3, 2, 15, 16, 17, 18, 19, 20))
			put(a.InitOffset, vProj, matrix(1, 3, 6, 7, 8), matrix(2, 1, 9, 10))
			a.Whole = []string{"model.language_model.norm.weight"}
			a.Tensors[NameParameter(a.Whole[0])] = vector(6, 7)
			tensors, start := flattened(a.Tensors), flattened(a.InitOffset)
			got, err := a.plain()
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]flat{
				NameA(qProj): {[]int{4, 2}, []float32{1, 2, 3, 4, 11, 12, 13, 14}},
				NameB(qProj): {[]int{3, 4}, []float32{5, 6, -15, -16, 7, 8, -17, -18, 9, 10, -19, -20}},
				NameA(vProj): {[]int{2, 3}, []float32{1, 2, 3, 6, 7, 8}},
				NameB(vProj): {[]int{2, 2}, []float32{4, -9, 5, -10}},

				NameParameter(a.Whole[0]): {[]int{2}, []float32{6, 7}},
			}
			if diff := cmp.Diff(want, flattened(got.Tensors)); diff != "" {
				t.Errorf("tensors (-want +got):\n%s", diff)
			}
			scaleQ, scaleV := 3.0/2, 7.0
			if test.rslora {
				scaleQ = 3 / math.Sqrt2
			}
			wantTargets := []Target{{qProj, 4, 3 * test.grow, scaleQ}, {vProj, 2, 7 * test.grow, scaleV}}
			if diff := cmp.Diff(wantTargets, got.Targets); diff != "" {
				t.Errorf("targets (-want +got):\n%s", diff)
			}
			if got.InitOffset != nil || !slices.Equal(got.Whole, a.Whole) || got.spelled[qProj] != "other" {
				t.Errorf("got start %v, whole %q, spelled %q, want no start and the rest as it was", got.InitOffset, got.Whole,
					got.spelled)
			}
			// The new configuration gives the same scales, and the adapter itself is unchanged.
			again, err := got.Config.Match([]string{qProj, vProj})
			if err != nil {
				t.Fatal(err)
			}
			for i, x := range again {
				w := wantTargets[i]
				if x.Rank != w.Rank || x.Alpha != w.Alpha || math.Abs(x.Scale-w.Scale) > 1e-12 {
					t.Errorf("the configuration's targets: got %+v, want %+v", x, w)
				}
			}
			if got.Config.Start != StartUsual || c.Start != StartOLoRA || c.Rank != 2 || c.Alpha != 3 ||
				c.Ranks[0].Value != 1 || c.Alphas[0].Value != 7 {
				t.Errorf("got configurations %+v of %+v, want the usual start and the old one unchanged", got.Config, c)
			}
			if diff := cmp.Diff(tensors, flattened(a.Tensors)) + cmp.Diff(start, flattened(a.InitOffset)); diff != "" {
				t.Errorf("the adapter that it was made of (-want +got):\n%s", diff)
			}
		})
	}
}

// TestSaveTakesTheStartIn: the file of an adapter with a start has twice the rank, and no start.
func TestSaveTakesTheStartIn(t *testing.T) {
	c := NewConfig(1, 3, Names{List: []string{"q_proj"}})
	c.Start = StartPiSSA
	w := smallBackbone()
	a := freshAdapter(t, c, w)
	if err := a.Bind(w); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	again, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if again.Config.Start != StartUsual || again.Config.Rank != 2 || again.Config.Alpha != 6 {
		t.Errorf("got start %q, rank %d, alpha %v, want the usual one, 2 and 6", again.Config.Start, again.Config.Rank,
			again.Config.Alpha)
	}
	matA, matB, scale, ok := again.Delta(qProj)
	if !ok || scale != 3 {
		t.Fatalf("got factor %v, %t, want 3", scale, ok)
	}
	for i, x := range product(matA, matB, scale) { // nothing was trained: B A - B0 A0 is zero
		if math.Abs(x) > 1e-5 {
			t.Errorf("value %d of s B A: got %v, want 0", i, x)
		}
	}
}

// product computes s B A in plain loops, row by row.
func product(matA, matB *tensor.Dense, scale float64) []float64 {
	rank, in, out := matA.Shape()[0], matA.Shape()[1], matB.Shape()[0]
	a, b := matA.Float32s(), matB.Float32s()
	sum := make([]float64, out*in)
	for i := range out {
		for j := range in {
			for k := range rank {
				sum[i*in+j] += scale * float64(b[i*rank+k]) * float64(a[k*in+j])
			}
		}
	}
	return sum
}
