package grad

import (
	"fmt"
	"testing"

	"assay/onnx"
)

// chain returns n nodes in sequence, each with its own weight; wide returns a sum of n products of one value.
func chain(n int) (*onnx.Model, Options) {
	b := onnx.NewBuilder("chain", 17)
	x := b.Input("x", onnx.Float, onnx.Dims(2, 4))
	o := Options{Wrt: []string{"x"}}
	for i := range n / 2 {
		w := b.Weight(
			&onnx.Tensor{Name: fmt.Sprint("w", i), Type: onnx.Float, Shape: []int64{4}, Data: make([]byte, 16)},
		)
		o.Wrt = append(o.Wrt, w)
		x = b.Op("Tanh", b.Op("Mul", x, w))
	}
	o.Outputs = []string{x}
	return b.M, o
}

func wide(n int) (*onnx.Model, Options) {
	b := onnx.NewBuilder("wide", 17)
	x := b.Input("x", onnx.Float, onnx.Dims(2, 4))
	o := Options{Wrt: []string{"x"}}
	parts := make([]string, n)
	for i := range parts {
		w := b.Weight(
			&onnx.Tensor{Name: fmt.Sprint("w", i), Type: onnx.Float, Shape: []int64{4}, Data: make([]byte, 16)},
		)
		o.Wrt = append(o.Wrt, w)
		parts[i] = b.Op("Mul", x, w)
	}
	o.Outputs = []string{b.Op("Sum", parts...)}
	return b.M, o
}

// BenchmarkAppend: the time per node stays the same for a model of any size.
func BenchmarkAppend(b *testing.B) {
	for name, build := range map[string]func(int) (*onnx.Model, Options){"chain": chain, "wide": wide} {
		for _, n := range []int{1000, 2000, 4000, 8000, 16000} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				for range b.N {
					b.StopTimer()
					m, o := build(n)
					b.StartTimer()
					if _, err := Append(m, o); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/node")
			})
		}
	}
}

// TestBuildingIsLinear: twice the nodes lead to twice the emitted nodes and constants, and each emitted node is typed
// once.
func TestBuildingIsLinear(t *testing.T) {
	for name, build := range map[string]func(int) (*onnx.Model, Options){"chain": chain, "wide": wide} {
		t.Run(name, func(t *testing.T) {
			var emitted, weights [2]int
			for i, n := range []int{500, 1000} {
				m, o := build(n)
				nodes, w := len(m.Nodes), len(m.Initializers)
				if _, err := Append(m, o); err != nil {
					t.Fatal(err)
				}
				emitted[i], weights[i] = len(m.Nodes)-nodes, len(m.Initializers)-w
			}
			if emitted[1] > 2*emitted[0] || weights[1] > weights[0] {
				t.Errorf("%s: got %v nodes and %v constants for 500 and 1,000 nodes, want at most twice the nodes", name, emitted,
					weights)
			}
		})
	}
}
