package optim

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gorgonia.org/tensor"
)

// TestSchedules: rates at the steps where a schedule changes, from the formulas.
func TestSchedules(t *testing.T) {
	for _, c := range []struct {
		name string
		s    Schedule
		want map[int64]float64
	}{
		{"constant", Schedule{Kind: "constant", Peak: 2, End: 1, Total: 10}, map[int64]float64{0: 2, 9: 2}},
		{"warm-up", Schedule{Kind: "constant", Peak: 2, Warmup: 4, Total: 10},
			map[int64]float64{0: 0.5, 1: 1, 3: 2, 4: 2, 9: 2}},
		{"linear", Schedule{Kind: "linear", Peak: 2, End: 1, Total: 8}, map[int64]float64{0: 2, 2: 1.75, 4: 1.5, 8: 1}},
		{"linear behind a warm-up", Schedule{Kind: "linear", Peak: 2, Warmup: 2, Total: 10},
			map[int64]float64{0: 1, 2: 2, 4: 1.5, 6: 1, 9: 0.25}},
		{"cosine", Schedule{Kind: "cosine", Peak: 3, End: 1, Total: 6}, map[int64]float64{0: 3, 2: 2.5, 3: 2, 4: 1.5, 6: 1}},
		{"cosine behind a warm-up", Schedule{Kind: "cosine", Peak: 2, Warmup: 1, Total: 5},
			map[int64]float64{0: 2, 1: 2, 3: 1, 5: 0}},
		{"restarts", Schedule{Kind: "restarts", Peak: 3, End: 1, Warmup: 2, Total: 10, Cycles: 2},
			map[int64]float64{1: 3, 2: 3, 4: 2, 6: 3, 8: 2}},
		{"wsd", Schedule{Kind: "wsd", Peak: 3, End: 1, Warmup: 1, Total: 10, Decay: 4},
			map[int64]float64{0: 3, 5: 3, 6: 3, 7: 2.5, 8: 2, 9: 1.5}},
		{"plateau", Schedule{Kind: "plateau", Peak: 4, End: 0.75, Factor: 0.5}, map[int64]float64{0: 4, 99: 4}},
		{"plateau after two cuts", Schedule{Kind: "plateau", Peak: 4, End: 0.75, Factor: 0.5, Cuts: 2},
			map[int64]float64{5: 1}},
		{"plateau at its end", Schedule{Kind: "plateau", Peak: 4, End: 0.75, Factor: 0.5, Cuts: 9},
			map[int64]float64{5: 0.75}},
		{"warm-up alone", Schedule{Kind: "linear", Peak: 2, Warmup: 2, Total: 2}, map[int64]float64{0: 1, 1: 2, 2: 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for step, want := range c.want {
				if got := c.s.LR(step); !(math.Abs(got-want) <= 1e-12) {
					t.Errorf("LR(%d): got %v, want %v", step, got, want)
				}
				if got := c.s.Scaled(0.25).LR(step); !(math.Abs(got-want/4) <= 1e-12) {
					t.Errorf("a quarter of LR(%d): got %v, want %v", step, got, want/4)
				}
			}
		})
	}
}

// TestMoments8: the counted bytes are the allocated bytes, at the boundaries of blocks and of small tensors.
func TestMoments8(t *testing.T) {
	for _, n := range []int{1, small8 - 1, small8, small8 + 1, small8 + block8 - 1, small8 + block8, 3*small8 + 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			a := NewAdamW8([]Param{{Name: "a", Value: tensor.New(tensor.WithShape(n), tensor.Of(tensor.Float32))}},
				[2]float64{0.9, 0.99}, 1e-8, 0)
			want := 0
			for _, s := range a.State() {
				want += len(s.Bytes) + 4*len(s.Values)
			}
			if got := Moments8(int64(n)); got != int64(want) {
				t.Errorf("Moments8(%d): got %d bytes, want %d", n, got, want)
			}
		})
	}
}

// TestNearest: the code of a value is the code of the nearest value in its map, by linear search.
func TestNearest(t *testing.T) {
	for _, signed := range []bool{false, true} {
		t.Run(fmt.Sprintf("signed %t", signed), func(t *testing.T) {
			c := newCodes(dynamicMap(signed))
			if !slices.IsSorted(c.values[:]) {
				t.Fatalf("got values %v, want them ascending", c.values)
			}
			xs := slices.Clone(c.values[:])
			for i := range len(c.values) - 1 {
				a, b := c.values[i], c.values[i+1]
				half := a + (b-a)/2
				xs = append(xs, half, math.Nextafter32(half, a), math.Nextafter32(half, b), math.Nextafter32(a, b),
					math.Nextafter32(b, a))
			}
			for i := range 4001 {
				xs = append(xs, float32(i-2000)/2000)
			}
			for _, x := range xs {
				want := 0
				for k, v := range c.values {
					if max(v-x, x-v) < max(c.values[want]-x, x-c.values[want]) {
						want = k
					}
				}
				if got := int(c.nearest(x)); got != want {
					t.Fatalf("nearest(%v): got %d, %v, want %d, %v", x, got, c.values[got], want, c.values[want])
				}
			}
		})
	}
}

