// Package checkpoints reads and writes tensors on disk: safetensors files, Hugging Face checkpoint directories, and the
// state of a training run.
//
// Files are mapped into memory, never read in full: opening an 8B checkpoint only reads its headers. Written files
// appear under their final name only when they are complete and on disk. PyTorch pickles are read without running
// them (OpenPickle).
package checkpoints

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/onnx"
)

// TensorInfo describes one tensor of a safetensors file.
type TensorInfo struct {
	Name   string
	Type   onnx.DType
	Shape  []int64
	Offset int64 // bytes from the start of the file
	Length int64 // bytes
}

// maxHeader is the safetensors library's limit on the length of a header.
const maxHeader = 100_000_000

// format lists the element types in the order in which the safetensors library lays tensors out (8 bytes first, so that
// every tensor is aligned), with their names there.
var format = []struct {
	name  string
	dtype onnx.DType
}{
	{"U64", onnx.Uint64}, {"I64", onnx.Int64}, {"F64", onnx.Double}, {"F32", onnx.Float}, {"U32", onnx.Uint32},
	{"I32", onnx.Int32}, {"BF16", onnx.BFloat16}, {"F16", onnx.Float16}, {"U16", onnx.Uint16}, {"I16", onnx.Int16},
	{"F8_E4M3", onnx.Float8E4M3}, {"I8", onnx.Int8}, {"U8", onnx.Uint8}, {"BOOL", onnx.Bool},
}

func rankOf(t onnx.DType) int {
	for i, f := range format {
		if f.dtype == t {
			return i
		}
	}
	return -1
}

func dtypeOf(name string) (onnx.DType, error) {
	known := make([]string, len(format))
	for i, f := range format {
		if f.name == name {
			return f.dtype, nil
		}
		known[i] = f.name
	}
	return 0, fmt.Errorf("element type %q is not supported (known: %s)", name, strings.Join(known, ", "))
}

// byteLength returns the size in bytes of a tensor of this type and shape.
func byteLength(t onnx.DType, shape []int64) (int64, error) {
	n := uint64(t.Size())
	if n == 0 {
		return 0, fmt.Errorf("elements of type %v have no size", t)
	}
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		hi, lo := bits.Mul64(n, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("shape %v is larger than any file", shape)
		}
		n = lo
	}
	return int64(n), nil
}

// header is the parsed front of a safetensors file: tensors in the order of their bytes.
type header struct {
	tensors  []TensorInfo
	metadata map[string]string
}

// readHeader parses and checks the front of a file of the given size. The tensors must fill the rest of the file
// without gaps or overlaps, as the safetensors library requires.
func readHeader(r io.ReaderAt, size int64) (*header, error) {
	if size < 8 {
		return nil, fmt.Errorf("not a safetensors file: it has %d bytes, but the header length alone takes 8", size)
	}
	var front [8]byte
	if _, err := r.ReadAt(front[:], 0); err != nil {
		return nil, err
	}
	n := binary.LittleEndian.Uint64(front[:])
	switch {
	case n > maxHeader:
		return nil, fmt.Errorf("not a safetensors file: it announces a header of %d bytes, at most %d are allowed", n,
			maxHeader)
	case int64(n) > size-8:
		return nil, fmt.Errorf("cut short: the header takes %d bytes, the file has %d after its length", n, size-8)
	}
	text := make([]byte, n)
	if _, err := r.ReadAt(text, 8); err != nil {
		return nil, err
	}
	h, err := parseHeader(text)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(h.tensors, func(a, b TensorInfo) int {
		// empty tensors come before the one that starts at the same place
		return cmp.Or(cmp.Compare(a.Offset, b.Offset), cmp.Compare(a.Length, b.Length))
	})
	start, body := int64(8+n), size-8-int64(n)
	end, before := int64(0), ""
	for i := range h.tensors {
		t := &h.tensors[i]
		if t.Length > body-t.Offset {
			return nil, fmt.Errorf("tensor %q ends %d bytes after the header, but only %d bytes follow it: the file is cut "+
				"short or damaged",
				t.Name, t.Offset+t.Length, body)
		}
		if t.Offset < end {
			return nil, fmt.Errorf("tensor %q begins at byte %d of the data, inside tensor %q, which ends at %d", t.Name,
				t.Offset, before, end)
		}
		if t.Offset > end {
			return nil, fmt.Errorf("tensor %q begins at byte %d of the data, but the tensor before it ends at %d: bytes %d to "+
				"%d belong to no tensor",
				t.Name, t.Offset, end, end, t.Offset)
		}
		end, before = t.Offset+t.Length, t.Name
		t.Offset += start
	}
	if end != body {
		return nil, fmt.Errorf("the tensors take %d bytes after the header, the file has %d", end, body)
	}
	return h, nil
}

