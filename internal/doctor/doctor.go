// Package doctor implements `train doctor`: it lists the installed libraries, trains an adapter for a few steps on a
// device and on the CPU (doctor/trial), compares gradients and losses, and compares the measured memory with the
// planned. Its report can be attached to a bug report. lab/device tests more, for developers of Assay.
package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/doctor/trial"
	"assay/model/backbone"
	"assay/model/fresh"
	"assay/ort"
)

// Options select device and model.
type Options struct {
	Device   string // cpu, cuda:N, auto
	Backbone string // a checkpoint to train an adapter on; "": a new one with random weights
	Steps    int    // of the traces; 0: 10
	Note     func(text string)
}

// Report is the result of all checks.
type Report struct {
	Device    string    `json:"device"`
	Kernels   string    `json:"kernels"` // kernels of the layers, and the reason for the choice
	Machine   Machine   `json:"machine"`
	Model     TestModel `json:"model"`
	Traces    []Trace   `json:"traces"`    // compared with the reference
	Reference string    `json:"reference"` // how the reference was computed
	Memory    MemoryUse `json:"memory"`
	Notes     []string  `json:"notes,omitempty"`
	Problems  []string  `json:"problems"` // one text for each failed check
}

// TestModel describes the model that was trained.
type TestModel struct {
	Backbone   string `json:"backbone"` // "made" for a new one with random weights
	Family     string `json:"family"`
	Parameters int64  `json:"parameters"`
	Trainable  int64  `json:"trainable"`
	Tokens     int    `json:"tokens"` // of a pair
	Batch      int    `json:"batch"`  // pairs per step
}

// Err joins the problems; nil if there are none.
func (r *Report) Err() error {
	if len(r.Problems) == 0 {
		return nil
	}
	return fmt.Errorf("%s: %s", r.Device, strings.Join(r.Problems, "; "))
}

func (r *Report) problem(format string, args ...any) {
	r.Problems = append(r.Problems, fmt.Sprintf(format, args...))
}

// doctor is one run of the checks.
type doctor struct {
	o Options
	*Report
	folder string // for the new checkpoint
}

// Run checks a device. Problems are in the report and are not an error of Run.
func Run(ctx context.Context, o Options) (r *Report, err error) {
	o.Steps = cmp.Or(o.Steps, 10)
	if o.Note == nil {
		o.Note = func(string) {}
	}
	r = &Report{Problems: []string{}}
	if r.Device, err = ort.Resolve(o.Device); err != nil {
		return nil, err
	}
	d := &doctor{o: o, Report: r}
	if d.folder, err = os.MkdirTemp("", "assay-doctor-"); err != nil {
		return nil, err
	}
	defer os.RemoveAll(d.folder)
	if err := d.openBackbone(); err != nil {
		return nil, err
	}
	if err := d.trace(ctx); err != nil {
		d.problem("trace: %v", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.Machine = machine() // the libraries are loaded now
	return r, nil
}

func (d *doctor) cuda() bool { return strings.HasPrefix(d.Device, "cuda") }

// family returns the architecture (model_type) in config.json.
func family(backbone string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(backbone, "config.json"))
	if err != nil {
		return "", err
	}
	var c struct {
		ModelType string `json:"model_type"`
	}
	err = json.Unmarshal(raw, &c)
	return c.ModelType, err
}

// openBackbone opens the checkpoint, or creates one first: a larger one for a GPU, which small matrix products do not
// keep busy.
func (d *doctor) openBackbone() error {
	d.Model.Backbone = d.o.Backbone
	if d.o.Backbone == "" {
		d.o.Note("creating a model")
		d.Model.Backbone, d.o.Backbone = "made", filepath.Join(d.folder, "backbone")
		sizes, err := fresh.Defaults(fresh.Qwen25VL)
		if err != nil {
			return err
		}
		sizes.MinPixels, sizes.MaxPixels = 28*28*16, 28*28*16
		if d.cuda() {
			sizes.Hidden, sizes.Intermediate, sizes.Layers, sizes.Heads, sizes.KVHeads = 2048, 5632, 8, 16, 8
			sizes.VisionHidden, sizes.VisionHeads, sizes.VisionIntermediate = 320, 4, 856
			sizes.MinPixels, sizes.MaxPixels = 28*28*576, 28*28*576
		}
		if err := trial.Checkpoint(d.o.Backbone, sizes); err != nil {
			return err
		}
	}
	b, err := backbone.OpenBackbone(d.o.Backbone)
	if err != nil {
		return err
	}
	defer b.Close()
	d.Model.Family, err = family(d.o.Backbone)
	return err
}
