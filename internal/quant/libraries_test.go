package quant

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/onnx"
	"assay/ort"
)

// library opens a case of libraries.zip: tensors stored by bitsandbytes and compressed-tensors, and the values that
// they return; see tools/oracle/packed_libraries.py.
func library(t *testing.T, dir string) *checkpoints.Weights {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := Split(raw)
	if err != nil || c == nil {
		t.Fatalf("Split: got %v, %v, want a configuration", c, err)
	}
	w, err := checkpoints.OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	if err := c.Find(w); err != nil {
		t.Fatal(err)
	}
	return w
}

// TestLibraries: the values are those that the libraries return, bit for bit, and graphs compute with them.
func TestLibraries(t *testing.T) {
	root := packed.Unpack(t, filepath.Join("testdata", "libraries.zip"))
	cases, _ := filepath.Glob(filepath.Join(root, "*"))
	if len(cases) == 0 {
		t.Fatalf("got %d cases, want some", len(cases))
	}
	for _, dir := range cases {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			w := library(t, dir)
			want := oracle.Floats(t, oracle.Tensors(t, filepath.Join(dir, "dequantized.safetensors")), "layer.weight")
			got, err := w.Dense("layer.weight")
			if err != nil {
				t.Fatal(err)
			}
			values := got.Data().([]float32)
			if filepath.Base(dir) == "int4_bfloat16" { // theirs are rounded to the scales' type
				values = slices.Clone(values)
				for i, v := range values {
					values[i] = onnx.BFloat16Value(onnx.BFloat16Bits(v))
				}
			}
			if !slices.Equal(values, want) {
				t.Fatalf("values (-want +got):\n%s", cmp.Diff(want, values))
			}
			left := slices.DeleteFunc(w.Names(), func(n string) bool { return n == "layer.weight" || n == "layer.bias" })
			if len(left) > 0 {
				t.Errorf("got tensors %v left, want none", left)
			}
			product(t, w.Quantized("layer.weight").(*QuantLinear), got.Data().([]float32))
		})
	}
}

// product compares x W' of a packed layer with the plain product.
func product(t *testing.T, l *QuantLinear, w []float32) {
	t.Helper()
	if !l.Packed() {
		return
	}
	const rows = 3
	x := make([]float32, rows*l.In)
	for i := range x {
		x[i] = float32((i*7)%11)/11 - 0.4
	}
	want := make([]float32, rows*l.Out)
	for r := range rows {
		for n := range l.Out {
			var sum float64
			for k := range l.In {
				sum += float64(x[r*l.In+k]) * float64(w[n*l.In+k])
			}
			want[r*l.Out+n] = float32(sum)
		}
	}
	in := tensor.New(tensor.WithShape(rows, l.In), tensor.WithBacking(x))
	if l.Bnb == nil {
		b, scales, zeros := l.NBits("w")
		oracle.Close(t, "MatMulNBits", run(t, l, in, b, scales, zeros), want, 0, 1e-5)
		return
	}
	g := onnx.NewBuilder("bnb4", 21)
	g.Input("x", onnx.Float, onnx.Dims(rows, l.In))
	b, most := l.Bnb4("w")
	for _, i := range []*onnx.Tensor{b, most} {
		i.Data, i.Lazy = bytesOf(t, i), nil
	}
	y := g.Node("com.microsoft", "MatMulBnb4", 1, onnx.Attrs{"K": l.In, "N": l.Out, "block_size": l.Bnb.Block,
		"quant_type": l.Bnb.Kind, "transB": 1}, "x", g.Weight(b), g.Weight(most))[0]
	g.Output("y", y, onnx.Float, onnx.Dims(rows, l.Out))
	s, err := ort.Open(g.M, ort.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), map[string]*tensor.Dense{"x": in})
	if err != nil {
		t.Fatal(err)
	}
	oracle.Close(t, "MatMulBnb4", out["y"].Data().([]float32), want, 0, 1e-5)
}

