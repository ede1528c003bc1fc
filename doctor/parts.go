package doctor

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"assay/model/fresh"
	"assay/model/quantize"
	"assay/onnx"
)

// values are what a part computed, by name: "loss", "score", or that of a tensor, whose gradient it is.
type values map[string][]float32

// part is one thing that is tried beside the reference.
type part struct {
	name string
	run  func(*doctor, context.Context, way) (values, error)
}

// parts that are tried on a small model. Trace and placement are tried on the other one.
var parts = []part{
	{"packed", stepOf{packed: true}.run},
	{"packed_symmetric", stepOf{packed: true, symmetric: true}.run},
	{"groups", stepOf{group: true}.run},
	{"blocks", stepOf{blocks: 32}.run},
	{"text", (*doctor).text},
	{"heads", (*doctor).heads},
	{"scoring", (*doctor).scoring},
	{"pixels", (*doctor).pixels},
}

// Names of parts that are not in the list.
const (
	partTrace    = "trace"
	partPlace    = "placement"
	partResident = "resident"
)

// Parts are the names of all that can be tried.
func Parts() []string {
	names := []string{partTrace, partPlace}
	for _, p := range parts {
		names = append(names, p.name)
	}
	return append(names, partResident)
}

// checkParts refuses parts that there are not.
func checkParts(wanted []string) error {
	for _, name := range wanted {
		if !slices.Contains(Parts(), name) {
			return fmt.Errorf("part %q is unknown: want some of %s", name, strings.Join(Parts(), ", "))
		}
	}
	return nil
}

func (d *doctor) wants(name string) bool {
	return len(d.o.Parts) == 0 || slices.Contains(d.o.Parts, name)
}

// Row is a part beside the reference.
type Row struct {
	Part      string  `json:"part"`
	Way       string  `json:"way"`
	Loss      float64 `json:"loss"`      // largest relative difference of a loss
	Score     float64 `json:"score"`     // largest difference of a score, on 0..1
	Gradients float64 `json:"gradients"` // distance of a tensor's gradient from the reference's, of its norm
	Worst     string  `json:"worst,omitempty"`
	Seconds   float64 `json:"seconds"` // with opening the sessions
	Same      bool    `json:"same"`    // within what the type allows
	Note      string  `json:"note,omitempty"`
	Error     string  `json:"error,omitempty"`
}

// tryParts runs the parts that are wanted; one that fails is a row with its error.
func (d *doctor) tryParts(ctx context.Context) error {
	made := false
	for _, p := range parts {
		if !d.wants(p.name) {
			continue
		}
		if !made {
			if err := d.makeSmall(); err != nil {
				return err
			}
			made = true
		}
		d.tryPart(ctx, p)
	}
	if !d.wants(partResident) {
		return nil
	}
	if !made {
		if err := d.makeSmall(); err != nil {
			return err
		}
	}
	return d.tryResident(ctx)
}

func (d *doctor) tryPart(ctx context.Context, p part) {
	d.o.Note("trying " + p.name)
	want, err := p.run(d, ctx, way{device: "cpu", dtype: "float32"})
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
		r.Same = r.within(w.dtype)
		d.add(r)
	}
}

// partWays are those that parts are tried in: see ways.
func (d *doctor) partWays() []way {
	if d.cuda() {
		return []way{{device: d.Device, dtype: "float32"}, {device: d.Device, dtype: "bfloat16"}}
	}
	return []way{{device: "cpu", dtype: "float32", alone: true}}
}

// add notes a row, and what is wrong with it.
func (d *doctor) add(r Row) {
	d.Rows = append(d.Rows, r)
	switch {
	case r.Error != "":
		d.problem("%s, %s: %s", r.Part, r.Way, r.Error)
	case !r.Same:
		d.problem("%s, %s: losses differ by %.1e, scores by %.1e, gradients by %.1e (%s)", r.Part, r.Way, r.Loss, r.Score,
			r.Gradients, r.Worst)
	}
}

// within tells whether the differences are those of the type.
func (r *Row) within(dtype string) bool {
	gradients, losses := closeGradients, closeLosses
	if dtype == "bfloat16" {
		gradients, losses = halfGradients, halfLosses
	}
	return r.Gradients <= gradients && r.Loss <= losses && r.Score <= losses
}

// beside compares values with the reference's. What is not finite, or is missing, is infinitely far.
func beside(want, got values) (r Row) {
	for name, a := range want {
		b := got[name]
		if len(b) != len(a) {
			return Row{Loss: math.MaxFloat64, Score: math.MaxFloat64, Gradients: math.MaxFloat64, Worst: name}
		}
		switch name {
		case "loss":
			for i, v := range a {
				r.Loss = worse(r.Loss, math.Abs(float64(b[i]-v))/math.Abs(float64(v)))
			}
		case "score":
			for i, v := range a {
				r.Score = worse(r.Score, math.Abs(float64(b[i]-v)))
			}
		default:
			if far := distance(a, b); !(far <= r.Gradients) || r.Worst == "" {
				r.Gradients, r.Worst = worse(r.Gradients, far), name
			}
		}
	}
	return r
}

// distance is |a - b| / |a|; 0 where both are zeros.
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

// makeSmall makes the model that parts are tried on. Its weights are exact in bfloat16, as those of most published
// checkpoints are.
func (d *doctor) makeSmall() error {
	d.small = filepath.Join(d.folder, "small")
	sizes, err := fresh.Defaults(fresh.Qwen25VL)
	if err != nil {
		return err
	}
	sizes.Layers, sizes.VisionLayers, sizes.FullAttention = 2, 2, []int{1}
	sizes.Intermediate = 480 // blocks of packed weights are even in number in some layers, odd in others
	sizes.MinPixels, sizes.MaxPixels = 28*28*16, 28*28*16
	return d.create(d.small, sizes)
}

// create makes a checkpoint with random weights.
func (d *doctor) create(dir string, sizes fresh.Sizes) error {
	text := filepath.Join(d.folder, "words.txt")
	if err := os.WriteFile(text, []byte(words), 0o666); err != nil {
		return err
	}
	if _, err := fresh.Create(dir, sizes, []string{text}, 1); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	if err == nil && len(files) == 0 {
		err = errors.New("the made checkpoint has no weights")
	}
	for _, f := range files {
		err = errors.Join(err, roundFile(f))
	}
	return err
}

// roundFile rounds the float32 values of a safetensors file, of which it has no others, to bfloat16, in place.
func roundFile(path string) error {
	raw, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(raw) < 8 {
		return fmt.Errorf("%s is cut short", path)
	}
	for data := raw[8+binary.LittleEndian.Uint64(raw):]; len(data) >= 4; data = data[4:] {
		v := math.Float32frombits(binary.LittleEndian.Uint32(data))
		binary.LittleEndian.PutUint32(data, uint32(onnx.BFloat16Bits(v))<<16)
	}
	return os.WriteFile(path, raw, 0o666)
}

// packedBackbone is the small model with a language model of four bits.
func (d *doctor) packedBackbone(ctx context.Context, symmetric bool) (string, error) {
	dir := filepath.Join(d.folder, fmt.Sprintf("packed-%v", symmetric))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	_, err := quantize.Run(ctx, quantize.Options{Backbone: d.small, Out: dir, Bits: 4, Block: 32,
		Symmetric: symmetric})
	return dir, err
}
