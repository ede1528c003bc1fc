package quant

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/onnx"

	"github.com/google/go-cmp/cmp"
)

// stored is a tensor of a checkpoint written by these tests.
type stored struct {
	t     onnx.DType
	shape []int64
	raw   []byte
}

func ints(shape []int64, v ...uint32) stored {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, x)
	}
	return stored{onnx.Int32, shape, raw}
}

func floats(shape []int64, v ...float32) stored {
	var raw []byte
	for _, x := range v {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(x))
	}
	return stored{onnx.Float, shape, raw}
}

// find writes a checkpoint and finds its packed layers.
func find(t *testing.T, config string, tensors map[string]stored) (*checkpoints.Weights, error) {
	t.Helper()
	c, err := parse(json.RawMessage(config))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var infos []checkpoints.TensorInfo
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		infos = append(infos, checkpoints.TensorInfo{Name: name, Type: tensors[name].t, Shape: tensors[name].shape})
	}
	out, err := checkpoints.NewWriter(filepath.Join(dir, checkpoints.SingleFile), infos, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, x := range tensors {
		if err := out.Write(name, x.raw); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	w, err := checkpoints.OpenWeights(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w, c.Find(w)
}

const tiny = `{"quant_method": "gptq", "bits": 8, "group_size": 4}`

// tinyGPTQ is a layer of 4 rows and 8 columns in two groups: row n has 10 n + k in column k, the zeros are 1 and 2, and
// so are the scales.
func tinyGPTQ() map[string]stored {
	word := func(n, k int) uint32 { // columns k to k + 3
		at := uint32(10*n + k)
		return at | (at+1)<<8 | (at+2)<<16 | (at+3)<<24
	}
	var q []uint32
	for k := 0; k < 8; k += 4 {
		for n := range 4 {
			q = append(q, word(n, k))
		}
	}
	return map[string]stored{
		"a.qweight": ints([]int64{2, 4}, q...),
		"a.qzeros":  ints([]int64{2, 1}, 0x00000000, 0x01010101), // the zeros minus one
		"a.scales":  floats([]int64{2, 4}, 1, 1, 1, 1, 2, 2, 2, 2),
		"b.weight":  floats([]int64{1}, 5),
	}
}

// TestValuesByHand: scale (q - zero), with columns in original order and in group order.
func TestValuesByHand(t *testing.T) {
	mixed := tinyGPTQ()
	mixed["a.g_idx"] = ints([]int64{8}, 0, 1, 0, 1, 0, 1, 0, 1)
	for name, c := range map[string]struct {
		tensors map[string]stored
		group   func(k int) int
	}{"in order": {tinyGPTQ(), func(k int) int { return k / 4 }}, "mixed": {mixed, func(k int) int { return k % 2 }}} {
		t.Run(name, func(t *testing.T) {
			w, err := find(t, tiny, c.tensors)
			if err != nil {
				t.Fatal(err)
			}
			var want []float32
			for n := range 4 {
				for k := range 8 {
					g := c.group(k)
					want = append(want, []float32{1, 2}[g]*float32(10*n+k-[]int{1, 2}[g]))
				}
			}
			got, err := w.Dense("a.weight")
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(any(want), got.Data()); d != "" {
				t.Errorf("values (-want +got):\n%s", d)
			}
			l := w.Quantized("a.weight").(*QuantLinear)
			size := int64(2*4*4 + 2*4 + 2*4*4)
			if name == "mixed" {
				size += 8 * 4
			}
			if l.Stored() != size || l.Packed() || l.Key() == "" {
				t.Errorf("got %d bytes stored, packed %t, key %q, want %d bytes, too narrow for MatMulNBits", l.Stored(),
					l.Packed(),
					l.Key(), size)
			}
		})
	}
}

// TestKeys: a file that two checkpoints share (linked, as in the Hub's cache) has other values with another
// configuration, and sessions must not share them.
func TestKeys(t *testing.T) {
	first, err := find(t, tiny, tinyGPTQ())
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]string{first.Quantized("a.weight").(*QuantLinear).Key(): tiny}
	for _, config := range []string{
		`{"quant_method": "gptq", "bits": 8, "group_size": 4, "checkpoint_format": "gptq_v2"}`, tiny,
	} {
		w, err := checkpoints.OpenWeights(first.Folder())
		if err != nil {
			t.Fatal(err)
		}
		defer w.Close()
		c, err := parse(json.RawMessage(config))
		if err == nil {
			err = c.Find(w)
		}
		if err != nil {
			t.Fatal(err)
		}
		key := w.Quantized("a.weight").(*QuantLinear).Key()
		if as, ok := keys[key]; ok != (config == tiny) {
			t.Errorf("%s: got key %s, which is new: %t, want %t; %s has it", config, key, !ok, config != tiny, as)
		}
		keys[key] = config
	}
}

// TestWrongParts: parts that do not match each other or the configuration are refused by name.
func TestWrongParts(t *testing.T) {
	for _, c := range []struct {
		name   string
		config string
		change func(x map[string]stored)
		want   string
	}{
		{"words of another type", tiny, func(x map[string]stored) {
			x["a.qweight"] = floats([]int64{2, 4}, make([]float32,
				8)...)
		},
			"a.qweight is float[2 4], want a matrix of int32"},
		{"a vector of words", tiny, func(x map[string]stored) { x["a.qweight"] = ints([]int64{8}, make([]uint32, 8)...) },
			"want a matrix of int32"},
		{"no rows", tiny, func(x map[string]stored) { x["a.qweight"] = ints([]int64{2, 0}) }, "want a matrix of int32"},
		{"no columns", tiny, func(x map[string]stored) { x["a.qweight"] = ints([]int64{0, 4}) }, "want a matrix of int32"},
		{"zeros missing", tiny, func(x map[string]stored) { delete(x, "a.qzeros") }, "a.qzeros is missing"},
		{"zeros of one group", tiny, func(x map[string]stored) { x["a.qzeros"] = ints([]int64{1, 1}, 0) },
			"a.qzeros is int32[1 1], want int32[2 1]"},
		{"rows that fill no word", tiny, func(x map[string]stored) {
			x["a.qweight"], x["a.qzeros"] = ints([]int64{2, 3}, make([]uint32, 6)...), ints([]int64{2, 0})
			x["a.scales"] = floats([]int64{2, 3}, make([]float32, 6)...)
		}, "3 rows do not fill whole words"},
		{"scales missing", tiny, func(x map[string]stored) { delete(x, "a.scales") }, "a.scales is missing"},
		{"scales of another shape", tiny, func(x map[string]stored) {
			x["a.scales"] = floats([]int64{4, 2}, make([]float32,
				8)...)
		},
			"a.scales is float[4 2], want a floating-point tensor [2 4]"},
		{"scales that are integers", tiny, func(x map[string]stored) {
			x["a.scales"] = ints([]int64{2, 4}, make([]uint32,
				8)...)
		},
			"want a floating-point tensor"},
		{"groups of other columns", tiny, func(x map[string]stored) { x["a.g_idx"] = ints([]int64{7}, make([]uint32, 7)...) },
			"a.g_idx is int32[7], want int32[8]"},
		{"a group that is not there", tiny, func(x map[string]stored) {
			x["a.g_idx"] = ints([]int64{8}, 0, 0, 0, 0, 1, 1, 1,
				2)
		},
			"a.g_idx: column 7 is in group 2; there are 2"},
		{"no groups with desc_act", strings.Replace(tiny, "}", `, "desc_act": true}`, 1), func(map[string]stored) {},
			"a.g_idx is missing: desc_act"},
		{"a plain weight beside it", tiny, func(x map[string]stored) { x["a.weight"] = floats([]int64{1}, 0) },
			"both a.weight and a.qweight are stored"},
		{"no such layer", tiny, func(x map[string]stored) {
			maps.DeleteFunc(x, func(name string, _ stored) bool { return name[0] == 'a' })
		}, "has quantization_config gptq, but no layer is stored that way"},
		{"many", tiny, func(x map[string]stored) {
			for i := range 23 {
				x[fmt.Sprintf("l%d.qweight", i)] = ints([]int64{1}, 0)
			}
		}, "and 3 more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tensors := tinyGPTQ()
			c.change(tensors)
			if _, err := find(t, c.config, tensors); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Find: got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestZerosThatOverflow: version 1 stores zeros minus one, so the highest cannot be stored, and readers disagree
// about it.
func TestZerosThatOverflow(t *testing.T) {
	x := tinyGPTQ()
	x["a.qzeros"] = ints([]int64{2, 1}, 0, 0x00FF0000)
	w, err := find(t, tiny, x)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Dense("a.weight"); err == nil || !strings.Contains(err.Error(), "a.qzeros stores a zero of 255") {
		t.Errorf("version 1: got error %v, want one", err)
	}
	w, err = find(t, strings.Replace(tiny, "}", `, "format": "gptq_v2"}`, 1), x)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := w.Dense("a.weight"); err != nil || got.Data().([]float32)[2*8+4] != 2*(24-255) {
		t.Errorf("version 2: got %v, %v, want the zero 255 of row 2", got, err)
	}
}

// TestDeclare: a planned layer takes as much memory as one that is read.
func TestDeclare(t *testing.T) {
	for _, c := range []struct {
		config  Config
		out, in int64
		want    int64
	}{
		{Config{Method: compressed, Float: true, Bits: 8}, 10, 64, 640},
		{Config{Method: bitsandbytes, Kind: "nf4"}, 4, 32, 64 + 4*2},
		{Config{Method: gptq, Bits: 4, Group: 32}, 4, 64, 4*32 + 4*4*2 + 4*1},
		{Config{Method: compressed, Bits: 4, Symmetric: true}, 4, 64, 4*32 + 4*4},
	} {
		t.Run(fmt.Sprintf("%+v", c.config), func(t *testing.T) {
			w, err := checkpoints.OpenOrAbsent(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			defer w.Close()
			if err := c.config.Find(w); err != nil {
				t.Errorf("Find in absent weights: got error %v, want none", err)
			}
			c.config.Declare(w, "a.weight", c.out, c.in)
			if l := w.Quantized("a.weight").(*QuantLinear); l.Stored() != c.want || l.Out != int(c.out) || l.In != int(c.in) {
				t.Errorf("Declare: got %d x %d in %d bytes, want %d x %d in %d", l.Out, l.In, l.Stored(), c.out, c.in, c.want)
			}
		})
	}
}

// TestBnbStates: only supported quant_states of bitsandbytes are accepted.
func TestBnbStates(t *testing.T) {
	const config = `{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4"}`
	const state = "a.weight.quant_state.bitsandbytes__nf4"
	bytesOf := func(raw []byte, shape ...int64) stored { return stored{onnx.Uint8, shape, raw} }
	for _, c := range []struct{ text, want string }{
		{`{"quant_type": "nf4", "blocksize": 4, "shape": [2, 4]}`, ""},
		{`{"quant_type": "nf4", "blocksize": 2, "shape": [2, 4]}`,
			"a.weight.absmax is float[2], want a floating-point tensor [4]"},
		{`{"quant_type": "nf4", "blocksize": 3, "shape": [3, 4]}`, "blocksize 3 and shape [3 4] do not describe a matrix"},
		{`{"quant_type": "nf4", "blocksize": 0, "shape": [2, 4]}`, "blocksize 0"},
		{`{"quant_type": "nf4", "blocksize": 1, "shape": [2, 4]}`, "blocksize 1"},
		{`{"quant_type": "fp4", "blocksize": 4, "shape": [2, 4]}`, `quant_type "fp4"`},
		{`{"quant_type": "nf4", "blocksize": 4, "shape": [8]}`, "shape [8]"},
		{`{"quant_type": "nf4", "blocksize": 6, "shape": [2, 4]}`, "is not a whole number of blocks of 6"},
		{`{"quant_type": "nf4", "blocksize": 4, "shape": [2, 6]}`, "a.weight is uint8[4 1], want uint8[6 1]"},
		{`{`, state},
	} {
		t.Run(c.text, func(t *testing.T) {
			w, err := find(t, config, map[string]stored{
				"a.weight":           bytesOf([]byte{0x01, 0x23, 0x45, 0xF7}, 4, 1),
				"a.weight.absmax":    floats([]int64{2}, 2, 3),
				"a.weight.quant_map": floats([]int64{16}, onnx.Bnb4Values[1][:]...),
				state:                bytesOf([]byte(c.text), int64(len(c.text))),
			})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Fatalf("Find: got error %v, want %q", err, c.want)
			}
			if err != nil {
				return
			}
			v := onnx.Bnb4Values[1]
			want := []float32{v[0] * 2, v[1] * 2, v[2] * 2, v[3] * 2, v[4] * 3, v[5] * 3, v[15] * 3, v[7] * 3}
			if got, err := w.Dense("a.weight"); err != nil || !cmp.Equal(got.Data(), any(want)) {
				t.Errorf("values: got %v, %v, want %v", got, err, want)
			}
		})
	}
}

// TestGPTQLayout: a rounded matrix in GPTQ's layout reads back as its dequantised values.
func TestGPTQLayout(t *testing.T) {
	const out, in = 16, 48
	w := make([]float32, out*in)
	for i := range w {
		w[i] = float32(i*i%37) - 11
	}
	for _, bits := range []int{4, 8} {
		t.Run(fmt.Sprint(bits), func(t *testing.T) {
			r := Quantizer{Bits: bits, Block: 16}.Round(w, out, in)
			g := r.GPTQ()
			each := int64(32 / bits)
			tensors := map[string]stored{
				"a.qweight": {onnx.Int32, []int64{in / each, out}, g.Weight},
				"a.qzeros":  {onnx.Int32, []int64{in / 16, out / each}, g.Zeros},
				"a.scales":  floats([]int64{in / 16, out}, g.Scales...),
			}
			config := fmt.Sprintf(`{"quant_method": "gptq", "bits": %d, "group_size": 16, "format": "gptq_v2"}`, bits)
			weights, err := find(t, config, tensors)
			if err != nil {
				t.Fatal(err)
			}
			got, err := weights.Dense("a.weight")
			if err != nil {
				t.Fatal(err)
			}
			var want []float32
			for n := range out {
				for k := range in {
					want = append(want, r.Value(n, k))
				}
			}
			if d := cmp.Diff(any(want), got.Data()); d != "" || g.In != in {
				t.Errorf("in %d, want %d; values (-want +got):\n%s", g.In, in, d)
			}
			values, err := r.Layer("", "", false).Values()
			if d := cmp.Diff(want, values); d != "" || err != nil {
				t.Errorf("Layer: error %v, values (-want +got):\n%s", err, d)
			}
		})
	}
}
