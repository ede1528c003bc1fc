package lora

import (
	"encoding/json"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"
	"gorgonia.org/tensor"
)

// near fails the test if two lists of numbers differ by more than the tolerance.
func near(t *testing.T, what string, got, want []float64, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %d numbers, want %d", what, len(got), len(want))
		return
	}
	for i := range want {
		if !(math.Abs(got[i]-want[i]) <= tolerance) {
			t.Errorf("%s: number %d: got %v, want %v", what, i, got[i], want[i])
		}
	}
}

// gram computes M' M of a matrix's columns, or M M' of its rows, in plain loops, row by row.
func gram(d *tensor.Dense, columns bool) []float64 {
	rows, cols, v := d.Shape()[0], d.Shape()[1], d.Float32s()
	at := func(i, k int) float64 { return float64(v[i*cols+k]) }
	n, inner := rows, cols
	if columns {
		n, inner = cols, rows
		at = func(i, k int) float64 { return float64(v[k*cols+i]) }
	}
	out := make([]float64, n*n)
	for i := range n {
		for j := range n {
			for k := range inner {
				out[i*n+j] += at(i, k) * at(j, k)
			}
		}
	}
	return out
}

// knownSVD is 5 u1 v1' + 2 u2 v2' [3, 2] with u1 = (.6, .8, 0), u2 = (-.8, .6, 0), v1 = (.8, .6), v2 = (-.6, .8).
var knownSVD = []float32{
	5*.6*.8 + 2*.8*.6, 5*.6*.6 - 2*.8*.8,
	5*.8*.8 - 2*.6*.6, 5*.8*.6 + 2*.6*.8,
	0, 0,
}

// TestPiSSA: s B A is the part of W with the largest singular values, and each side has their square roots.
func TestPiSSA(t *testing.T) {
	for rank, want := range map[int][]float64{
		1: {5 * .6 * .8, 5 * .6 * .6, 5 * .8 * .8, 5 * .8 * .6, 0, 0},
		2: {5*.6*.8 + 2*.8*.6, 5*.6*.6 - 2*.8*.8, 5*.8*.8 - 2*.6*.6, 5*.8*.6 + 2*.6*.8, 0, 0},
	} {
		t.Run(fmt.Sprint(rank), func(t *testing.T) {
			const scale = 4
			matA, matB, err := StartPiSSA.begin(knownSVD, 3, 2, Target{Rank: rank, Scale: scale}, true)
			if err != nil {
				t.Fatal(err)
			}
			if a, b := matA.Shape(), matB.Shape(); a[0] != rank || a[1] != 2 || b[0] != 3 || b[1] != rank {
				t.Fatalf("got shapes %v and %v, want [%d, 2] and [3, %d]", a, b, rank, rank)
			}
			near(t, "s B A", product(matA, matB, scale), want, 1e-5)
			sizes := []float64{5. / scale}
			if rank == 2 {
				sizes = []float64{5. / scale, 0, 0, 2. / scale}
			}
			near(t, "A A'", gram(matA, false), sizes, 1e-6)
			near(t, "B' B", gram(matB, true), sizes, 1e-6)
		})
	}
}

// TestOLoRA: B has the first columns of Q and A the first rows of R of W = Q R, whatever the scale.
func TestOLoRA(t *testing.T) {
	// W = Q R with Q's columns q1 = (.6, .8, 0), q2 = (-.8, .6, 0), and R = [[5, 1, 2], [0, 3, 4]].
	q := [][]float64{{.6, .8, 0}, {-.8, .6, 0}}
	r := [][]float64{{5, 1, 2}, {0, 3, 4}}
	w := make([]float32, 9)
	for i := range 3 {
		for j := range 3 {
			for k := range 2 {
				w[3*i+j] += float32(q[k][i] * r[k][j])
			}
		}
	}
	for rank := 1; rank <= 2; rank++ {
		t.Run(fmt.Sprint(rank), func(t *testing.T) {
			matA, matB, err := StartOLoRA.begin(w, 3, 3, Target{Rank: rank, Scale: 4}, true)
			if err != nil {
				t.Fatal(err)
			}
			for k := range rank { // a column of Q and its row of R may both have the opposite sign
				sign := math.Copysign(1, float64(matA.Float32s()[3*k+k]))
				var row, column []float64
				for j := range 3 {
					row = append(row, sign*float64(matA.Float32s()[3*k+j]))
					column = append(column, sign*float64(matB.Float32s()[rank*j+k]))
				}
				near(t, fmt.Sprintf("row %d of R", k), row, r[k], 1e-5)
				near(t, fmt.Sprintf("column %d of Q", k), column, q[k], 1e-5)
			}
		})
	}
}