// TestCodesAreFoundFast: the code where a search starts is at or below the nearest, and only a few steps away.
func TestCodesAreFoundFast(t *testing.T) {
	for _, signed := range []bool{false, true} {
		c := newCodes(dynamicMap(signed))
		for i, first := range c.first {
			low := float32(i)/1024 - 1
			if first > 0 && c.values[first] > low {
				t.Errorf("signed %t: a search for %v starts at %v, want at most that", signed, low, c.values[first])
			}
			if first < 255 && c.values[first+1] <= low {
				t.Errorf("signed %t: a search for %v starts below %v, want that", signed, low, c.values[first+1])
			}
		}
	}
}

// TestClip: gradients within the limit are unchanged, and 0 means no limit.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		name        string
		norm, limit float64
		want        float32
	}{
		{"no limit", 10, 0, 8},
		{"within", 10, 11, 8},
		{"beyond", 10, 5, 4},
		{"far beyond", 1e6, 1, 8e-6},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := slices.Repeat([]float32{8}, Block+1)
			Clip([][]float32{{8}, g}, c.norm, c.limit)
			for _, got := range []float32{g[0], g[Block-1], g[Block]} {
				if !(math.Abs(float64(got/c.want)-1) <= 1e-6) {
					t.Errorf("got %v, want %v", got, c.want)
				}
			}
		})
	}
}

// TestStretch: a full slice is the parameter itself, and other slices share its values.
func TestStretch(t *testing.T) {
	values := make([]float32, 6)
	p := NewParams([]string{"a"}, []*tensor.Dense{tensor.New(tensor.WithShape(2, 3), tensor.WithBacking(values))})[0]
	if got := p.Stretch(0, 6); got.Value != p.Value || got.Whole != nil {
		t.Errorf("Stretch(0, 6): got %+v, want the parameter itself", got)
	}
	for _, c := range [][2]int{{0, 5}, {1, 6}, {2, 4}} {
		got := p.Stretch(c[0], c[1])
		if got.Name != "a" || got.First != c[0] || !slices.Equal(got.Whole, []int{2, 3}) || len(got.Floats()) != c[1]-c[0] {
			t.Errorf("Stretch(%d, %d): got %+v, want %d values of shape (2, 3)", c[0], c[1], got, c[1]-c[0])
		}
		if got.Floats()[0] = 7; values[c[0]] != 7 {
			t.Errorf("Stretch(%d, %d): got its own values, want those of the tensor", c[0], c[1])
		}
	}
	grads := Gradients([]Param{{Name: "b"}, p}, map[string]*tensor.Dense{"a": p.Value})
	if len(grads) != 2 || grads[0] != nil || grads[1] != p.Value {
		t.Errorf("Gradients: got %v, want none of b, then a's", grads)
	}
}

// TestRisingPlateau: higher by more than the threshold is better; up to Patience other measurements do not cut the
// rate.
func TestRisingPlateau(t *testing.T) {
	p := &Plateau{Threshold: 0.5, Rising: true, Patience: 1}
	for i, c := range []struct {
		x    float64
		cut  bool
		best float64
	}{{1, false, 1}, {1.5, false, 1}, {1.25, true, 1}, {1.75, false, 1.75}, {0, false, 1.75}, {2.75, false, 2.75},
		{math.NaN(), false, 2.75}, {3, true, 2.75}} {
		if got := p.Measure(c.x); got != c.cut || p.Best != c.best {
			t.Errorf("measurement %d, %v: got cut %t, best %v, want %t, %v", i, c.x, got, p.Best, c.cut, c.best)
		}
	}
	if p.Cuts != 2 {
		t.Errorf("got %d cuts, want 2", p.Cuts)
	}
}

// TestUpdates: an optimizer counts its updates, starting from SetUpdates.
func TestUpdates(t *testing.T) {
	p := []Param{{Name: "a", Value: tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1}))}}
	ada := NewAdafactor(p, 0)
	if ada.Decay != -0.8 || ada.Eps1 != 1./(1<<23) || ada.Eps2 != 1e-3 || ada.D != 1 {
		t.Errorf("Adafactor: got %+v, want torch's defaults: -0.8, 2^-23, 1e-3, 1", ada)
	}
	for name, o := range map[string]Optimizer{
		"adamw":  NewAdamW(p, [2]float64{0.9, 0.99}, 1e-8, 0),
		"lion":   NewLion(p, [2]float64{0.9, 0.99}, 0),
		"adamw8": NewAdamW8(p, [2]float64{0.9, 0.99}, 1e-8, 0), "adafactor": ada,
	} {
		t.Run(name, func(t *testing.T) {
			gs := ParamGroups{{Params: []int{0}, Optimizer: o}}
			gs.Update(p, [][]float32{{1}}, []float64{0.1})
			if got := gs.Updates(); got != 1 {
				t.Errorf("after one update: got %d, want 1", got)
			}
			gs.SetUpdates(41)
			gs.Update(p, [][]float32{{1}}, []float64{0.1})
			if got := gs.Updates(); got != 42 {
				t.Errorf("one more than 41: got %d, want 42", got)
			}
			for _, s := range gs.State() {
				if s.Param != 0 {
					t.Errorf("%s: got parameter %d, want 0", s.Kind, s.Param)
				}
			}
		})
	}
}