// TestStrictConfig: unsupported settings that change the numbers are refused by name.
func TestStrictConfig(t *testing.T) {
	gptq := `"quant_method": "gptq", "bits": 4, "group_size": 128`
	for body, want := range map[string]string{
		`"quant_method": "hqq"`:                                 `"hqq" is not supported`,
		`"bits": 4`:                                             `"" is not supported`,
		`"quant_method": "gptq", "bits": 3`:                     "bits: 3 is not supported",
		gptq + `, "checkpoint_format": "marlin"`:                `"marlin" is not supported`,
		gptq + `, "secret": 1`:                                  `"secret"`,
		gptq + `, "dynamic": {"-:.*": {}}`:                      "dynamic",
		`"quant_method": "gptq", "bits": 4, "group_size": 0`:    "group_size",
		`"quant_method": "awq", "bits": 4, "version": "gemv"`:   `"gemv" is not supported`,
		`"quant_method": "awq", "bits": 4, "zero_point": false`: "zero_point",
		`"quant_method": "bitsandbytes", "load_in_8bit": true`:  "load_in_4bit",
		`"quant_method": "bitsandbytes", "load_in_4bit": true,
			"bnb_4bit_quant_storage": "bfloat16"`: "bnb_4bit_quant_storage",
		`"quant_method": "compressed-tensors"`: "config_groups",
		`"quant_method": "compressed-tensors", "format": "pack-quantized", "config_groups":
			{"g": {"weights": {"num_bits": 2}}}`: "2 bits",
		`"quant_method": "compressed-tensors", "format": "marlin-24", "config_groups":
			{"g": {"weights": {"num_bits": 4, "strategy": "channel"}}}`: "marlin-24",
		`"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
			{"g": {"weights": {"num_bits": 8, "type": "float"}, "input_activations": {"dynamic": false}}}`: "dynamic",
	} {
		t.Run(want, func(t *testing.T) {
			c, _, err := Split([]byte(`{"quantization_config": {` + body + `}}`))
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %+v, %v; want %s", body, c, err, want)
			}
		})
	}
	c, rest, err := Split([]byte(`{"a": 1, "quantization_config": {` + gptq + `, "desc_act": true, "sym": false}}`))
	if err != nil || !c.DescAct || c.Offset != 1 || c.Bits != 4 || c.Group != 128 || string(rest) != `{"a":1}` {
		t.Errorf("got %+v, rest %s, %v, want act order, offset 1, 4 bits, groups of 128, rest {\"a\":1}", c, rest, err)
	}
}

// TestDamagedLayers: missing or mismatched parts are errors that name them.
func TestDamagedLayers(t *testing.T) {
	root := packed.Unpack(t, filepath.Join("testdata", "libraries.zip"))
	for name, parts := range map[string][]string{
		"nf4_double": {"absmax", "nested_absmax", "nested_quant_map", "quant_map"},
		"int4_zeros": {"scale", "zero_point", "shape"},
		"fp8_tensor": {"scale"},
	} {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(root, name, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			c, _, err := Split(raw)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range parts {
				dir := t.TempDir()
				without(t, filepath.Join(root, name, "model.safetensors"), filepath.Join(dir, "model.safetensors"), part)
				w, err := checkpoints.OpenWeights(dir)
				if err != nil {
					t.Fatal(err)
				}
				if err = c.Find(w); err == nil || !strings.Contains(err.Error(), part) {
					t.Errorf("%s without %s: got error %v, want one with %q", name, part, err, part)
				}
				w.Close()
			}
		})
	}
}

// without copies a file, omitting the tensor whose name has the suffix.
func without(t *testing.T, from, to, part string) {
	t.Helper()
	f, err := checkpoints.OpenFile(from)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	infos := map[string]checkpoints.TensorInfo{}
	for _, name := range f.Names() {
		ends := strings.HasSuffix(name, "."+part) || strings.HasSuffix(name, "_"+part)
		if !ends || strings.HasSuffix(name, "nested_"+part) {
			infos[name], _ = f.Info(name)
		}
	}
	out, err := checkpoints.NewWriter(to, slices.Collect(maps.Values(infos)), f.Metadata())
	if err != nil {
		t.Fatal(err)
	}
	for name := range infos {
		raw, err := f.Bytes(name)
		if err == nil {
			err = out.Write(name, raw)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
}
