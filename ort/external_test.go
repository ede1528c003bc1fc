package ort

import (
	"context"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	onnxruntime "github.com/yalue/onnxruntime_go"
	"gorgonia.org/tensor"

	"assay/onnx"
)

// TestLazyOnDevices: on other devices than the CPU, whose memory the pool's tensors are not in, a session copies large
// lazy tensors, which are in no file. The CPU takes the place of the device here.
func TestLazyOnDevices(t *testing.T) {
	const rows = 1 << 14
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "weights"), make([]byte, 8), 0o600); err != nil {
		t.Fatal(err)
	}
	want := make([]float32, 2)
	lazy := &onnx.Tensor{Name: "w", Type: onnx.Float, Shape: []int64{rows, 2}, Lazy: &onnx.LazyTensor{
		Key: "TestLazyOnDevices", Location: "weights", Fill: func(into []byte) error {
			for i := range 2 * rows {
				v := float32(i % 7)
				want[i%2] += v
				binary.LittleEndian.PutUint32(into[4*i:], math.Float32bits(v))
			}
			return nil
		}}}
	b := onnx.NewBuilder("lazy", 21)
	b.M.Initializers = append(b.M.Initializers, lazy)
	y := b.Op("Mul", "w", b.Input("x", onnx.Float, onnx.Dims(1)))
	b.Output("y", b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, y, b.Ints(0)), onnx.Float, onnx.Dims(2))
	m := *b.M
	l, err := share(&m, folder, false)
	if err != nil {
		t.Fatal(err)
	}
	defer l.release()
	s := openOver(t, &m, folder, device(0), l)
	clear(l.weights[0].pages) // the copy stays
	in := map[string]*tensor.Dense{"x": tensor.New(tensor.WithShape(1), tensor.WithBacking([]float32{1}))}
	out, err := s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out["y"].Data()); diff != "" {
		t.Errorf("sums of the copy's columns (-want +got):\n%s", diff)
	}
}

// openOver opens a session on the CPU with a lease's tensors as on a device.
func openOver(t *testing.T, m *onnx.Model, folder string, d device, l *lease) *Session {
	t.Helper()
	if _, err := load(); err != nil {
		t.Fatal(err)
	}
	so, err := sessionOptions(Options{Folder: folder})
	if err != nil {
		t.Fatal(err)
	}
	defer so.Destroy()
	if err := l.addTo(so, d); err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	a, err := adapt(m, nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Session{device: cpu.String(), inputs: a.inputs, outputs: a.outputs}
	s.s, err = onnxruntime.NewDynamicAdvancedSessionWithONNXData(data, inner(s.inputs), inner(s.outputs), so)
	if err != nil {
		t.Fatalf("opening: got error %v, want a session over a copy", err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
