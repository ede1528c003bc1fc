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
	model, inputs, cotangents, out, outputsOut, device string
	wrt                                                []string
}

// gradResult is what train grad reports.
type gradResult struct {
	Out       string           `json:"out"`
	Device    string           `json:"device"`
	Outputs   []string         `json:"outputs"` // that were differentiated
	Gradients map[string][]int `json:"gradients"`
}

func newGradCommand() *cobra.Command {
	var o gradOptions
	c := &cobra.Command{
		Use:   "grad --model FILE --inputs FILE --out FILE",
		Short: "Differentiate any ONNX model",
		Long: `grad computes d(sum of output x cotangent)/d(name) for inputs and initializers of an ONNX model, by a gradient graph of
ordinary ONNX operators run on ONNX Runtime. docs/ops.md lists the operators.

--inputs holds one tensor per graph input, by name. --cotangents holds one tensor per differentiated output, by output name;
without it all outputs are differentiated with ones. External data is looked for beside the model.`,
		Example: `  train grad --model testdata/oracle/onnx/llama/model.onnx --inputs testdata/oracle/onnx/llama/inputs.safetensors \
      --cotangents testdata/oracle/onnx/llama/cotangent.safetensors --wrt norm.weight,k.weight --out build/grads.safetensors`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := differentiate(c, o)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d gradients of %s, on %s\n", r.Out, len(r.Gradients), strings.Join(r.Outputs, ", "), r.Device)
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
	f.StringVar(&o.device, "device", "cpu", "auto, cpu or cuda:N")
	return c
}

func differentiate(c *cobra.Command, o gradOptions) (*gradResult, error) {
	if o.model == "" || o.inputs == "" || o.out == "" {
		return nil, cli.Usagef("grad needs --model, --inputs and --out")
	}
	if err := ort.CheckDevice(o.device); err != nil {
		return nil, cli.Usage(err)
	}
	m, folder, err := readModel(o.model)
	if err != nil {
		return nil, err
	}
	feeds, _, err := checkpoints.ReadFile(o.inputs)
	if err != nil {
		return nil, err
	}
	if err := fixInputs(m, feeds, o.inputs); err != nil {
		return nil, err
	}
	job, err := newGradJob(m, feeds, o)
	if err != nil {
		return nil, err
	}
	s, err := ort.Open(m, ort.Options{Device: o.device, Folder: folder, LowMemory: true})
	if err != nil {
		return nil, err
	}
	defer s.Close()
	got, err := s.Run(c.Context(), feeds)
	if err != nil {
		return nil, err
	}
	r := &gradResult{Out: o.out, Device: s.Device(), Outputs: job.outputs, Gradients: map[string][]int{}}
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
	for _, in := range m.Inputs {
		known[in.Name] = true
		d, given := feeds[in.Name]
		if !given {
			if m.Initializer(in.Name) == nil {
				problems = append(problems, fmt.Sprintf("input %q is missing", in.Name))
			}
			inputs = append(inputs, in)
			continue
		}
		m.Initializers = slices.DeleteFunc(m.Initializers, func(t *onnx.Tensor) bool { return t.Name == in.Name }) // the default
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
	for i := range m.Outputs { // declared for other sizes, maybe; inference knows better now
		m.Outputs[i].Ranked, m.Outputs[i].Shape = false, nil
	}
	for i := range m.Values {
		m.Values[i].Shape = make([]onnx.Dim, len(m.Values[i].Shape)) // the types and ranks stay: of some operators nothing else tells them
		for k := range m.Values[i].Shape {
			m.Values[i].Shape[k].Size = -1
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
	grads, err := grad.Append(m, options)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.model, err)
	}
	if types, err = onnx.Infer(m); err != nil {
		return nil, err
	}
	b = onnx.Extend(m)
	forward := m.Outputs
	m.Outputs = nil
	if o.outputsOut != "" {
		for _, out := range forward {
			v := types.Of(out.Name)
			m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: out.Name, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
			job.forward = append(job.forward, out.Name)
		}
	}
	for _, x := range slices.Sorted(maps.Keys(grads)) {
		v := types.Of(grads[x])
		name := b.Name("gradient/" + x)
		b.Output(name, grads[x], v.Type, v.Shape)
		m.Outputs[len(m.Outputs)-1].Ranked = v.Ranked
		job.wrt[name] = x
	}
	onnx.Prune(m)
	return job, nil
}

// sameShape is true where the two do not differ as far as v is known.
func sameShape(d *tensor.Dense, v *onnx.Value) bool {
	shape := d.Shape()
	if d.IsScalar() {
		shape = nil
	}
	return !v.Ranked || slices.EqualFunc(shape, v.Shape, func(n int, want onnx.Dim) bool { return !want.Known() || want.Size == int64(n) })
}

// floatLeaves are the floating-point graph inputs, but for the cotangents, and initializers.
func floatLeaves(m *onnx.Model, cotangents map[string]string) []string {
	var names []string
	for _, in := range m.Inputs {
		added := slices.Contains(slices.Collect(maps.Values(cotangents)), in.Name)
		if in.Type.IsFloat() && !added && m.Initializer(in.Name) == nil {
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
