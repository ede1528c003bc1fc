package quant

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestConfigs: the meaning of each method's configuration, with its defaults.
func TestConfigs(t *testing.T) {
	const group = `"config_groups": {"g": {"targets": ["Linear"], "weights": {"type": "int", "num_bits": 4, `
	for _, c := range []struct {
		text string
		want Config
	}{
		{`"quant_method": "gptq", "bits": 4, "group_size": 64`, Config{Method: "gptq", Bits: 4, Group: 64, Offset: 1}},
		{`"quant_method": "gptq", "bits": 8, "group_size": -1, "desc_act": true`,
			Config{Method: "gptq", Bits: 8, Group: 0, Offset: 1, DescAct: true}},
		{`"quant_method": "gptq", "bits": 4`, Config{Method: "gptq", Bits: 4, Group: 128, Offset: 1}},
		{`"quant_method": "gptq", "bits": 4, "group_size": 1, "format": "gptq_v2"`,
			Config{Method: "gptq", Bits: 4, Group: 1}},
		{`"quant_method": "gptq", "bits": 4, "checkpoint_format": "gptq_v2"`, Config{Method: "gptq", Bits: 4, Group: 128}},
		{`"quant_method": "awq", "bits": 4, "version": "GEMM", "zero_point": true`,
			Config{Method: "awq", Bits: 4, Group: 128}},
		{`"quant_method": "bitsandbytes", "load_in_4bit": true`, Config{Method: "bitsandbytes", Kind: "fp4"}},
		{`"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4", ` +
			`"bnb_4bit_use_double_quant": true`,
			Config{Method: "bitsandbytes", Kind: "nf4", Double: true}},
		{`"quant_method": "compressed-tensors", "format": "pack-quantized", ` + group +
			`"strategy": "group", "group_size": 32}}}`,
			Config{Method: "compressed-tensors", Bits: 4, Group: 32, Symmetric: true}},
		{`"quant_method": "compressed-tensors", "format": "pack-quantized", ` + group +
			`"strategy": "channel", "group_size": -1, "symmetric": false}}}`,
			Config{Method: "compressed-tensors", Bits: 4}},
		{`"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"g": {"weights": ` +
			`{"type": "float", "num_bits": 8, "strategy": "channel"}, "input_activations": {"dynamic": true, "num_bits": 8}}}`,
			Config{Method: "compressed-tensors", Bits: 8, Float: true, Symmetric: true}},
		{`"quant_method": "compressed-tensors", "config_groups": {"g": {"format": "naive-quantized", ` +
			`"weights": {"type": "float", "num_bits": 8}}}`,
			Config{Method: "compressed-tensors", Bits: 8, Float: true, Symmetric: true}},
	} {
		t.Run(c.text, func(t *testing.T) {
			got, err := parse(json.RawMessage("{" + c.text + "}"))
			if err != nil {
				t.Fatal(err)
			}
			got.skipped, got.ignored = nil, nil
			if d := cmp.Diff(&c.want, got, cmp.AllowUnexported(Config{})); d != "" {
				t.Errorf("parse (-want +got):\n%s", d)
			}
			if everywhere := got.Method == "bitsandbytes" || got.Method == "compressed-tensors"; got.Everywhere() != everywhere {
				t.Errorf("Everywhere: got %t, want %t", got.Everywhere(), everywhere)
			}
		})
	}
}

