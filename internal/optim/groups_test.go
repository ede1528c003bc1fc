package optim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"assay/internal/oracle"
	"assay/internal/testfile"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"
)

// groupRuns is testdata/groups.json, see tools/oracle/optim_groups.py.
type groupRuns struct {
	Groups []struct {
		Members [][]int
		Decays  []float64
		Shapes  [][]int
		Start   [][]float32
		Steps   []struct {
			LRs           []float64
			Grads, Params [][]float32
		}
	}
	Plateaus []struct {
		Rising                 bool
		Patience               int64
		Factor, Threshold, End float64
		Measures, LRs          []float64
	}
	Maps  [][]float32
	Eight []struct {
		WeightDecay float64 `json:"weight_decay"`
		Shapes      [][]int
		Scale       float32
		LRs         []float64
		Steps       [][]struct {
			At    []int
			Param []float32
			Codes [][]int
		}
	}
}

func readGroups(t *testing.T) (out groupRuns) {
	t.Helper()
	testfile.ReadJSON(t, "testdata/groups.json", &out)
	return out
}

func paramsOf(shapes [][]int, values [][]float32) (params []Param) {
	for i, s := range values {
		v := tensor.New(tensor.WithShape(shapes[i]...), tensor.WithBacking(s))
		params = append(params, Param{Name: string(rune('a' + i)), Value: v})
	}
	return params
}

// TestGroupsAreTorchs follows torch.optim.AdamW with parameter groups with different rates and decays.
func TestGroupsAreTorchs(t *testing.T) {
	for _, run := range readGroups(t).Groups {
		t.Run(fmt.Sprint(run.Shapes), func(t *testing.T) {
			params := paramsOf(run.Shapes, run.Start)
			var g ParamGroups
			for i, m := range run.Members {
				one := ParamGroup{Params: m}
				one.Optimizer = NewAdamW(Of(&one, params), [2]float64{0.9, 0.95}, 1e-8, run.Decays[i])
				g = append(g, one)
			}
			for i, s := range run.Steps {
				g.Update(params, s.Grads, s.LRs)
				for k, p := range params {
					if d := oracle.Far(p.Floats(), s.Params[k]); !(d <= 3e-7) {
						t.Errorf("step %d, parameter %d: got values %g away, want at most 3e-7 from torch's", i, k, d)
					}
				}
			}
			seen := map[int]int{}
			for _, s := range g.State() {
				seen[s.Param]++
				if len(s.Values) != len(params[s.Param].Floats()) {
					t.Errorf("%s of parameter %d: got %d values, want %d", s.Kind, s.Param, len(s.Values),
						len(params[s.Param].Floats()))
				}
			}
			if len(seen) != len(params) || g.Updates() != int64(len(run.Steps)) {
				t.Errorf("got a state of %d parameters after %d updates, want %d after %d", len(seen), g.Updates(), len(params),
					len(run.Steps))
			}
		})
	}
}

func TestPlateauIsTorchs(t *testing.T) {
	for i, c := range readGroups(t).Plateaus {
		t.Run(fmt.Sprintf("run %d", i), func(t *testing.T) {
			p := Plateau{Patience: c.Patience, Threshold: c.Threshold, Rising: c.Rising}
			s := Schedule{Kind: "plateau", Peak: 0.5, End: c.End, Factor: c.Factor}
			for k, m := range c.Measures {
				p.Measure(m)
				s.Cuts = p.Cuts
				if got := s.LR(int64(k)); !(math.Abs(got-c.LRs[k]) <= 1e-15) {
					t.Errorf("run %d, measurement %d: got rate %v, want torch's %v", i, k, got, c.LRs[k])
				}
			}
		})
	}
	p := Plateau{}
	if p.Measure(math.NaN()); p.Seen || p.Bad+p.Cuts == 0 {
		t.Errorf("Measure(NaN): got %+v, want it to count as no better", p)
	}
}