// parseHeader reads the JSON of a header; offsets are still relative to the data.
func parseHeader(text []byte) (*header, error) {
	if !utf8.Valid(text) {
		return nil, errors.New("the header is not UTF-8")
	}
	if len(text) == 0 || text[0] != '{' {
		return nil, errors.New("the header is not a JSON object: it must begin with {")
	}
	h := &header{}
	d := json.NewDecoder(bytes.NewReader(text))
	seen := map[string]bool{}
	err := eachMember(d, func(name string) error {
		if seen[name] {
			return fmt.Errorf("tensor %q occurs twice", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			if err := d.Decode(&h.metadata); err != nil {
				return fmt.Errorf("__metadata__: %w", err)
			}
			return nil
		}
		t, err := parseInfo(d, name)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", name, err)
		}
		h.tensors = append(h.tensors, t)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("header: %w", err)
	}
	if rest := bytes.TrimRight(text[d.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return nil, fmt.Errorf("header: %d bytes follow the JSON object", len(rest))
	}
	return h, nil
}

// eachMember walks a JSON object; body must consume the member's value.
func eachMember(d *json.Decoder, body func(name string) error) error {
	if t, err := d.Token(); err != nil {
		return err
	} else if t != json.Delim('{') {
		return fmt.Errorf("%v is not an object", t)
	}
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return err
		}
		name, ok := t.(string)
		if !ok {
			return fmt.Errorf("%v is not a name", t)
		}
		if err := body(name); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func parseInfo(d *json.Decoder, name string) (TensorInfo, error) {
	t := TensorInfo{Name: name}
	var dtype *string
	var offsets []int64
	seen := map[string]bool{}
	err := eachMember(d, func(key string) error {
		if seen[key] {
			return fmt.Errorf("%s occurs twice", key)
		}
		seen[key] = true
		var err error
		switch key {
		case "dtype":
			err = d.Decode(&dtype)
		case "shape":
			err = d.Decode(&t.Shape)
		case "data_offsets":
			err = d.Decode(&offsets)
		default:
			return fmt.Errorf("unknown field %q", key)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		return nil
	})
	if err != nil {
		return t, err
	}
	if dtype == nil || t.Shape == nil || len(offsets) != 2 {
		return t, errors.New("it needs dtype, shape and two data_offsets")
	}
	if t.Type, err = dtypeOf(*dtype); err != nil {
		return t, err
	}
	if offsets[0] < 0 || offsets[1] < offsets[0] {
		return t, fmt.Errorf("data_offsets %v are not a range", offsets)
	}
	t.Offset, t.Length = offsets[0], offsets[1]-offsets[0]
	want, err := byteLength(t.Type, t.Shape)
	if err != nil {
		return t, err
	}
	if want != t.Length {
		return t, fmt.Errorf("shape %v of %s needs %d bytes, data_offsets %v hold %d", t.Shape, *dtype, want, offsets,
			t.Length)
	}
	return t, nil
}

// layout orders the tensors and places them as the safetensors library does, and returns the bytes before the data.
func layout(tensors []TensorInfo, metadata map[string]string) ([]TensorInfo, []byte, error) {
	out := slices.Clone(tensors)
	slices.SortFunc(out, func(a, b TensorInfo) int {
		if c := rankOf(a.Type) - rankOf(b.Type); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name)
	})
	if err := place(out); err != nil {
		return nil, nil, err
	}
	text := headerText(out, metadata)
	if len(text) > maxHeader {
		return nil, nil, fmt.Errorf("a header of %d bytes for %d tensors: at most %d bytes are allowed",
			len(text), len(out), maxHeader)
	}
	for i := range out {
		out[i].Offset += int64(8 + len(text))
	}
	front := binary.LittleEndian.AppendUint64(nil, uint64(len(text)))
	return out, append(front, text...), nil
}

// place sets the tensors' lengths and their consecutive offsets from the start of the data.
func place(tensors []TensorInfo) error {
	seen := make(map[string]bool, len(tensors))
	end := int64(0)
	for i := range tensors {
		t := &tensors[i]
		if rankOf(t.Type) < 0 {
			return fmt.Errorf("tensor %q: safetensors has no element type %v", t.Name, t.Type)
		}
		if seen[t.Name] || t.Name == "__metadata__" || !utf8.ValidString(t.Name) {
			return fmt.Errorf("tensor %q: the name is taken or not allowed", t.Name)
		}
		seen[t.Name] = true
		n, err := byteLength(t.Type, t.Shape)
		if err != nil {
			return fmt.Errorf("tensor %q: %w", t.Name, err)
		}
		if n > math.MaxInt64-maxHeader-8-end {
			return fmt.Errorf("tensor %q: the tensors together are larger than any file", t.Name)
		}
		t.Offset, t.Length = end, n
		end += n
	}
	return nil
}

// headerText returns the JSON of a header, byte for byte as the safetensors library writes it, padded so that the
// data begins at a multiple of 8. Offsets are from the start of the data.
func headerText(tensors []TensorInfo, metadata map[string]string) []byte {
	var text bytes.Buffer
	text.WriteByte('{')
	if metadata != nil {
		text.WriteString(`"__metadata__":{`)
		for i, k := range slices.Sorted(maps.Keys(metadata)) {
			if i > 0 {
				text.WriteByte(',')
			}
			quote(&text, k)
			text.WriteByte(':')
			quote(&text, metadata[k])
		}
		text.WriteByte('}')
	}
	for _, t := range tensors {
		if text.Len() > 1 {
			text.WriteByte(',')
		}
		quote(&text, t.Name)
		text.WriteString(`:{"dtype":"` + format[rankOf(t.Type)].name + `","shape":[`)
		for k, d := range t.Shape {
			if k > 0 {
				text.WriteByte(',')
			}
			text.WriteString(strconv.FormatInt(d, 10))
		}
		fmt.Fprintf(&text, `],"data_offsets":[%d,%d]}`, t.Offset, t.Offset+t.Length)
	}
	text.WriteByte('}')
	for text.Len()%8 != 0 {
		text.WriteByte(' ')
	}
	return text.Bytes()
}

// quote writes a JSON string with the escapes of Rust's serde_json: the fewest that JSON allows.
func quote(w *bytes.Buffer, s string) {
	w.WriteByte('"')
	for _, r := range s {
		switch r {
		case '"', '\\':
			w.WriteByte('\\')
			w.WriteRune(r)
		case '\n':
			w.WriteString(`\n`)
		case '\r':
			w.WriteString(`\r`)
		case '\t':
			w.WriteString(`\t`)
		case '\b':
			w.WriteString(`\b`)
		case '\f':
			w.WriteString(`\f`)
		default:
			if r < 0x20 {
				fmt.Fprintf(w, `\u%04x`, r)
			} else {
				w.WriteRune(r)
			}
		}
	}
	w.WriteByte('"')
}
