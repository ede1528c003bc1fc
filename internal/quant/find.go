package quant

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/checkpoints"
	"assay/onnx"
)

// Find finds the packed layers of a checkpoint and derives NAME.weight for each, a *[QuantLinear]. The stored tensors
// are checked against each other and the configuration; their values are read on demand. Absent weights have none:
// see [Config.Declare].
func (c *Config) Find(w *checkpoints.Weights) error {
	if w.Absent() {
		return nil
	}
	f := &finder{config: c, weights: w}
	var problems []error
	found := 0
	for _, name := range w.Names() {
		base, read := f.kind(name)
		if read == nil {
			continue
		}
		l, parts, err := read(base)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		found++
		if plain := base + ".weight"; !slices.Contains(parts, plain) {
			if _, stored := f.info(plain); stored {
				problems = append(problems, fmt.Errorf("both %s and %s are stored: remove one",
					plain, name))
				continue
			}
		}
		f.finish(l, parts)
		w.AddQuantized(base+".weight", l, parts...)
	}
	if found == 0 && len(problems) == 0 {
		return fmt.Errorf("config.json has %s %s, but no layer is stored that way", key, c.Method)
	}
	if n := len(problems); n > 20 {
		problems = append(problems[:20], fmt.Errorf("and %d more", n-20))
	}
	return errors.Join(problems...)
}

// Declare derives a packed layer of absent weights, for planning with a checkpoint that is not there.
func (c *Config) Declare(w *checkpoints.Weights, name string, out, in int64) {
	l := &QuantLinear{Out: int(out), In: int(in), Bits: c.Bits}
	switch {
	case c.Float:
		l.stored = out * in
	case c.Method == bitsandbytes && out*in%64 == 0:
		l.Bnb = &Bnb{Block: 64}
		l.stored = l.Memory()
	default:
		size := c.Group
		size = cmp.Or(size, int(in))
		l.setBlock(size)
		if !c.Symmetric {
			l.zeros = func() ([]byte, error) { return nil, nil }
		}
		if l.stored = l.Memory(); c.DescAct {
			l.Order = make([]int64, in)
		}
	}
	w.AddQuantized(name, l)
}

// finder reads the parts of packed layers.
type finder struct {
	config  *Config
	weights *checkpoints.Weights
}

type readFunc = func(base string) (l *QuantLinear, parts []string, err error)

// kind decides by a tensor's name and type whether it is the main tensor of a packed layer; nil if not.
func (f *finder) kind(name string) (base string, read readFunc) {
	cut := func(end string, read readFunc) (string, readFunc) {
		if base, ok := strings.CutSuffix(name, end); ok {
			return base, read
		}
		return "", nil
	}
	switch {
	case f.config.Method == gptq:
		return cut(".qweight", f.gptqLayer)
	case f.config.Method == awq:
		return cut(".qweight", f.awqLayer)
	case f.config.Method == bitsandbytes:
		return cut(".weight.quant_state.bitsandbytes__"+f.config.Kind, f.bnbLayer)
	case f.config.Float:
		if info, _ := f.info(name); info.Type != onnx.Float8E4M3 {
			return "", nil
		}
		return cut(".weight", f.float8Layer)
	}
	return cut(".weight_packed", f.compressedLayer)
}

// finish records a layer's stored size, and a key of all that its values depend on: a file may belong to checkpoints
// with different configurations.
func (f *finder) finish(l *QuantLinear, parts []string) {
	c := *f.config
	c.skipped, c.ignored = nil, nil
	l.key = fmt.Sprintf("%+v", c)
	l.location = f.weights.AnyLocation()
	for _, p := range parts {
		info, _ := f.info(p)
		l.key += fmt.Sprint(" ", p, f.weights.ShardOf(p).ID(), " ", info.Offset)
		l.stored += info.Length
	}
}

// info describes a stored tensor.
func (f *finder) info(name string) (checkpoints.TensorInfo, bool) {
	info, _, err := f.weights.Part(name)
	return info, err == nil
}

// shape returns an error unless a stored tensor has the given type and shape.
func (f *finder) shape(name string, t onnx.DType, shape ...int64) error {
	info, ok := f.info(name)
	if !ok {
		return fmt.Errorf("%s is missing", name)
	}
	if info.Type != t || !slices.Equal(info.Shape, shape) {
		return fmt.Errorf("%s is %v%v, want %v%v", name, info.Type, info.Shape, t, shape)
	}
	return nil
}

