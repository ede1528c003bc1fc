package gradjob

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/onnx"
)

// fixInputs checks the tensors against the graph's inputs and puts their sizes into the graph. Everything that
// depends on sizes is then known, and mismatches are found before the model runs.
func fixInputs(m *onnx.Model, feeds map[string]*tensor.Dense, file string) error {
	f := inputFixer{symbols: map[string]string{}}
	known, replaced := map[string]bool{}, map[string]bool{}
	inputs, defaults := m.Inputs[:0:0], initialized(m)
	for _, in := range m.Inputs {
		known[in.Name] = true
		d, given := feeds[in.Name]
		if !given {
			if !defaults[in.Name] {
				f.problem("input %q is missing", in.Name)
			}
			inputs = append(inputs, in)
			continue
		}
		replaced[in.Name] = true
		inputs = append(inputs, f.fix(in, d))
	}
	for _, name := range slices.Sorted(maps.Keys(feeds)) {
		if !known[name] {
			f.problem("the model has no input %q", name)
		}
	}
	if f.problems != nil {
		return fmt.Errorf("%s: %s", file, strings.Join(f.problems, "; "))
	}
	m.Inputs = inputs
	// the defaults
	m.Initializers = slices.DeleteFunc(m.Initializers, func(t *onnx.Tensor) bool { return replaced[t.Name] })
	// They may be declared for other sizes; inference is more precise now. Types and ranks stay: for some operators
	// they are known from nowhere else.
	for _, list := range [][]onnx.ValueInfo{m.Outputs, m.Values} {
		for i := range list {
			list[i].Shape = slices.Repeat([]onnx.Dim{{Size: -1}}, len(list[i].Shape))
		}
	}
	return nil
}

// inputFixer compares tensors with graph inputs and collects mismatches.
type inputFixer struct {
	problems []string
	symbols  map[string]string // named dimension -> its size and the input it is from, as text
}

func (f *inputFixer) problem(format string, args ...any) {
	f.problems = append(f.problems, fmt.Sprintf(format, args...))
}

// fix returns the input with the sizes of the tensor.
func (f *inputFixer) fix(in onnx.ValueInfo, d *tensor.Dense) onnx.ValueInfo {
	shape := []int(d.Shape())
	if d.IsScalar() {
		shape = nil
	}
	if in.Ranked && len(in.Shape) != len(shape) {
		f.problem("input %q has shape %v, want rank %d", in.Name, shape, len(in.Shape))
		return in
	}
	fixed := make([]onnx.Dim, len(shape))
	for i, n := range shape {
		fixed[i] = onnx.Fixed(int64(n))
		if !in.Ranked {
			continue
		}
		want := in.Shape[i]
		here := fmt.Sprintf("%d in %q", n, in.Name)
		if before, seen := f.symbols[want.Name]; seen && want.Name != "" && !strings.HasPrefix(before, fmt.Sprint(n, " ")) {
			f.problem("dimension %q is %s and %s", want.Name, before, here)
		}
		if want.Name != "" {
			f.symbols[want.Name] = here
		}
		if want.Known() && want.Size != int64(n) {
			f.problem("input %q has shape %v, want %v", in.Name, shape, in.Shape)
			break
		}
	}
	in.Shape, in.Ranked = fixed, true
	return in
}

// initialized returns the names of the initializers.
func initialized(m *onnx.Model) map[string]bool {
	names := map[string]bool{}
	for _, t := range m.Initializers {
		names[t.Name] = true
	}
	return names
}