// TestAdamW8IsBitsandbytes follows bitsandbytes' AdamW8bit on the CPU: the map bit for bit, codes and parameters over
// several steps. A code may be off by one where float32 rounds a moment to the other side.
func TestAdamW8IsBitsandbytes(t *testing.T) {
	all := readGroups(t)
	for i, want := range all.Maps {
		t.Run(fmt.Sprintf("map %d", i), func(t *testing.T) {
			if got := dynamicMap(i == 0); oracle.Far(got[:], want) != 0 {
				t.Errorf("map %d: got other values than bitsandbytes (-want +got):\n%s", i, cmp.Diff(want, got[:]))
				for k := range want {
					if got[k] != want[k] {
						t.Log(k, got[k], want[k])
					}
				}
			}
		})
	}
	for r, run := range all.Eight {
		t.Run(fmt.Sprintf("run %d", r), func(t *testing.T) {
			count := uint64(0)
			draw := func(n int) []float32 {
				out := make([]float32, n)
				for i := range out {
					out[i] = float32(float64(count*2654435761%(1<<32))/(1<<31) - 1)
					count++
				}
				return out
			}
			var values [][]float32
			for _, s := range run.Shapes {
				n := 1
				for _, d := range s {
					n *= d
				}
				values = append(values, draw(n))
			}
			params := paramsOf(run.Shapes, values)
			a := NewAdamW8(params, [2]float64{0.9, 0.999}, 1e-8, run.WeightDecay)
			codes, off := 0, 0
			for s, step := range run.Steps {
				grads := make([][]float32, len(params))
				for k, p := range params {
					grads[k] = draw(len(p.Floats()))
					by := float32(math.Pow(10, float64(k-s%3)))
					for i, x := range grads[k] {
						grads[k][i] = x * x * x * run.Scale * by
					}
				}
				a.Update(params, grads, run.LRs[s])
				for k, p := range params {
					var got []float32
					for _, i := range step[k].At {
						got = append(got, p.Floats()[i])
					}
					if d := oracle.Far(got, step[k].Param); !(d <= 1e-6) {
						t.Errorf("run %d, step %d, parameter %d: got values %g away, want at most 1e-6 from bitsandbytes'", r, s, k, d)
					}
					for m, want := range step[k].Codes {
						have := []*moments{&a.m[k], &a.v[k]}[m]
						for j, i := range step[k].At {
							codes++
							if int(have.codes[i]) != want[j] {
								off++
							}
						}
					}
				}
			}
			if codes == 0 || off*1000 > codes {
				t.Errorf("run %d: got %d of %d codes that differ, want at most one in a thousand", r, off, codes)
			}
			t.Logf("run %d: %d of %d codes differ", r, off, codes)
		})
	}
}

// TestStretches: updates, states and norms of slices of tensors are the same as those of the full tensors.
func TestStretches(t *testing.T) {
	makers := map[string]func(p []Param) Optimizer{
		"adamw":  func(p []Param) Optimizer { return NewAdamW(p, [2]float64{0.9, 0.99}, 1e-8, 0.1) },
		"lion":   func(p []Param) Optimizer { return NewLion(p, [2]float64{0.9, 0.99}, 0.1) },
		"adamw8": func(p []Param) Optimizer { return NewAdamW8(p, [2]float64{0.9, 0.99}, 1e-8, 0.1) },
	}
	shapes := [][]int{{3, Block - 7}, {5}, {2*Block + 300}}
	for name, make := range makers {
		t.Run(name, func(t *testing.T) {
			var wholes, parts []Param
			for i, s := range shapes {
				rng := rand.New(rand.NewPCG(uint64(i), 1))
				v := make32(tensor.Shape(s).TotalSize(), rng)
				wholes = append(wholes, Param{Name: fmt.Sprint(i),
					Value: tensor.New(tensor.WithShape(s...), tensor.WithBacking(v))})
				other := Param{Name: fmt.Sprint(i), Value: wholes[i].Value.Clone().(*tensor.Dense)}
				for lo := 0; lo < len(v); lo += 2 * Block {
					parts = append(parts, other.Stretch(lo, min(lo+2*Block, len(v))))
				}
			}
			a, b := make(wholes), make(parts)
			for step := range 3 {
				rng := rand.New(rand.NewPCG(uint64(step), 2))
				var grads, cut [][]float32
				for _, p := range wholes {
					grads = append(grads, make32(len(p.Floats()), rng))
				}
				for i := range grads {
					cut = append(cut, slices.Collect(slices.Chunk(grads[i], 2*Block))...)
				}
				if Root(Squares(grads)) != Root(slices.Concat(Squares(cut[:2]), Squares(cut[2:]))) {
					t.Errorf("norm of the stretches: got %v, want %v", Root(slices.Concat(Squares(cut[:2]), Squares(cut[2:]))),
						Root(Squares(grads)))
				}
				a.Update(wholes, grads, 0.01)
				b.Update(parts, cut, 0.01)
			}
			want := map[string]State{}
			for _, s := range a.State() {
				want[s.Kind+wholes[s.Param].Name] = s
			}
			seen := map[string]int{}
			for _, s := range b.State() {
				key := s.Kind + parts[s.Param].Name
				w := want[key]
				n := len(s.Values) + len(s.Bytes)
				seen[key] += n
				if !slices.Equal(s.Shape, w.Shape) || s.Values != nil && !slices.Equal(s.Values, w.Values[s.First:s.First+n]) ||
					s.Bytes != nil && !slices.Equal(s.Bytes, w.Bytes[s.First:s.First+n]) {
					t.Errorf("%s: %s from %d on: got %d values of shape %v, want the same as in one piece of shape %v", name, key,
						s.First, n, s.Shape, w.Shape)
				}
			}
			for key, w := range want {
				if seen[key] != len(w.Values)+len(w.Bytes) {
					t.Errorf("%s: got %d values of %s, want %d", name, seen[key], key, len(w.Values)+len(w.Bytes))
				}
			}
			i := 0
			for _, p := range parts {
				if p.First == 0 && i < len(wholes) {
					i++
				}
				if !slices.Equal(p.Floats(), wholes[i-1].Floats()[p.First:p.First+len(p.Floats())]) {
					t.Errorf("%s: parameter %s from %d on (-want +got):\n%s", name, p.Name, p.First,
						cmp.Diff(wholes[i-1].Floats()[p.First:p.First+len(p.Floats())], p.Floats()))
				}
			}
		})
	}
}

func make32(n int, rng *rand.Rand) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(rng.NormFloat64())
	}
	return out
}