// TestLAPACKsSigns: Q has LAPACK's signs, as in torch: a reflection turns (x1, ...) into -sign(x1) times its length.
func TestLAPACKsSigns(t *testing.T) {
	for name, test := range map[string]struct {
		w    []float64
		want []float64
	}{
		"above zero": {[]float64{3, 4}, []float64{-.6, -.8}},
		"below zero": {[]float64{-3, 4}, []float64{-.6, .8}},
	} {
		t.Run(name, func(t *testing.T) {
			q := orthonormal(mat.NewDense(2, 1, test.w))
			near(t, "Q", q.RawMatrix().Data, test.want, 1e-12)
		})
	}
}

// TestBeginRefuses: ranks above the weight's, and scales without a square root; the limits are allowed.
func TestBeginRefuses(t *testing.T) {
	for name, test := range map[string]struct {
		out, in, rank int
		scale         float64
		want          string
	}{
		"rank of the columns":   {3, 2, 2, 1, ""},
		"rank of the rows":      {2, 3, 2, 1, ""},
		"above the columns":     {3, 2, 3, 1, "needs a rank of at most 2, the smaller side of the weight [3, 2], not 3"},
		"above the rows":        {2, 3, 3, 1, "needs a rank of at most 2, the smaller side of the weight [2, 3], not 3"},
		"a scale of zero":       {3, 2, 1, 0, "needs an alpha above 0"},
		"a scale below zero":    {3, 2, 1, -1, "needs an alpha above 0"},
		"a scale just above it": {3, 2, 1, 1e-3, ""},
	} {
		for _, start := range []Start{StartPiSSA, StartOLoRA} {
			t.Run(name+" "+string(start), func(t *testing.T) {
				_, _, err := start.begin(knownSVD, test.out, test.in, Target{Rank: test.rank, Scale: test.scale}, true)
				holdsError(t, "begin", err, test.want)
			})
		}
	}
}

// diagonal returns a matrix [rows, columns] that is zero except for the values of f on its diagonal.
func diagonal(rows, columns int, f func(i int) float64) *mat.Dense {
	d := mat.NewDense(rows, columns, nil)
	for i := range min(rows, columns) {
		d.Set(i, i, f(i))
	}
	return d
}

// TestLeading finds the largest singular values and vectors of small and of large diagonal matrices.
func TestLeading(t *testing.T) {
	sizes := []float64{.5, 9, 1, 7, 8, 3, 2, 6, 5} // the rest are smaller
	order := []int{1, 4, 3, 7, 8, 5, 6, 2, 0}
	for name, test := range map[string]struct {
		out, in int
		apart   int // between the places of sizes
		scale   float64
	}{
		"small": {12, 10, 1, 1}, "wide": {10, 12, 1, 1}, "large": {wholeSVD + 1, wholeSVD + 3, 70, 1},
		"tall": {wholeSVD + 3, wholeSVD + 1, 60, 1e6},
	} {
		t.Run(name, func(t *testing.T) {
			w := diagonal(test.out, test.in, func(i int) float64 {
				if i%test.apart == 0 && i/test.apart < len(sizes) {
					return sizes[i/test.apart] * test.scale
				}
				return .1 * test.scale
			})
			k := len(sizes)
			u, v, values, ok := leading(w, k)
			if !ok {
				t.Fatal("got no convergence, want it")
			}
			for i, want := range []float64{9, 8, 7, 6, 5, 3, 2, 1, .5} {
				near(t, "values", []float64{values[i] / test.scale}, []float64{want}, 1e-6)
			}
			for what, m := range map[string]*mat.Dense{"U": u, "V": v} {
				if _, columns := m.Dims(); columns != k {
					t.Fatalf("%s: got %d columns, want %d", what, columns, k)
				}
				for i, at := range order {
					near(t, what, []float64{math.Abs(m.At(at*test.apart, i))}, []float64{1}, 1e-6)
				}
			}
			for i, at := range order { // both have the same sign
				near(t, "u v", []float64{u.At(at*test.apart, i) * v.At(at*test.apart, i)}, []float64{1}, 1e-6)
			}
			if got := residual(w, u, v, values); !(got <= converged*9*test.scale) {
				t.Errorf("residual: got %v, want at most %v", got, converged*9*test.scale)
			}
		})
	}
}