// raw returns the bytes of a stored tensor, which must have the given type.
func (f *finder) raw(name string, t onnx.DType) ([]byte, error) {
	info, ok := f.info(name)
	if !ok {
		return nil, fmt.Errorf("%s is missing", name)
	}
	if info.Type != t {
		return nil, fmt.Errorf("%s is %v, want %v", name, info.Type, t)
	}
	_, raw, err := f.weights.Part(name)
	return raw, err
}

// floats returns a floating-point tensor, which must have the given shape, as float32.
func (f *finder) floats(name string, shape ...int64) ([]float32, error) {
	info, ok := f.info(name)
	if !ok {
		return nil, fmt.Errorf("%s is missing", name)
	}
	if !info.Type.IsFloat() || !slices.Equal(info.Shape, shape) {
		return nil, fmt.Errorf("%s is %v%v, want a floating-point tensor %v", name, info.Type, info.Shape, shape)
	}
	_, raw, err := f.weights.Part(name)
	if err != nil {
		return nil, err
	}
	return checkpoints.Float32s(info.Type, raw)
}

// matrix describes a stored matrix of int32.
func (f *finder) matrix(name string) (rows, columns int, err error) {
	info, ok := f.info(name)
	if !ok || info.Type != onnx.Int32 || len(info.Shape) != 2 || info.Shape[0] < 1 || info.Shape[1] < 1 {
		return 0, 0, fmt.Errorf("%s is %v%v, want a matrix of int32", name, info.Type, info.Shape)
	}
	return int(info.Shape[0]), int(info.Shape[1]), nil
}

// gptqLayer reads NAME.qweight [in bits/32, out], .qzeros [groups, out bits/32], .scales [groups, out] and .g_idx [in].
func (f *finder) gptqLayer(base string) (*QuantLinear, []string, error) {
	c, each := f.config, 32/f.config.Bits
	words, out, err := f.matrix(base + ".qweight")
	if err != nil {
		return nil, nil, err
	}
	l := &QuantLinear{Out: out, In: words * each, Bits: c.Bits}
	l.setBlock(f.groupSize(l))
	groups := l.groups
	parts := []string{base + ".qweight", base + ".qzeros", base + ".scales"}
	err = f.shape(parts[1], onnx.Int32, int64(groups), int64(out/each))
	if out%each != 0 {
		err = fmt.Errorf("%s: %d rows do not fill whole words", base, out)
	}
	if _, wrong := f.floats(parts[2], int64(groups), int64(out)); wrong != nil || err != nil {
		return nil, nil, errors.Join(err, wrong)
	}
	if of, err := f.groupIndex(base+".g_idx", l.In); err != nil {
		return nil, nil, err
	} else if of != nil {
		parts = append(parts, base+".g_idx")
		if err := l.sortColumns(of); err != nil {
			return nil, nil, fmt.Errorf("%s.g_idx: %w", base, err)
		}
	} else if c.DescAct {
		return nil, nil, fmt.Errorf("%s.g_idx is missing: desc_act requires it", base)
	}
	l.codes = func() ([]byte, error) {
		raw, err := f.raw(parts[0], onnx.Int32)
		if err != nil {
			return nil, err
		}
		return alongIn(raw, out, l.In, c.Bits), nil
	}
	l.scales = f.transposed(parts[2], groups, out)
	l.zeros = func() ([]byte, error) {
		raw, err := f.raw(parts[1], onnx.Int32)
		if err != nil {
			return nil, err
		}
		z := alongRow(raw, groups, out, c.Bits)
		for i := range z {
			if z[i] += byte(c.Offset); int(z[i]) >= 1<<c.Bits || c.Offset > 0 && z[i] == 0 {
				return nil, fmt.Errorf("%s stores a zero of %d, one more than %d bits hold: readers of version 1 disagree on "+
					"its value", parts[1], 1<<c.Bits-1, c.Bits)
			}
		}
		return transpose(z, out, groups), nil
	}
	return l, parts, nil
}

// groupSize is the number of columns that share a scale.
func (f *finder) groupSize(l *QuantLinear) int {
	return cmp.Or(f.config.Group, l.In)
}

// groupIndex reads the group of each column; nil if it is not stored.
func (f *finder) groupIndex(name string, in int) ([]int32, error) {
	if _, ok := f.info(name); !ok {
		return nil, nil
	}
	if err := f.shape(name, onnx.Int32, int64(in)); err != nil {
		return nil, err
	}
	raw, err := f.raw(name, onnx.Int32)
	if err != nil {
		return nil, err
	}
	of := make([]int32, in)
	for k := range of {
		of[k] = int32(binary.LittleEndian.Uint32(raw[4*k:]))
	}
	return of, nil
}

