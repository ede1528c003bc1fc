package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/cli"
	"assay/onnx"
	"assay/onnx/grad"
	"assay/ort"
)

func init() { register(newGradCommand) }

// gradOptions are the flags of train grad.
type gradOptions struct {
	model, inputs, cotangents, out, outputsOut, modelOut, device string
	wrt                                                          []string
}

// gradResult is what train grad reports.
type gradResult struct {
	Out       string           `json:"out,omitempty"`
	Model     string           `json:"model,omitempty"`
	Device    string           `json:"device,omitempty"`
	Outputs   []string         `json:"outputs"`   // that were differentiated
	Gradients map[string][]int `json:"gradients"` // shapes by name; null if the model was not run
}

func newGradCommand() *cobra.Command {
	var o gradOptions
	c := &cobra.Command{
		Use:   "grad --model FILE --inputs FILE --out FILE",
		Short: "Differentiate any ONNX model",
		Long: `grad computes d(sum of output x cotangent)/d(name) for inputs and initializers of an ONNX model, by a gradient graph of
ordinary ONNX operators run on ONNX Runtime. docs/ops.md lists the operators.

--inputs holds one tensor per graph input, by name. --cotangents holds one tensor per differentiated output, by output name;
without it all outputs are differentiated with ones. External data is looked for beside the model.

--model-out writes the model with the gradients: its outputs are the model's own and one "gradient/NAME" for each name, its
inputs the model's own and one "cotangent/NAME" for each output in --cotangents. With --inputs its sizes are theirs. Weights in other
files stay there if it is written into the model's folder, and are copied to FILE.data if not.

A gradient is exact, or the model is refused with the name of the node that it cannot be followed through: docs/gradients.md.`,
		Example: `  train grad --model testdata/oracle/onnx/llama/model.onnx --inputs testdata/oracle/onnx/llama/inputs.safetensors \
      --cotangents testdata/oracle/onnx/llama/cotangent.safetensors --wrt norm.weight,k.weight --out build/grads.safetensors
  train grad --model testdata/oracle/onnx/llama/model.onnx --wrt norm.weight --model-out build/gradients.onnx`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := differentiate(c, o)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				if r.Model != "" {
					fmt.Fprintf(w, "%s: the model with %d gradients of %s\n", r.Model, len(r.Gradients), strings.Join(r.Outputs, ", "))
				}
				if r.Out != "" {
					fmt.Fprintf(w, "%s: %d gradients of %s, on %s\n", r.Out, len(r.Gradients), strings.Join(r.Outputs, ", "), r.Device)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.model, "model", "", "ONNX model (ai.onnx opset 13 or later)")
	f.StringVar(&o.inputs, "inputs", "", "safetensors file with the graph inputs")
	f.StringVar(&o.cotangents, "cotangents", "", "safetensors file with dL/d(output), by output name (default: ones for every output)")
	f.StringSliceVar(&o.wrt, "wrt", nil, "names to differentiate with respect to (default: all floating-point inputs and initializers)")
	f.StringVar(&o.out, "out", "", "safetensors file to write the gradients to")
	f.StringVar(&o.outputsOut, "outputs-out", "", "safetensors file to write the model's own outputs to")
	f.StringVar(&o.modelOut, "model-out", "", "ONNX file to write the model to that computes outputs and gradients; alone, nothing is run")
	f.StringVar(&o.device, "device", "cpu", "auto, cpu or cuda:N")
	return c
}

// manyNodes is where rewriting the graph costs the runtime more than it saves in one run: the time of its passes grows with the
// square of the nodes.
const manyNodes = 3000

func differentiate(c *cobra.Command, o gradOptions) (*gradResult, error) {
	run := o.inputs != "" || o.out != "" || o.outputsOut != ""
	switch {
	case o.model == "" || !run && o.modelOut == "":
		return nil, cli.Usagef("grad needs --model, and --inputs and --out or --model-out")
	case run && (o.inputs == "" || o.out == ""):
		return nil, cli.Usagef("grad needs --inputs and --out to run the model (--model-out alone only writes the one with gradients)")
	}
	if err := ort.CheckDevice(o.device); err != nil {
		return nil, cli.Usage(err)
	}
	m, folder, err := readModel(o.model)
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Dense{}
	if run {
		if feeds, _, err = checkpoints.ReadFile(o.inputs); err != nil {
			return nil, err
		}
		if err := fixInputs(m, feeds, o.inputs); err != nil {
			return nil, err
		}
	}
	job, err := newGradJob(m, feeds, o)
	if err != nil {
		return nil, err
	}
	if o.modelOut != "" {
		if err := writeModel(c.Context(), m, folder, o.modelOut); err != nil {
			return nil, err
		}
	}
	if !run {
		r := &gradResult{Model: o.modelOut, Outputs: job.outputs, Gradients: map[string][]int{}}
		for _, x := range job.wrt {
			r.Gradients[x] = nil
		}
		return r, nil
	}
	optimize := ort.OptimizeAll
	if len(m.Nodes) > manyNodes {
		optimize = ort.OptimizeNothing
	}
	s, err := ort.Open(m, ort.Options{Device: o.device, Folder: folder, LowMemory: true, Optimize: optimize})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got, err := s.Run(c.Context(), feeds)
	if err != nil {
		return nil, err
	}
	r := &gradResult{Out: o.out, Model: o.modelOut, Device: s.Device(), Outputs: job.outputs, Gradients: map[string][]int{}}
	grads, outputs := map[string]*tensor.Dense{}, map[string]*tensor.Dense{}
	for name, x := range job.wrt {
		grads[x] = got[name]
		r.Gradients[x] = append([]int{}, got[name].Shape()...)
	}
	for _, name := range job.forward {
		outputs[name] = got[name]
	}
	if o.outputsOut != "" {
		if err := checkpoints.WriteFile(o.outputsOut, outputs, nil); err != nil {
			return nil, err
		}
	}
	return r, checkpoints.WriteFile(o.out, grads, nil)
}

// readModel reads and checks a model and the files that its weights lie in, and returns their folder, free of symbolic links.
func readModel(path string) (*onnx.Model, string, error) {
	m, err := onnx.Read(path)
	if err != nil {
		return nil, "", err
	}
	folder, err := filepath.EvalSymlinks(filepath.Dir(path))
	if err == nil {
		folder, err = filepath.Abs(folder)
	}
	if err == nil {
		err = onnx.Sort(m)
	}
	if err == nil {
		err = errors.Join(onnx.Check(m), onnx.CheckExternal(m, folder))
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", path, err)
	}
	return m, folder, nil
}

// fixInputs checks the tensors against the graph's inputs, and puts their sizes into the graph: then whatever depends on
// sizes is known, and what does not fit is found before the model runs.
func fixInputs(m *onnx.Model, feeds map[string]*tensor.Dense, file string) error {
	var problems []string
	known, symbols := map[string]bool{}, map[string]string{}
	inputs := m.Inputs[:0:0]
	defaults, replaced := initialized(m), map[string]bool{}
	for _, in := range m.Inputs {
		known[in.Name] = true
		d, given := feeds[in.Name]
		if !given {
			if !defaults[in.Name] {
				problems = append(problems, fmt.Sprintf("input %q is missing", in.Name))
			}
			inputs = append(inputs, in)
			continue
		}
		replaced[in.Name] = true
		shape := []int(d.Shape())
		if d.IsScalar() {
			shape = nil
		}
		if in.Ranked && len(in.Shape) != len(shape) {
			problems = append(problems, fmt.Sprintf("input %q has shape %v, wanted rank %d", in.Name, shape, len(in.Shape)))
			continue
		}
		fixed := make([]onnx.Dim, len(shape))
		for i, n := range shape {
			fixed[i] = onnx.Fixed(int64(n))
			if !in.Ranked {
				continue
			}
			want := in.Shape[i]
			here := fmt.Sprintf("%d in %q", n, in.Name)
			if before, seen := symbols[want.Name]; seen && want.Name != "" && !strings.HasPrefix(before, fmt.Sprint(n, " ")) {
				problems = append(problems, fmt.Sprintf("dimension %q is %s and %s", want.Name, before, here))
			}
			if want.Name != "" {
				symbols[want.Name] = here
			}
			if want.Known() && want.Size != int64(n) {
				problems = append(problems, fmt.Sprintf("input %q has shape %v, wanted %v", in.Name, shape, in.Shape))
				break
			}
		}
		in.Shape, in.Ranked = fixed, true
		inputs = append(inputs, in)
	}
	for _, name := range slices.Sorted(maps.Keys(feeds)) {
		if !known[name] {
			problems = append(problems, fmt.Sprintf("the model has no input %q", name))
		}
	}
	if problems != nil {
		return fmt.Errorf("%s: %s", file, strings.Join(problems, "; "))
	}
	m.Inputs = inputs
	m.Initializers = slices.DeleteFunc(m.Initializers, func(t *onnx.Tensor) bool { return replaced[t.Name] }) // the defaults
	// Declared for other sizes, maybe; inference knows better now. The types and ranks stay: of some operators nothing else
	// tells them.
	for _, list := range [][]onnx.ValueInfo{m.Outputs, m.Values} {
		for i := range list {
			list[i].Shape = slices.Repeat([]onnx.Dim{{Size: -1}}, len(list[i].Shape))
		}
	}
	return nil
}

// gradJob says which outputs of the extended model are what.
type gradJob struct {
	outputs []string          // differentiated
	forward []string          // kept as outputs
	wrt     map[string]string // output -> name it is the gradient of
}

// newGradJob appends the gradients to m, adds the cotangents to its inputs and to feeds, and leaves what is asked for as
// outputs.
func newGradJob(m *onnx.Model, feeds map[string]*tensor.Dense, o gradOptions) (*gradJob, error) {
	types, err := onnx.Infer(m)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}
	job := &gradJob{wrt: map[string]string{}}
	options := grad.Options{Cotangents: map[string]string{}, Wrt: o.wrt}
	cotangents := map[string]*tensor.Dense{}
	if o.cotangents != "" {
		if cotangents, _, err = checkpoints.ReadFile(o.cotangents); err != nil {
			return nil, err
		}
	}
	b := onnx.Extend(m)
	for _, out := range m.Outputs {
		ct, given := cotangents[out.Name]
		if delete(cotangents, out.Name); !given && (o.cotangents != "" || types.Of(out.Name).Type.Discrete()) {
			continue
		}
		if t := types.Of(out.Name); !t.Type.IsFloat() {
			return nil, fmt.Errorf("%s: output %q is %v and cannot be differentiated; name the outputs to differentiate with --cotangents", o.model, out.Name, t)
		}
		job.outputs = append(job.outputs, out.Name)
		if given {
			v := types.Of(out.Name)
			if !sameShape(ct, v) {
				return nil, fmt.Errorf("%s: the cotangent of output %q has shape %v, wanted %v", o.cotangents, out.Name, ct.Shape(), v)
			}
			name := b.Name("cotangent/" + out.Name)
			m.Inputs = append(m.Inputs, onnx.ValueInfo{Name: name, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
			options.Cotangents[out.Name], feeds[name] = name, ct
		}
	}
	if len(cotangents) > 0 {
		return nil, fmt.Errorf("%s: the model has no output %s", o.cotangents, strings.Join(slices.Sorted(maps.Keys(cotangents)), ", "))
	}
	if len(job.outputs) == 0 {
		return nil, fmt.Errorf("%s: no floating-point output to differentiate", o.model)
	}
	if options.Outputs = job.outputs; options.Wrt == nil {
		options.Wrt = floatLeaves(m, options.Cotangents)
	}
	nodes := len(m.Nodes)
	grads, err := grad.Append(m, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}
	forward := m.Outputs
	m.Outputs = nil
	if o.outputsOut != "" || o.modelOut != "" {
		for _, out := range forward {
			v := declared(out.Name, types.Of(out.Name))
			v.Other = out.Other
			m.Outputs = append(m.Outputs, v)
			job.forward = append(job.forward, out.Name)
		}
	}
	job.outputGradients(m, nodes, grads, types)
	onnx.Prune(m)
	return job, nil
}

// outputGradients makes the gradients outputs of m, named after what they belong to and declared with its type and shape.
// Their values take these names; nodes before first are not touched.
func (j *gradJob) outputGradients(m *onnx.Model, first int, grads map[string]string, types *onnx.Types) {
	b := onnx.Extend(m)
	own := map[string]bool{}
	for _, n := range m.Nodes[first:] {
		for _, y := range n.Outputs {
			own[y] = true
		}
	}
	names := map[string]string{}
	var copies []*onnx.Node
	for _, x := range slices.Sorted(maps.Keys(grads)) {
		g, name := grads[x], b.Name("gradient/"+x)
		if own[g] && names[g] == "" {
			names[g] = name
		} else { // the gradient of another value, too
			copies = append(copies, &onnx.Node{Name: name, Op: "Identity", Inputs: []string{g}, Outputs: []string{name}})
		}
		m.Outputs = append(m.Outputs, declared(name, types.Of(x)))
		j.wrt[name] = x
	}
	m.Nodes = append(m.Nodes, copies...)
	onnx.Rename(m.Nodes[first:], names)
}

// declared is a value as a graph output; sizes that only inference has a name for are left open.
func declared(name string, v *onnx.Value) onnx.ValueInfo {
	shape := slices.Clone(v.Shape)
	for i, d := range shape {
		if strings.ContainsAny(d.Name, "?()*/") {
			shape[i].Name = ""
		}
	}
	return onnx.ValueInfo{Name: name, Type: v.Type, Shape: shape, Ranked: v.Ranked}
}

// sameShape is true where the two do not differ as far as v is known.
func sameShape(d *tensor.Dense, v *onnx.Value) bool {
	shape := d.Shape()
	if d.IsScalar() {
		shape = nil
	}
	return !v.Ranked || slices.EqualFunc(shape, v.Shape, func(n int, want onnx.Dim) bool { return !want.Known() || want.Size == int64(n) })
}

// initialized are the names of the initializers.
func initialized(m *onnx.Model) map[string]bool {
	names := map[string]bool{}
	for _, t := range m.Initializers {
		names[t.Name] = true
	}
	return names
}

// floatLeaves are the floating-point graph inputs, but for the cotangents, and initializers.
func floatLeaves(m *onnx.Model, cotangents map[string]string) []string {
	var names []string
	added, defaults := map[string]bool{}, initialized(m)
	for _, name := range cotangents {
		added[name] = true
	}
	for _, in := range m.Inputs {
		if in.Type.IsFloat() && !added[in.Name] && !defaults[in.Name] {
			names = append(names, in.Name)
		}
	}
	for _, t := range m.Initializers {
		if t.Type.IsFloat() {
			names = append(names, t.Name)
		}
	}
	return names
}
