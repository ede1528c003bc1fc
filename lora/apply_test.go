package lora

import (
	"context"
	"math"
	"testing"

	"gorgonia.org/tensor"

	"assay/onnx"
	"assay/ort"
)

// TestFactor compares m/|W + s B A| of a DoRA layer with the formula in plain loops.
func TestFactor(t *testing.T) {
	const out, in, rank, scale = 3, 4, 2, 1.5
	w := []float32{1, -2, 3, 4, 0.5, -1, 2, 6, 0, 1, -1, 3}
	matA, matB := []float32{1, 2, -1, 0.5, -3, 2, 1, 4}, []float32{2, -1, 0.25, 3, 1, -2}
	m := []float32{5, 7, 11}
	// |W|^2 of the rows, A W' [rank, out], and the expected result
	squares, aw, want := make([]float32, out), make([]float32, rank*out), make([]float64, out)
	for o := range out {
		length := 0.0
		for i := range in {
			x := float64(w[o*in+i])
			squares[o] += float32(x * x)
			for k := range rank {
				aw[k*out+o] += matA[k*in+i] * w[o*in+i]
				x += scale * float64(matB[o*rank+k]) * float64(matA[k*in+i])
			}
			length += x * x
		}
		want[o] = float64(m[o]) / math.Sqrt(length)
	}
	b := onnx.NewBuilder("factor", 17)
	x := b.Input("x", onnx.Float, onnx.Dims(1, out))
	d := &DoRA{M: b.Floats([]int64{out}, m...), Squares: b.Floats([]int64{out}, squares...),
		AW: b.Floats([]int64{rank, out}, aw...)}
	factor := d.Factor(b, b.Floats([]int64{rank, in}, matA...), b.Floats([]int64{out, rank}, matB...), scale)
	constants := 0
	for _, n := range b.M.Nodes {
		if n.Meta[onnx.MetaConstant] == "true" {
			constants++
			if n.Op != "Sqrt" {
				t.Errorf("constant to the gradient: got a %s, want the Sqrt of the length", n.Op)
			}
		}
	}
	if constants != 1 {
		t.Errorf("got %d nodes that are constants to the gradient, want 1", constants)
	}
	b.Output("factor", b.Op("Mul", x, factor), onnx.Float, onnx.Dims(1, out))
	s, err := ort.Open(b.M, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Run(context.Background(), map[string]*tensor.Dense{"x": matrix(1, out, 1, 1, 1)})
	if err != nil {
		t.Fatal(err)
	}
	if shape := got["factor"].Shape(); len(shape) != 2 || shape[0] != 1 || shape[1] != out {
		t.Fatalf("got shape %v, want (1, %d)", shape, out)
	}
	for i, v := range got["factor"].Float32s() {
		near(t, "factor", []float64{float64(v)}, want[i:i+1], 1e-5)
	}
}