// transposed reads scales [groups, out] as [out, groups].
func (f *finder) transposed(name string, groups, out int) func() ([]float32, error) {
	return func() ([]float32, error) {
		s, err := f.floats(name, int64(groups), int64(out))
		if err != nil {
			return nil, err
		}
		return transpose(s, out, groups), nil
	}
}

// awqLayer reads NAME.qweight [in, out/8], .qzeros [groups, out/8] and .scales [groups, out].
func (f *finder) awqLayer(base string) (*QuantLinear, []string, error) {
	in, words, err := f.matrix(base + ".qweight")
	if err != nil {
		return nil, nil, err
	}
	l := &QuantLinear{Out: 8 * words, In: in, Bits: 4}
	l.setBlock(f.groupSize(l))
	groups := l.groups
	parts := []string{base + ".qweight", base + ".qzeros", base + ".scales"}
	err = f.shape(parts[1], onnx.Int32, int64(groups), int64(words))
	if _, wrong := f.floats(parts[2], int64(groups), int64(l.Out)); wrong != nil || err != nil {
		return nil, nil, errors.Join(err, wrong)
	}
	unpack := func(name string, rows int) ([]byte, error) {
		raw, err := f.raw(name, onnx.Int32)
		if err != nil {
			return nil, err
		}
		return transpose(awqRows(raw, rows, l.Out), l.Out, rows), nil
	}
	l.codes = func() ([]byte, error) { return unpack(parts[0], in) }
	l.scales = f.transposed(parts[2], groups, l.Out)
	l.zeros = func() ([]byte, error) { return unpack(parts[1], groups) }
	return l, parts, nil
}

// compressedLayer reads compressed-tensors' pack-quantized layers: NAME.weight_packed [out, in bits/32],
// .weight_scale [out, groups], .weight_shape [2], and optionally .weight_zero_point [out bits/32, groups] and
// .weight_g_idx [in]. Stored values and zeros have an offset of 2^(bits-1).
func (f *finder) compressedLayer(base string) (*QuantLinear, []string, error) {
	c, each := f.config, 32/f.config.Bits
	names := func(part string) string { return base + ".weight_" + part }
	parts := []string{names("packed"), names("scale"), names("shape")}
	out, words, err := f.matrix(parts[0])
	if err != nil {
		return nil, nil, err
	}
	if err := f.shape(parts[2], onnx.Int64, 2); err != nil {
		return nil, nil, err
	}
	raw, err := f.raw(parts[2], onnx.Int64)
	if err != nil {
		return nil, nil, err
	}
	in := int(binary.LittleEndian.Uint64(raw[8:]))
	if rows := int(binary.LittleEndian.Uint64(raw)); rows != out || in < 1 || (in+each-1)/each != words {
		return nil, nil, fmt.Errorf("%s is [%d, %d], %s has [%d, %d words]", parts[2], rows, in, parts[0], out,
			words)
	}
	l := &QuantLinear{Out: out, In: in, Bits: c.Bits}
	l.setBlock(f.groupSize(l))
	groups := l.groups
	if _, err := f.floats(parts[1], int64(out), int64(groups)); err != nil {
		return nil, nil, err
	}
	if !c.Symmetric {
		parts = append(parts, names("zero_point"))
		if err := f.shape(names("zero_point"), onnx.Int32, int64((out+each-1)/each), int64(groups)); err != nil {
			return nil, nil, err
		}
		l.zeros = f.compressedZeros(names("zero_point"), l, each)
	}
	if of, err := f.groupIndex(names("g_idx"), in); err != nil {
		return nil, nil, err
	} else if of != nil {
		parts = append(parts, names("g_idx"))
		if err := l.sortColumns(of); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", names("g_idx"), err)
		}
	}
	l.codes = func() ([]byte, error) {
		raw, err := f.raw(parts[0], onnx.Int32)
		if err != nil {
			return nil, err
		}
		return alongRow(raw, out, in, c.Bits), nil
	}
	l.scales = func() ([]float32, error) { return f.floats(parts[1], int64(out), int64(groups)) }
	return l, parts, nil
}

// compressedZeros unpacks zeros that are packed along the rows: word (j, g) holds the zeros of each rows starting at
// row j each.
func (f *finder) compressedZeros(name string, l *QuantLinear, each int) func() ([]byte, error) {
	return func() ([]byte, error) {
		raw, err := f.raw(name, onnx.Int32)
		if err != nil {
			return nil, err
		}
		z := make([]byte, l.Out*l.groups)
		for n := range l.Out {
			for g := range l.groups {
				w := binary.LittleEndian.Uint32(raw[4*(n/each*l.groups+g):])
				z[n*l.groups+g] = byte(w >> (n % each * l.Bits) & (1<<l.Bits - 1))
			}
		}
		return z, nil
	}
}
