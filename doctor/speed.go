package doctor

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"gorgonia.org/tensor"

	"assay/onnx"
	"assay/ort"
)

// Speed is how fast a way trains.
type Speed struct {
	Way     string  `json:"way"`
	Seconds float64 `json:"seconds"`  // of the fastest step but the first
	Tokens  float64 `json:"tokens_s"` // tokens a second
	// Rate is in operations a second: 4 for each token and parameter of the decoder's layers (forward, and backward to the
	// inputs: the weights are frozen). Attention, vision tower and tables are not counted.
	Rate  float64 `json:"rate"`
	Peak  float64 `json:"peak"` // operations a second of a large product of matrices on this device, in this type
	Share float64 `json:"share"`
	dtype string
}

// Memory is what training took, beside what --dry-run promises.
type Memory struct {
	Way      string           `json:"way"`
	Planned  int64            `json:"planned"` // bytes
	Parts    map[string]int64 `json:"parts"`
	Measured int64            `json:"measured,omitempty"` // bytes; 0: could not be measured
	How      string           `json:"how"`
}

func (d *doctor) speed(w way, t *traced) {
	if len(t.seconds) < 2 {
		return
	}
	s := Speed{Way: w.String(), Seconds: slices.Min(t.seconds[1:]), dtype: w.dtype}
	s.Tokens = float64(t.tokens) / s.Seconds
	s.Rate = 4 * float64(d.Model.Decoder) * s.Tokens
	d.Speed = append(d.Speed, s)
}

// measure finds the device's own rate, and the share of it that training has.
func (d *doctor) measure(ctx context.Context) error {
	peaks := map[string]float64{}
	for i := range d.Speed {
		s := &d.Speed[i]
		if _, ok := peaks[s.dtype]; !ok {
			d.o.Note("multiplying matrices in " + s.dtype)
			p, err := d.peak(ctx, s.dtype)
			if err != nil {
				d.problem("a product of matrices in %s: %v", s.dtype, err)
			}
			peaks[s.dtype] = p
		}
		if s.Peak = peaks[s.dtype]; s.Peak > 0 {
			s.Share = s.Rate / s.Peak
		}
		if s.Share > 1 {
			d.Notes = append(d.Notes, fmt.Sprintf("%s: a step is faster than the product of matrices that it is measured by: "+
				"the machine did other things meanwhile", s.Way))
		}
	}
	return nil
}

// peak multiplies n x n matrices, one after the other, and returns operations a second.
func (d *doctor) peak(ctx context.Context, dtype string) (float64, error) {
	n, times, t := int64(1024), 4, onnx.Float
	if d.cuda() {
		n, times = 8192, 16
	}
	if dtype == "bfloat16" {
		t = onnx.BFloat16
	}
	b := onnx.NewBuilder("products", 23)
	x := b.Input("x", onnx.Float, onnx.Dims(int(n), int(n)))
	small := b.OpA("Cast", onnx.Attrs{"to": t}, b.Op("Mul", x, b.Scalar(onnx.Float, 1/float64(n))))
	y := b.OpA("Cast", onnx.Attrs{"to": t}, x)
	for range times {
		y = b.Op("MatMul", y, small)
	}
	y = b.OpA("Cast", onnx.Attrs{"to": onnx.Float}, y)
	b.Output("y", b.OpA("ReduceMax", onnx.Attrs{"keepdims": 0}, y), onnx.Float, nil)
	s, err := ort.Open(b.M, ort.Options{Device: d.Device})
	if err != nil {
		return 0, err
	}
	defer s.Close()
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%7) / 7
	}
	in := map[string]*tensor.Dense{"x": tensor.New(tensor.WithShape(int(n), int(n)), tensor.WithBacking(values))}
	best := 0.0
	for left := 4; left > 0; left-- { // until four runs are no faster: the machine may do other things
		begin := time.Now()
		if _, err := s.Run(ctx, in); err != nil {
			return 0, err
		}
		if rate := 2 * float64(n*n*n) * float64(times) / time.Since(begin).Seconds(); rate > best {
			if rate > 1.02*best {
				left = 5
			}
			best = rate
		}
	}
	return best, nil
}

// memoryBefore is what a device has in use now; 0 if that is not known.
func (d *doctor) memoryBefore(device string) int64 {
	if strings.HasPrefix(device, "cuda") {
		return usedOnGPU(device)
	}
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak begins anew
	return status("VmRSS:")
}

// memoryAfter compares what was taken since with the plan.
func (d *doctor) memoryAfter(before int64, t *traced) {
	d.Memory = Memory{Way: d.Device, Parts: t.plan.Bytes,
		How: "the process's largest resident memory, less what it had before"}
	for _, n := range t.plan.Bytes {
		d.Memory.Planned += n
	}
	if !d.cuda() {
		if peak := status("VmHWM:"); peak > before && before > 0 {
			d.Memory.Measured = peak - before
		}
		d.Memory.Planned -= t.plan.Bytes["program"] // it was there before
		return
	}
	d.Memory.How = "nvidia-smi, less what was in use before"
	d.Memory.Measured = max(t.used-before, 0)
}

// status reads a line of /proc/self/status, in bytes; 0 where there is none.
func status(key string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// usedOnGPU asks nvidia-smi for the memory in use, in bytes; 0 without it. Arenas of sessions keep what they took, so
// that this is their peak while the sessions are open.
func usedOnGPU(device string) int64 {
	out, err := exec.Command("nvidia-smi", "-i", strings.TrimPrefix(device, "cuda:"), "--query-gpu=memory.used",
		"--format=csv,noheader,nounits").Output()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return n << 20
}

func (m Memory) String() string {
	if m.Measured == 0 {
		return fmt.Sprintf("%.1f MiB planned, not measured", float64(m.Planned)/(1<<20))
	}
	return fmt.Sprintf("%.1f MiB planned, %.1f MiB measured", float64(m.Planned)/(1<<20), float64(m.Measured)/(1<<20))
}