// TestRefusedConfigs: settings that would change the results are refused with the key that sets them.
func TestRefusedConfigs(t *testing.T) {
	const gptq, awq = `"quant_method": "gptq", "bits": `, `"quant_method": "awq", "bits": `
	const bnb, tensors = `"quant_method": "bitsandbytes", "load_in_4bit": `, `"quant_method": "compressed-tensors"`
	compressed := func(format, weights, more string) string {
		return fmt.Sprintf(`%s, "format": %q, "config_groups": {"g": {"weights": {%s}}%s}`, tensors, format, weights, more)
	}
	const four = `"type": "int", "num_bits": 4, "strategy": "group", "group_size": 32`
	const floats = `"type": "float", "num_bits": 8, "strategy": `
	for _, c := range []struct{ text, want string }{
		{gptq + `3`, "bits: 3 is not supported; [4 8] are"},
		{awq + `8`, "bits: 8 is not supported; [4] are"},
		{gptq + `4, "group_size": 0`, "group_size: 0 is not a number of columns"},
		{gptq + `4, "group_size": -2`, "group_size: -2"},
		{gptq + `4, "format": "marlin"`, `checkpoint_format: "marlin" is not supported`},
		{gptq + `4, "is_marlin_format": true`, "is_marlin_format: true is not supported"},
		{awq + `4, "version": "gemv"`, `version: "gemv" is not supported`},
		{awq + `4, "zero_point": false`, "zero_point: false is not supported"},
		{`"quant_method": "bitsandbytes"`, "load_in_4bit: only 4-bit weights"},
		{bnb + `false`, "load_in_4bit: only 4-bit weights"},
		{bnb + `true, "load_in_8bit": 1`, "load_in_8bit: 1 is not supported"},
		{bnb + `true, "bnb_4bit_quant_type": "int4"`, `bnb_4bit_quant_type: "int4"`},
		{tensors, "config_groups: missing or empty"},
		{tensors + `, "config_groups": {}`, "config_groups: missing or empty"},
		{tensors + `, "config_groups": {"g": {}}`, "weights: missing or empty"},
		{tensors + `, "ignore": ["re:("], "config_groups": {"g": {}}`, "ignore: error parsing regexp"},
		{compressed("pack-quantized", four, `, "h": {"weights": {`+strings.Replace(four, "32", "64", 1)+`}}`),
			"h: layers stored in different ways"},
		{compressed("int-quantized", four, ""), `format "int-quantized" are not supported`},
		{compressed("pack-quantized", strings.Replace(four, "4", "2", 1), ""), "2 bits of type int"},
		{compressed("pack-quantized", strings.Replace(four, "32", "0", 1), ""), "strategy group"},
		{compressed("pack-quantized", strings.Replace(four, `"group",`, `"block",`, 1), ""), "strategy block"},
		{compressed("pack-quantized", floats+`"channel"`, ""), "8 bits of type float"},
		{compressed("float-quantized", floats+`"group"`, ""), "strategy group"},
		{compressed("float-quantized", floats+`"tensor", "symmetric": false`, ""), "8 bits of type float"},
		{compressed("float-quantized", floats+`"tensor", "dynamic": true`, ""), "dynamic: true is not supported"},
	} {
		t.Run(c.text, func(t *testing.T) {
			_, err := parse(json.RawMessage("{" + c.text + "}"))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("parse: got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestSplit: a configuration without the key, or with null, has no packed layers.
func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, rest string }{
		{`{"a": 1}`, `{"a": 1}`}, {`{"a": 1, "quantization_config": null}`, `{"a":1}`}, {`[]`, `[]`}, {`null`, `null`}, {`{`,
			`{`},
	} {
		t.Run(c.text, func(t *testing.T) {
			if got, rest, err := Split(json.RawMessage(c.text)); got != nil || string(rest) != c.rest || err != nil {
				t.Errorf("Split: got %v, rest %s, %v, want none, %s", got, rest, err, c.rest)
			}
		})
	}
	if _, _, err := Split(json.RawMessage(`{"quantization_config": 3}`)); err == nil {
		t.Errorf("Split of a number: got error %v, want one", err)
	}
}

// TestSkips: modules by name, part of a name and regular expression; lm_head is never converted.
func TestSkips(t *testing.T) {
	list := &Config{skipped: []string{"proj", "model.vision"}}
	inside := &Config{Method: "awq", skipped: []string{"vis"}}
	matched, err := parse(json.RawMessage(`{"quant_method": "compressed-tensors", "format": "pack-quantized",
		"ignore": ["re:.*gate$", "exact"], "config_groups": {"g": {"weights": {"num_bits": 8, "strategy": "channel"}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		config *Config
		name   string
		want   bool
	}{
		{list, "proj.weight", true}, {list, "proj", true}, {list, "proj.a.weight", true}, {list, "a.proj.weight", true},
		{list, "a.proj.b.weight", true}, {list, "project.weight", false}, {list, "a.myproj.weight", false},
		{list, "model.vision.a", true}, {list, "model.visions.a", false}, {list, "lm_head.weight", true},
		{list, "model.lm_head.weight", true}, {list, "my_lm_head.weight", false}, {list, "a.weight", false},
		{inside, "model.vision.a.weight", true}, {inside, "model.text.a.weight", false},
		{matched, "a.gate.weight", true}, {matched, "a.gated.weight", false}, {matched, "exact", true}, {matched, "inexact",
			false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.config.Skips(c.name); got != c.want {
				t.Errorf("Skips(%s): got %t, want %t", c.name, got, c.want)
			}
		})
	}
}

// TestWords: words are packed and unpacked in order, whether or not values fill the last word.
func TestWords(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	random := func(n, bits int) []byte {
		out := make([]byte, n)
		for i := range out {
			out[i] = byte(rng.IntN(1 << bits))
		}
		return out
	}
	for _, bits := range []int{4, 8} {
		for _, shape := range [][2]int{{1, 8}, {3, 24}, {tile, 16}, {tile + 1, 8}, {2*tile + 3, 32}} {
			q := random(shape[0]*shape[1], bits)
			words := packAlongIn(q, shape[0], shape[1], bits)
			if got := alongIn(words, shape[0], shape[1], bits); len(words) != len(q)*bits/8 || !slices.Equal(got, q) {
				t.Errorf("%d bits of %v along in: got %v in %d bytes, want %v", bits, shape, got, len(words), q)
			}
		}
		for _, shape := range [][2]int{{1, 1}, {3, 7}, {2, 8}, {5, 9}} {
			q := random(shape[0]*shape[1], bits)
			words := packAlongRow(q, shape[0], shape[1], bits)
			if got := alongRow(words, shape[0], shape[1], bits); !slices.Equal(got, q) {
				t.Errorf("%d bits of %v along rows: got %v, want %v", bits, shape, got, q)
			}
		}
	}
	if got := packAlongIn([]byte{1, 2, 3, 4, 5, 6, 7, 8}, 1, 8, 4); !slices.Equal(got, []byte{0x21, 0x43, 0x65, 0x87}) {
		t.Errorf("eight values of four bits: got % x, want 21 43 65 87", got)
	}
	if got := awqRows([]byte{0x21, 0x43, 0x65, 0x87}, 1, 8); !slices.Equal(got, []byte{1, 5, 2, 6, 3, 7, 4, 8}) {
		t.Errorf("a word of AWQ: got %v, want 1 5 2 6 3 7 4 8", got)
	}
	if got := transpose([]byte{1, 2, 3, 4, 5, 6}, 2, 3); !slices.Equal(got, []byte{1, 3, 5, 2, 4, 6}) {
		t.Errorf("transpose: got %v, want 1 3 5 2 4 6", got)
	}
	for _, c := range []struct {
		bits       int
		from, want []byte
	}{
		{8, []byte{1, 2, 3}, []byte{1, 2, 3}}, {4, []byte{1, 2, 3, 4}, []byte{0x21, 0x43}}, {4, []byte{1, 2, 3}, []byte{0x21,
			0x83}},
		{4, []byte{5}, []byte{0x85}},
	} {
		to := make([]byte, len(c.want))
		if packInto(to, c.from, c.bits, 8); !slices.Equal(to, c.want) {
			t.Errorf("packInto of %v in %d bits: got % x, want % x", c.from, c.bits, to, c.want)
		}
	}
}

// TestSetBlock: groups consist of one or more blocks of a power of two from 16 to 256 columns.
func TestSetBlock(t *testing.T) {
	for _, c := range []struct{ in, size, block, group, groups int }{
		{512, 128, 128, 128, 4}, {512, 64, 64, 64, 8}, {512, 16, 16, 16, 32}, {512, 8, 0, 8, 64}, {500, 128, 128, 128, 4},
		{1024, 512, 256, 512, 2}, {384, 96, 32, 96, 4}, {72, 24, 0, 24, 3}, {100, 100, 128, 128, 1}, {16, 16, 16, 16, 1},
		{17, 17, 32, 32, 1}, {1000, 1000, 256, 1024, 1}, {5, 5, 16, 16, 1},
	} {
		t.Run(fmt.Sprintf("%d by %d", c.in, c.size), func(t *testing.T) {
			l := &QuantLinear{In: c.in}
			if l.setBlock(c.size); l.Block != c.block || l.group != c.group || l.groups != c.groups {
				t.Errorf("got blocks of %d, %d groups of %d, want %d, %d, %d", l.Block, l.groups, l.group, c.block, c.groups,
					c.group)
			}
		})
	}
}

// TestSortColumns: columns of a group are adjacent, in their order; groups that are not full have no blocks.
func TestSortColumns(t *testing.T) {
	for _, c := range []struct {
		name  string
		of    []int32
		order []int64
		block int
		err   string
	}{
		{"sorted", []int32{0, 0, 1, 1, 2}, nil, 16, ""},
		{"mixed", []int32{1, 0, 2, 0, 1}, []int64{1, 3, 0, 4, 2}, 16, ""},
		{"short first group", []int32{0, 1, 1, 2, 2}, nil, 0, ""},
		{"long last group", []int32{2, 2, 2, 0, 0}, nil, 0, ""},
		{"below", []int32{0, 0, 1, 1, -1}, nil, 16, "column 4 is in group -1; there are 3"},
		{"beyond", []int32{0, 3, 1, 1, 2}, nil, 16, "column 1 is in group 3; there are 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &QuantLinear{In: 5, group: 2, groups: 3, Block: 16}
			err := l.sortColumns(c.of)
			if got := fmt.Sprint(err); (err == nil) != (c.err == "") || err != nil && got != c.err {
				t.Fatalf("got error %v, want %q", err, c.err)
			}
			if !slices.Equal(l.Order, c.order) || l.Block != c.block {
				t.Errorf("got order %v, blocks of %d, want %v, %d", l.Order, l.Block, c.order, c.block)
			}
			if sorted := c.name == "sorted" || c.err != ""; (l.of == nil) != sorted {
				t.Errorf("groups of columns: got %v, want them kept: %t", l.of, !sorted)
			}
		})
	}
}

// TestMemory: the memory of a weight is the size of the tensors that represent it.
func TestMemory(t *testing.T) {
	zeros := func() ([]byte, error) { return nil, nil }
	for _, l := range []*QuantLinear{
		{Out: 3, In: 40, Bits: 4, Block: 16, zeros: zeros}, {Out: 3, In: 40, Bits: 8, Block: 32, zeros: zeros},
		{Out: 2, In: 64, Bits: 4, Block: 64}, {Out: 2, In: 33, Bits: 4, Block: 16, zeros: zeros, Order: make([]int64, 33)},
	} {
		want := 8 * int64(len(l.Order))
		b, scales, z := l.NBits("w")
		for _, x := range []struct {
			shape []int64
			size  int64
		}{{b.Shape, 1}, {scales.Shape, 4}} {
			n := x.size
			for _, d := range x.shape {
				n *= d
			}
			want += n
		}
		if (z == nil) != (l.zeros == nil) {
			t.Errorf("%+v: got zero points %v, want them %t", l, z, l.zeros != nil)
		}
		if z != nil {
			want += z.Shape[0] * z.Shape[1]
		}
		if got := l.Memory(); got != want || !l.Packed() || !slices.Equal(l.Shape(), []int64{int64(l.Out), int64(l.In)}) {
			t.Errorf("%d x %d of %d bits: got %d bytes, packed %t, shape %v, want %d", l.Out, l.In, l.Bits, got, l.Packed(),
				l.Shape(), want)
		}
	}
	if l := (&QuantLinear{Out: 3, In: 5, Bits: 4}); l.Memory() != 60 || l.Packed() {
		t.Errorf("without blocks: got %d bytes, packed %t, want 60 as float32", l.Memory(), l.Packed())
	}
	if l := (&QuantLinear{Out: 4, In: 64, Bnb: &Bnb{Block: 64}}); l.Memory() != 128+16 || !l.Packed() {
		t.Errorf("bitsandbytes: got %d bytes, packed %t, want 144", l.Memory(), l.Packed())
	}
}
