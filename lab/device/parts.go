package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"assay/internal/doctor/trial"
	"assay/model/quantize"
)

// values are the results of a part, by name: "loss", "score", or the name of a tensor for its gradient.
type values map[string][]float32

// part is one check against the reference.
type part struct {
	name string
	run  func(*visit, context.Context, trial.Way) (values, error)
}

// parts run on a small model. Trace and placement use the other one.
var parts = []part{
	{"packed", stepOf{packed: true}.run},
	{"packed_symmetric", stepOf{packed: true, symmetric: true}.run},
	{"groups", stepOf{group: true}.run},
	{"blocks", stepOf{blocks: 32}.run},
	{"text", (*visit).text},
	{"heads", (*visit).heads},
	{"scoring", (*visit).scoring},
	{"pixels", (*visit).pixels},
}

// Parts that compare something else.
const (
	partPlacement = "placement"
	partResident  = "resident"
)

// partNames returns the names of all parts.
func partNames() []string {
	names := []string{partPlacement}
	for _, p := range parts {
		names = append(names, p.name)
	}
	return append(names, partResident)
}

func (d *visit) wants(name string) bool { return len(d.chosen) == 0 || slices.Contains(d.chosen, name) }

// Row is a part compared with the reference.
type Row struct {
	Part      string  `json:"part"`
	Way       string  `json:"way"`
	Loss      float64 `json:"loss"`      // largest relative difference of a loss
	Score     float64 `json:"score"`     // largest difference of a score, on 0..1
	Gradients float64 `json:"gradients"` // distance of a tensor's gradient from the reference, relative to its norm
	Worst     string  `json:"worst,omitempty"`
	Seconds   float64 `json:"seconds"` // includes opening the sessions
	Same      bool    `json:"same"`    // within the tolerance of the type
	Note      string  `json:"note,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// tryPart compares a part with the reference; an error is recorded as a row.
func (d *visit) tryPart(ctx context.Context, p part) {
	d.note("trying " + p.name)
	want, err := p.run(d, ctx, trial.Way{Device: "cpu", DType: "float32"})
	if err != nil {
		d.add(Row{Part: p.name, Way: "cpu, float32", Error: err.Error()})
		return
	}
	for _, w := range d.partWays() {
		begin := time.Now()
		got, err := p.run(d, ctx, w)
		if err != nil {
			d.add(Row{Part: p.name, Way: w.String(), Error: err.Error()})
			continue
		}
		r := beside(want, got)
		r.Part, r.Way, r.Seconds = p.name, w.String(), time.Since(begin).Seconds()
		r.Same = r.within(w.DType)
		d.add(r)
	}
}

// partWays returns the ways in which parts run; on the CPU, in an independent order of computation.
func (d *visit) partWays() []trial.Way {
	if d.cuda() {
		return []trial.Way{{Device: d.device, DType: "float32"}, {Device: d.device, DType: "bfloat16"}}
	}
	return []trial.Way{{Device: "cpu", DType: "float32", Alone: true}}
}

// add records a row and its problems.
func (d *visit) add(r Row) {
	d.Rows = append(d.Rows, r)
	switch {
	case r.Error != "":
		d.problem("%s, %s: %s", r.Part, r.Way, r.Error)
	case !r.Same:
		d.problem("%s, %s: losses differ by %.1e, scores by %.1e, gradients by %.1e (%s)", r.Part, r.Way, r.Loss, r.Score,
			r.Gradients, r.Worst)
	}
}

// within reports whether the differences are within the tolerance of the type.
func (r *Row) within(dtype string) bool {
	gradients, losses := trial.CloseGradients, trial.CloseLosses
	if dtype == "bfloat16" {
		gradients, losses = trial.HalfGradients, trial.HalfLosses
	}
	return r.Gradients <= gradients && r.Loss <= losses && r.Score <= losses
}

// beside compares values with the reference's. Values that are missing or not finite are infinitely far.
func beside(want, got values) (r Row) {
	for name, a := range want {
		b := got[name]
		if len(b) != len(a) {
			return Row{Loss: math.MaxFloat64, Score: math.MaxFloat64, Gradients: math.MaxFloat64, Worst: name}
		}
		switch name {
		case "loss":
			for i, v := range a {
				r.Loss = trial.Worse(r.Loss, math.Abs(float64(b[i]-v))/math.Abs(float64(v)))
			}
		case "score":
			for i, v := range a {
				r.Score = trial.Worse(r.Score, math.Abs(float64(b[i]-v)))
			}
		default:
			if far := distance(a, b); !(far <= r.Gradients) || r.Worst == "" {
				r.Gradients, r.Worst = trial.Worse(r.Gradients, far), name
			}
		}
	}
	return r
}

// distance returns |a - b| / |a|; 0 if both are zeros.
func distance(a, b []float32) float64 {
	var far, size float64
	for i, v := range a {
		x := float64(b[i]) - float64(v)
		far, size = far+x*x, size+float64(v)*float64(v)
	}
	if far == 0 {
		return 0
	}
	return math.Sqrt(far / size)
}

// packedBackbone makes the small model with a 4-bit language model.
func (d *visit) packedBackbone(ctx context.Context, symmetric bool) (string, error) {
	dir := filepath.Join(d.folder, fmt.Sprintf("packed-%v", symmetric))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	_, err := quantize.Run(ctx, quantize.Options{Backbone: d.backbone, Out: dir, Bits: 4, Block: 32,
		Symmetric: symmetric})
	return dir, err
}