// TestResidual compares |W v - s u| of the worst pair with the value computed by hand.
func TestResidual(t *testing.T) {
	w := mat.NewDense(3, 2, []float64{1, 2, 3, 4, 5, 6})
	u := mat.NewDense(3, 2, []float64{1, 0, 0, 1, 0, 0})
	v := mat.NewDense(2, 2, []float64{1, 0, 0, 1})
	for name, test := range map[string]struct {
		values []float64
		want   float64
	}{
		// W v1 - 2 u1 = (-1, 3, 5), W v2 - 1 u2 = (2, 3, 6)
		"the last": {[]float64{2, 1}, math.Sqrt(4 + 9 + 36)},
		// W v1 - 10 u1 = (-9, 3, 5), W v2 - 4 u2 = (2, 0, 6)
		"the first": {[]float64{10, 4}, math.Sqrt(81 + 9 + 25)},
		"one only":  {[]float64{2}, math.Sqrt(1 + 9 + 25)},
	} {
		t.Run(name, func(t *testing.T) {
			near(t, "residual", []float64{residual(w, u, v, test.values)}, []float64{test.want}, 1e-12)
		})
	}
}

// TestCloseSingularValues: if they cannot be separated, a trained adapter is refused, but a new one is not.
func TestCloseSingularValues(t *testing.T) {
	const n = wholeSVD + 1
	w := diagonal(n, n, func(i int) float64 { return 1 - 1e-5*float64(i) })
	backbone := held{keyQ + ".weight": dense32(w)}
	for name, test := range map[string]struct {
		fresh bool
		want  string
	}{"fresh": {true, ""}, "trained": {false, qProj + `: init_lora_weights "pissa": the largest singular values`}} {
		t.Run(name, func(t *testing.T) {
			c := NewConfig(1, 1, Names{List: []string{"q_proj"}})
			c.Start = StartPiSSA
			a := freshAdapter(t, c, backbone)
			a.fresh = test.fresh
			holdsError(t, "Bind", a.Bind(backbone), test.want)
		})
	}
}

// TestDense32 rounds a matrix to float32, row by row, including a part of a larger one.
func TestDense32(t *testing.T) {
	m := mat.NewDense(2, 3, []float64{1, 2, 3, 4, 5, 1.0 / 3})
	got := dense32(m.Slice(0, 2, 1, 3).(*mat.Dense))
	if s, v := got.Shape(), got.Float32s(); s[0] != 2 || s[1] != 2 || v[0] != 2 || v[1] != 3 || v[2] != 5 ||
		v[3] != float32(1.0/3) {
		t.Errorf("got %v of shape %v, want [2 3 5 1/3] of shape (2, 2)", v, s)
	}
}

// TestStarts: how each start is written, whether it subtracts its A and B from the weights, and which files are
// refused.
func TestStarts(t *testing.T) {
	const refused = "changes the base weights"
	for text, test := range map[string]struct {
		start   Start
		changes bool
		want    string
	}{
		`true`:             {StartUsual, false, ""},
		`false`:            {startRandom, false, ""},
		`"gaussian"`:       {"gaussian", false, ""},
		`"eva"`:            {"eva", false, ""},
		`"pissa"`:          {StartPiSSA, true, ""},
		`"olora"`:          {StartOLoRA, true, ""},
		`"pissa_niter_16"`: {"pissa_niter_16", false, refused},
		`"PiSSA"`:          {"PiSSA", false, refused},
		`"OLoRA"`:          {"OLoRA", false, refused},
		`"corda"`:          {"corda", false, refused},
		`"loftq"`:          {"loftq", false, refused},
		`"lora_ga"`:        {"lora_ga", false, refused},
	} {
		t.Run(text, func(t *testing.T) {
			var got Start = "before"
			if err := json.Unmarshal([]byte(text), &got); err != nil || got != test.start {
				t.Errorf("read: got %q, %v, want %q", got, err, test.start)
			}
			if back, err := json.Marshal(test.start); err != nil || string(back) != text {
				t.Errorf("written: got %s, %v, want %s", back, err, text)
			}
			if got := test.start.changesBase(); got != test.changes {
				t.Errorf("changesBase: got %t, want %t", got, test.changes)
			}
			c := NewConfig(1, 1, Names{List: []string{"q_proj"}})
			c.Start = test.start
			holdsError(t, "checkStart", c.checkStart(), test.want)
		})
	}
	var s Start
	if err := json.Unmarshal([]byte(`3`), &s); err == nil {
		t.Errorf("a number: got %q and no error, want one", s)
	}
}
