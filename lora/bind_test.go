package lora

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/onnx"
)

// held is a checkpoint in memory.
type held map[string]*tensor.Dense

func (h held) Names() []string { return slices.Sorted(maps.Keys(h)) }

func (h held) Info(name string) (checkpoints.TensorInfo, bool) {
	d, ok := h[name]
	info := checkpoints.TensorInfo{Name: name, Type: onnx.Float}
	if ok {
		for _, n := range d.Shape() {
			info.Shape = append(info.Shape, int64(n))
		}
	}
	return info, ok
}

func (h held) Dense(name string) (*tensor.Dense, error) {
	if d := h[name]; d != nil {
		return d, nil
	}
	return nil, fmt.Errorf("no tensor %s", name)
}

// matrix returns a matrix with the given values, row by row.
func matrix(rows, columns int, v ...float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(rows, columns), tensor.WithBacking(v))
}

// vector returns a vector with the given values.
func vector(v ...float32) *tensor.Dense {
	return tensor.New(tensor.WithShape(len(v)), tensor.WithBacking(v))
}

// flat is the values and the shape of a tensor, to compare and print.
type flat struct {
	Shape  []int
	Values []float32
}

// flattened returns the tensors' values and shapes, by name.
func flattened(tensors map[string]*tensor.Dense) map[string]flat {
	out := map[string]flat{}
	for name, d := range tensors {
		out[name] = flat{slices.Clone([]int(d.Shape())), slices.Clone(d.Float32s())}
	}
	return out
}

// holdsError fails the test unless the error contains the text; with "", unless there is no error.
func holdsError(t *testing.T, what string, got error, want string) {
	t.Helper()
	if want == "" && got != nil {
		t.Errorf("%s: got error %v, want none", what, got)
	}
	if want != "" && (got == nil || !strings.Contains(got.Error(), want)) {
		t.Errorf("%s: got error %v, want one with %q", what, got, want)
	}
}

// Modules of the backbone of these tests, and the tensors in its checkpoint.
const (
	qProj = "model.language_model.layers.0.self_attn.q_proj"
	vProj = "model.language_model.layers.0.self_attn.v_proj"
	keyQ  = "model.layers.0.self_attn.q_proj"
	keyV  = "model.layers.0.self_attn.v_proj"
)

// smallBackbone has rows whose norms are whole numbers.
func smallBackbone() held {
	return held{
		"model.embed_tokens.weight":   matrix(2, 2, 1, 2, 3, 4),
		keyQ + ".weight":              matrix(3, 2, 3, 4, 5, 12, 8, -15),
		keyQ + ".bias":                vector(1, 2, 3),
		keyV + ".weight":              matrix(2, 3, 2, 3, 6, 1, 4, 8),
		keyV + ".bias":                vector(4, 5),
		"model.norm.weight":           vector(6, 7),
		"lm_head.weight":              matrix(2, 2, 5, 6, 7, 8),
		"visual.merger.mlp.0.weight":  matrix(2, 2, 9, 8, 7, 6),
		"visual.merger.mlp.0.bias":    vector(8, 9),
		"visual.blocks.0.qkv.weight":  matrix(2, 2, 1, 1, 1, 1),
		"visual.blocks.0.qkv.bias":    vector(10, 11),
		"visual.blocks.0.norm.weight": vector(12, 13),
	}
}

// freshAdapter creates a new adapter for the small backbone.
func freshAdapter(t *testing.T, c *Config, w Checkpoint) *Adapter {
	t.Helper()
	a, err := New(c, Modules(w), 3)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestBindTakesRowLengths: a DoRA layer gets the squared norms of its rows; in a new adapter, m is initialized with
// the norms.
func TestBindTakesRowLengths(t *testing.T) {
	want := map[string][]float32{qProj: {9 + 16, 25 + 144, 64 + 225}, vProj: {4 + 9 + 36, 1 + 16 + 64}}
	for name, test := range map[string]struct {
		fresh        bool
		wantQ, wantV []float32 // m of the two layers
	}{
		"fresh": {true, []float32{5, 13, 17}, []float32{7, 9}},
		"read":  {false, []float32{0, 0, 0}, []float32{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			w := smallBackbone()
			c := NewConfig(1, 2, Names{List: []string{"q_proj", "v_proj"}})
			c.DoRA = true
			a := freshAdapter(t, c, w)
			a.fresh = test.fresh
			if err := a.Bind(w); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, a.Lengths); diff != "" {
				t.Errorf("squared lengths (-want +got):\n%s", diff)
			}
			if a.InitOffset != nil {
				t.Errorf("got a start %v, want none", a.InitOffset)
			}
			for module, m := range map[string][]float32{qProj: test.wantQ, vProj: test.wantV} {
				if got := a.Tensors[NameM(module)].Float32s(); !slices.Equal(got, m) {
					t.Errorf("%s: got m %v, want %v", module, got, m)
				}
			}
			w[keyQ+".weight"] = matrix(3, 2, 0, 0, 0, 0, 0, 0)
			a.Tensors[NameM(qProj)].Float32s()[0] = 99
			if err := a.Bind(w); err != nil {
				t.Fatal(err)
			}
			if got := a.Tensors[NameM(qProj)].Float32s()[0]; got != 99 || a.Lengths[qProj][0] != 25 {
				t.Errorf("bound again: got m %v and squared length %v, want 99 and 25 as before", got, a.Lengths[qProj][0])
			}
		})
	}
}

