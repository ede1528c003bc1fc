package grad

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/long"
	"assay/internal/packed"
	"assay/onnx"
)

var oddNumbers = []int64{-1 << 62, -100, -2, -1, 0, 1, 2, 3, 4, 7, 100, 1 << 40}

// oracleModels returns the files of the oracle's models, packed or not.
func oracleModels(t testing.TB) (files []string) {
	t.Helper()
	const beside = "../../testdata/oracle/onnx"
	for _, folder := range []string{beside, packed.Unpack(t, beside+".zip")} {
		found, err := filepath.Glob(filepath.Join(folder, "*", "model.onnx"))
		if err != nil || len(found) == 0 {
			t.Fatalf("models in %s: got none, %v, want some", folder, err)
		}
		files = append(files, found...)
	}
	return files
}

// ofAll asks for the gradients of all outputs with respect to every floating-point input and initializer.
func ofAll(m *onnx.Model, recompute bool) Options {
	o := Options{Recompute: recompute}
	for _, v := range m.Outputs {
		o.Outputs = append(o.Outputs, v.Name)
	}
	for _, v := range m.Inputs {
		if v.Type.IsFloat() {
			o.Wrt = append(o.Wrt, v.Name)
		}
	}
	for _, w := range m.Initializers {
		if w.Type.IsFloat() {
			o.Wrt = append(o.Wrt, w.Name)
		}
	}
	return o
}

// TestMutatedModels: reading and differentiating a mutated model ends with gradients or an error, never a panic.
func TestMutatedModels(t *testing.T) {
	long.Test(t)
	for _, path := range oracleModels(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(100) {
			func() {
				defer func() {
					if p := recover(); p != nil {
						t.Errorf("%s, seed %d: got panic %v, want an error or a graph", filepath.Base(filepath.Dir(path)), seed, p)
						panic(p)
					}
				}()
				rng := rand.New(rand.NewPCG(seed, 7))
				m, err := onnx.Decode(data)
				if err != nil {
					t.Fatal(err)
				}
				for range 1 + rng.IntN(4) {
					mutate(m, rng)
				}
				_, _ = Append(m, ofAll(m, rng.IntN(2) == 0))
			}()
		}
	}
}

// mutate makes one random change to a model.
func mutate(m *onnx.Model, rng *rand.Rand) {
	odd := func() int64 { return oddNumbers[rng.IntN(len(oddNumbers))] }
	n := m.Nodes[rng.IntN(len(m.Nodes))]
	other := m.Nodes[rng.IntN(len(m.Nodes))]
	switch rng.IntN(9) {
	case 0:
		for name, v := range n.Attrs {
			switch v := v.(type) {
			case int64:
				n.Attrs[name] = odd()
			case []int64:
				if len(v) > 0 {
					v[rng.IntN(len(v))] = odd()
				}
			case string:
				n.Attrs[name] = v + "x"
			}
		}
	case 1:
		for name, v := range n.Attrs {
			if v, ok := v.([]int64); ok {
				n.Attrs[name] = v[:rng.IntN(len(v)+1)]
			}
		}
	case 2:
		n.Attrs = nil
	case 3:
		n.Inputs[rng.IntN(len(n.Inputs))] = ""
	case 4:
		n.Inputs[rng.IntN(len(n.Inputs))] = other.Inputs[rng.IntN(len(other.Inputs))]
	case 5:
		n.Op, n.Attrs = other.Op, other.Attrs
	case 6:
		n.Op = table[rng.IntN(len(table))].op
	case 7:
		v := &m.Inputs[rng.IntN(len(m.Inputs))]
		if len(v.Shape) > 0 && rng.IntN(2) == 0 {
			v.Shape[rng.IntN(len(v.Shape))] = onnx.Symbol(fmt.Sprint("s", rng.IntN(3)))
		} else if v.Shape = nil; rng.IntN(2) == 0 {
			v.Ranked = false
		}
	case 8:
		if len(m.Initializers) > 0 {
			w := m.Initializers[rng.IntN(len(m.Initializers))]
			if w.Type == onnx.Int64 && len(w.Data) > 0 {
				i := 8 * rng.IntN(len(w.Data)/8)
				copy(w.Data[i:], onnx.ScalarBytes(onnx.Int64, float64(odd())))
			}
		}
	}
}
