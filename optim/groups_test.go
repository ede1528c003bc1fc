package optim

import (
	"encoding/json"
	"math"
	"os"
	"testing"

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
	text, err := os.ReadFile("testdata/groups.json")
	if err == nil {
		err = json.Unmarshal(text, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func paramsOf(shapes [][]int, values [][]float32) (params []Param) {
	for i, s := range values {
		v := tensor.New(tensor.WithShape(shapes[i]...), tensor.WithBacking(s))
		params = append(params, Param{string(rune('a' + i)), v})
	}
	return params
}

// TestGroupsAreTorchs follows torch.optim.AdamW with parameter groups of other rates and decays.
func TestGroupsAreTorchs(t *testing.T) {
	for _, run := range readGroups(t).Groups {
		params := paramsOf(run.Shapes, run.Start)
		var g Groups
		for i, m := range run.Members {
			one := Group{Params: m}
			one.Optimizer = NewAdamW(Of(&one, params), [2]float64{0.9, 0.95}, 1e-8, run.Decays[i])
			g = append(g, one)
		}
		for i, s := range run.Steps {
			g.Update(params, s.Grads, s.LRs)
			for k, p := range params {
				if d := far(p.Floats(), s.Params[k]); d > 3e-7 {
					t.Errorf("step %d, parameter %d: %g from torch's", i, k, d)
				}
			}
		}
		seen := map[int]int{}
		for _, s := range g.State() {
			seen[s.Param]++
			if len(s.Values) != len(params[s.Param].Floats()) {
				t.Errorf("the %s of parameter %d has %d values", s.Kind, s.Param, len(s.Values))
			}
		}
		if len(seen) != len(params) || g.Updates() != int64(len(run.Steps)) {
			t.Errorf("the state is of %d parameters after %d updates", len(seen), g.Updates())
		}
	}
}

func TestPlateauIsTorchs(t *testing.T) {
	for i, c := range readGroups(t).Plateaus {
		p := Plateau{Patience: c.Patience, Threshold: c.Threshold, Rising: c.Rising}
		s := Schedule{Kind: "plateau", Peak: 0.5, End: c.End, Factor: c.Factor}
		for k, m := range c.Measures {
			p.Measure(m)
			s.Cuts = p.Cuts
			if got := s.LR(int64(k)); math.Abs(got-c.LRs[k]) > 1e-15 {
				t.Errorf("run %d, measurement %d: %v, torch has %v", i, k, got, c.LRs[k])
			}
		}
	}
	p := Plateau{}
	if p.Measure(math.NaN()); p.Seen || p.Bad+p.Cuts == 0 {
		t.Errorf("what is no number is not better: %+v", p)
	}
}

// TestAdamW8IsBitsandbytes follows bitsandbytes' AdamW8bit on the CPU: the map bit for bit, codes and parameters over
// several steps. A code may be off by one where float32 rounds a moment to the other side.
func TestAdamW8IsBitsandbytes(t *testing.T) {
	all := readGroups(t)
	for i, want := range all.Maps {
		if got := DynamicMap(i == 0); far(got[:], want) != 0 {
			t.Errorf("map %d differs", i)
			for k := range want {
				if got[k] != want[k] {
					t.Log(k, got[k], want[k])
				}
			}
		}
	}
	for r, run := range all.Eight {
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
				if d := far(got, step[k].Param); d > 1e-6 {
					t.Errorf("run %d, step %d, parameter %d: %g from bitsandbytes'", r, s, k, d)
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
			t.Errorf("run %d: %d of %d codes differ", r, off, codes)
		}
		t.Logf("run %d: %d of %d codes differ", r, off, codes)
	}
}