// TestBindTakesTheStart: a PiSSA or OLoRA start is stored, and initializes a new adapter.
func TestBindTakesTheStart(t *testing.T) {
	for _, start := range []Start{StartPiSSA, StartOLoRA} {
		for _, fresh := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s %t", start, fresh), func(t *testing.T) {
				w := smallBackbone()
				c := NewConfig(1, 2, Names{List: []string{"q_proj", "v_proj"}})
				c.Start = start
				a := freshAdapter(t, c, w)
				a.fresh = fresh
				before := flattened(a.Tensors)
				if err := a.Bind(w); err != nil {
					t.Fatal(err)
				}
				if a.Lengths != nil {
					t.Errorf("got row lengths %v, want none", a.Lengths)
				}
				want := map[string]*tensor.Dense{}
				for module, key := range map[string]string{qProj: keyQ, vProj: keyV} {
					d := w[key+".weight"]
					matA, matB, err := start.begin(d.Float32s(), d.Shape()[0], d.Shape()[1], Target{Rank: 1, Scale: 2}, true)
					if err != nil {
						t.Fatal(err)
					}
					want[NameA(module)], want[NameB(module)] = matA, matB
				}
				if diff := cmp.Diff(flattened(want), flattened(a.InitOffset)); diff != "" {
					t.Errorf("start (-want +got):\n%s", diff)
				}
				begins := before
				if fresh {
					begins = flattened(want)
				}
				if diff := cmp.Diff(begins, flattened(a.Tensors)); diff != "" {
					t.Errorf("tensors (-want +got):\n%s", diff)
				}
				a.InitOffset[NameA(qProj)].Float32s()[0] = 99
				if err := a.Bind(w); err != nil {
					t.Fatal(err)
				}
				if got := a.InitOffset[NameA(qProj)].Float32s()[0]; got != 99 {
					t.Errorf("bound again: got a start with %v, want 99 as before", got)
				}
			})
		}
	}
}

// TestBindLeavesPlainAdapters: no weights are needed, and none are read.
func TestBindLeavesPlainAdapters(t *testing.T) {
	a := freshAdapter(t, NewConfig(1, 2, Names{List: []string{"q_proj"}}), smallBackbone())
	before := flattened(a.Tensors)
	if err := a.Bind(held{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, flattened(a.Tensors)); diff != "" {
		t.Errorf("tensors (-want +got):\n%s", diff)
	}
	if a.Lengths != nil || a.InitOffset != nil || len(a.Whole) > 0 {
		t.Errorf("got lengths %v, start %v, whole %v, want none", a.Lengths, a.InitOffset, a.Whole)
	}
}

// TestBindRefuses: the error names what cannot be bound.
func TestBindRefuses(t *testing.T) {
	dora := func(c *Config) { c.DoRA = true }
	olora := func(c *Config) { c.Start = StartOLoRA }
	for name, test := range map[string]struct {
		change func(c *Config)
		spoil  func(w held)
		want   string
	}{
		"tied": {func(c *Config) { c.DoRA, c.Targets.List = true, []string{"lm_head"} },
			func(w held) { delete(w, "lm_head.weight") }, "lm_head has no weight of its own"},
		"missing, DoRA":  {dora, func(w held) { delete(w, keyQ+".weight") }, "has no weight of its own"},
		"missing, OLoRA": {olora, func(w held) { delete(w, keyQ+".weight") }, "has no weight of its own"},
		"unread": {olora, func(w held) { w[keyQ+".weight"] = nil },
			"no tensor " + keyQ + ".weight"},
		"rank": {func(c *Config) { c.Start, c.Rank = StartOLoRA, 3 }, func(held) {},
			qProj + `: init_lora_weights "olora" needs a rank of at most 2`},
		"whole": {func(c *Config) { c.ModulesToSave = []string{"nowhere"} }, func(held) {}, "names no module"},
		"type": {func(c *Config) { c.ModulesToSave = []string{"norm"} }, func(w held) {
			w["model.norm.weight"] = tensor.New(tensor.WithShape(2), tensor.Of(tensor.Float64))
		}, "only floating-point parameters are trained"},
	} {
		t.Run(name, func(t *testing.T) {
			w := smallBackbone()
			c := NewConfig(1, 2, Names{List: []string{"q_proj"}})
			test.change(c)
			a := freshAdapter(t, c, w)
			test.spoil(w)
			holdsError(t, "Bind", a.Bind(unreadable{w}), test.want)
			if a.Lengths != nil || a.InitOffset != nil {
				t.Errorf("got lengths %v and start %v after the error, want none", a.Lengths, a.InitOffset)
			}
		})
	}
}

// unreadable has the names and shapes of a checkpoint whose nil tensors cannot be read.
type unreadable struct{ held }

func (u unreadable) Info(name string) (checkpoints.TensorInfo, bool) {
	if d, ok := u.held[name]; ok && d == nil {
		return checkpoints.TensorInfo{Name: name, Type: onnx.Float, Shape: []int64{3, 2}}, true
	}
	return u.held.Info(name)
}
