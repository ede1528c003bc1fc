// Package gradjob is `train grad`: it reads an ONNX model and its inputs (safetensors), fixes the input sizes, appends
// gradient nodes with onnx/grad, runs the model once, and writes the gradients, the outputs or the extended model.
package gradjob

import (
	"context"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/onnx"
	"assay/ort"
)

// Options are the files of a job. Either Inputs and Out are given, or ModelOut, or all of them.
type Options struct {
	Model      string   // ONNX model; external data is looked up relative to it
	Inputs     string   // safetensors file: one tensor for each graph input, by name
	Cotangents string   // safetensors file: dL/d(output) by output name; "": ones for every floating-point output
	Wrt        []string // names to differentiate with respect to; nil: all floating-point inputs and initializers
	Out        string   // safetensors file of the gradients
	OutputsOut string   // safetensors file of the model's own outputs; "": none
	ModelOut   string   // ONNX file of the model that computes outputs and gradients; if only this is set, nothing is run
	Device     string   // auto, cpu, cuda:N
}

// Result describes the files that were written.
type Result struct {
	Out       string           `json:"out,omitempty"`
	Model     string           `json:"model,omitempty"`
	Device    string           `json:"device,omitempty"`
	Outputs   []string         `json:"outputs"`   // the differentiated outputs
	Gradients map[string][]int `json:"gradients"` // shapes by name; null if the model was not run
}

// manyNodes is the number of nodes above which optimizing the graph takes longer than it saves in one run: the time
// of its passes grows with the square of the number of nodes.
const manyNodes = 3000

// Run computes d(sum of output x cotangent)/d(name), and writes the requested files. A gradient is exact, or the
// model is refused with the name of the node that blocks it.
func Run(ctx context.Context, o Options) (*Result, error) {
	run := o.Inputs != "" || o.Out != "" || o.OutputsOut != ""
	switch {
	case o.Model == "" || !run && o.ModelOut == "":
		return nil, exit.Usagef("grad needs --model, and --inputs and --out or --model-out")
	case run && (o.Inputs == "" || o.Out == ""):
		return nil, exit.Usagef("grad needs --inputs and --out to run the model " +
			"(--model-out alone only writes the model with gradients)")
	}
	if err := ort.CheckDevice(o.Device); err != nil {
		return nil, exit.Usage(err)
	}
	m, folder, err := readModel(o.Model)
	if err != nil {
		return nil, err
	}
	feeds := map[string]*tensor.Dense{}
	if run {
		if feeds, _, err = checkpoints.ReadFile(o.Inputs); err != nil {
			return nil, err
		}
		if err := fixInputs(m, feeds, o.Inputs); err != nil {
			return nil, err
		}
	}
	e, err := extend(m, feeds, o)
	if err != nil {
		return nil, err
	}
	if o.ModelOut != "" {
		if err := writeModel(ctx, m, folder, o.ModelOut); err != nil {
			return nil, err
		}
	}
	r := &Result{Model: o.ModelOut, Outputs: e.outputs, Gradients: map[string][]int{}}
	if !run {
		for _, x := range e.wrt {
			r.Gradients[x] = nil
		}
		return r, nil
	}
	got, device, err := runModel(ctx, m, ort.Options{Device: o.Device, Folder: folder, LowMemory: true}, feeds)
	if err != nil {
		return nil, err
	}
	r.Out, r.Device = o.Out, device
	return r, e.write(got, o, r)
}

// runModel runs a model once and returns its outputs and the device.
func runModel(
	ctx context.Context, m *onnx.Model, o ort.Options, feeds map[string]*tensor.Dense,
) (got map[string]*tensor.Dense, device string, err error) {
	o.Optimize = ort.OptimizeAll
	if len(m.Nodes) > manyNodes {
		o.Optimize = ort.OptimizeNothing
	}
	s, err := ort.Open(m, o)
	if err != nil {
		return nil, "", err
	}
	defer s.Close()
	got, err = s.Run(ctx, feeds)
	return got, s.Device(), err
}

// write writes gradients and outputs to their files, and records the gradients' shapes.
func (e *extended) write(got map[string]*tensor.Dense, o Options, r *Result) error {
	grads := map[string]*tensor.Dense{}
	for name, x := range e.wrt {
		grads[x] = got[name]
		r.Gradients[x] = append([]int{}, got[name].Shape()...)
	}
	if o.OutputsOut != "" {
		outputs := map[string]*tensor.Dense{}
		for _, name := range e.forward {
			outputs[name] = got[name]
		}
		if err := checkpoints.WriteFile(o.OutputsOut, outputs, nil); err != nil {
			return err
		}
	}
	return checkpoints.WriteFile(o.Out, grads, nil)
}
