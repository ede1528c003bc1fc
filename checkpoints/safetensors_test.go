package checkpoints

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/internal/fuzzing"
	"assay/onnx"
)

// pythonFiles were written by the safetensors library (tools/oracle/safetensors_files.py and the oracle's fixtures).
var pythonFiles = []string{
	"testdata/types.safetensors",
	"testdata/plain.safetensors",
	"testdata/half.safetensors",
	"../testdata/oracle/llavanext/scorer/adapter_model.safetensors",
	"../testdata/oracle/llavanext/scorer/head.safetensors",
	"../testdata/oracle/llavanext/backbone/model.safetensors",
}

func open(t *testing.T, path string) *SafetensorsFile {
	t.Helper()
	f, err := OpenFile(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

func TestValuesOfPythonFile(t *testing.T) {
	f := open(t, "testdata/types.safetensors")
	want := map[string]any{
		"t.u64": []uint64{0, 1, 2, 3, 4, 5}, "t.i64": []int64{0, 1, 2, 3, 4, 5}, "t.u32": []uint32{0, 1, 2, 3, 4, 5},
		"t.i32": []int32{0, 1, 2, 3, 4, 5}, "t.u16": []uint16{0, 1, 2, 3, 4, 5}, "t.i16": []int16{0, 1, 2, 3, 4, 5},
		"t.u8": []uint8{0, 1, 2, 3, 4, 5}, "t.i8": []int8{0, 1, 2, 3, 4, 5},
		"t.bool": []bool{false, true, true, true, true, true},
		"t.f32":  []float32{0, -1.5, 1e-45, float32(math.Inf(1)), 3.4e38, -0.1},
		"t.f64":  []float64{0.1, -1e300, 5e-324, 1, 2, 3},
		"scalar": float32(2.5), "odd \"name\"\n\\\u2028\x7f<&\x01\b\f\u00e9": []int64{7},
	}
	if len(f.Names()) != len(want) {
		t.Errorf("got names %q, want %d", f.Names(), len(want))
	}
	for name, v := range want {
		d, err := f.Dense(name)
		if err != nil {
			t.Error(err)
		} else if diff := cmp.Diff(v, d.Data()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		} else if strings.HasPrefix(name, "t.") && !d.Shape().Eq(tensor.Shape{2, 3}) {
			t.Errorf("%s: got shape %v, want (2, 3)", name, d.Shape())
		}
	}
	if diff := cmp.Diff(map[string]string{"format": "pt"}, f.Metadata()); diff != "" {
		t.Error(diff)
	}
}

func TestHalfTypesWiden(t *testing.T) {
	f := open(t, "testdata/half.safetensors")
	for _, name := range []string{"f16", "bf16"} {
		t.Run(name, func(t *testing.T) {
			got, err := f.Dense(name)
			if err != nil {
				t.Fatal(err)
			}
			want, _ := f.Dense(name + ".wide") // torch's widening
			if diff := cmp.Diff(want.Data(), got.Data()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
			source, _ := f.Dense("half") // torch's rounding
			info, _ := f.Info(name)
			stored, _ := f.Bytes(name)
			rounded, err := AppendFloat32s(nil, info.Type, source.Data().([]float32))
			if err != nil || !bytes.Equal(rounded, stored) {
				t.Errorf("%s rounded: got % x, %v, want torch's % x", name, rounded, err, stored)
			}
		})
	}
}

// TestWriterMatchesPython rewrites files of the Python library and compares every byte.
func TestWriterMatchesPython(t *testing.T) {
	for _, path := range pythonFiles {
		t.Run(filepath.Base(path), func(t *testing.T) {
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f := open(t, path)
			out := filepath.Join(t.TempDir(), "out.safetensors")
			var infos []TensorInfo
			for _, name := range f.Names() {
				info, _ := f.Info(name)
				infos = append(infos, info)
			}
			slices.Reverse(infos)
			w, err := NewWriter(out, infos, f.Metadata())
			if err != nil {
				t.Fatal(err)
			}
			for _, info := range infos {
				data, _ := f.Bytes(info.Name)
				half := len(data) / 2
				if err := w.WriteAt(info.Name, data[half:], int64(half)); err != nil {
					t.Fatal(err)
				}
				if err := w.WriteAt(info.Name, data[:half], 0); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(out); !bytes.Equal(got, want) {
				t.Errorf("%s: Writer: got %d bytes, want those of Python: %d", path, len(got), len(want))
			}
			if path == "testdata/half.safetensors" {
				return // Dense widens
			}
			tensors, metadata, err := ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if err := WriteFile(out, tensors, metadata); err != nil {
				t.Fatal(err)
			}
			if got, _ := os.ReadFile(out); !bytes.Equal(got, want) {
				t.Errorf("%s: WriteFile: got %d bytes, want those of Python: %d", path, len(got), len(want))
			}
			if got, err := Marshal(tensors, metadata); err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: Marshal: got %d bytes, %v, want those of Python: %d", path, len(got), err, len(want))
			}
			if left, _ := filepath.Glob(filepath.Join(filepath.Dir(out), ".*")); len(left) > 0 {
				t.Errorf("got files %q left behind, want none", left)
			}
		})
	}
}

func TestWriteViewsAndEmptyTensors(t *testing.T) {
	d := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]float32{1, 2, 3, 4, 5, 6}))
	if err := d.T(); err != nil {
		t.Fatal(err)
	}
	column, err := tensor.New(tensor.WithShape(2, 3), tensor.WithBacking([]int64{1, 2, 3, 4, 5, 6})).
		Slice(nil, tensor.S(1, 2))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.safetensors")
	if err := WriteFile(path, map[string]*tensor.Dense{"t": d, "c": column.(*tensor.Dense)}, nil); err != nil {
		t.Fatal(err)
	}
	f := open(t, path)
	for name, want := range map[string]any{"t": []float32{1, 4, 2, 5, 3, 6}, "c": []int64{2, 5}} {
		got, err := f.Dense(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Data()); diff != "" {
			t.Error(diff)
		}
	}
	empty := filepath.Join(t.TempDir(), "empty.safetensors")
	w, err := NewWriter(
		empty,
		[]TensorInfo{{Name: "e", Type: onnx.Float, Shape: []int64{0, 4}}, {Name: "f", Type: onnx.Float, Shape: []int64{}}},
		nil,
	)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Write("f", make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	e, err := open(t, empty).Dense("e")
	if err != nil || !e.Shape().Eq(tensor.Shape{0, 4}) {
		t.Fatalf("empty tensor: got %v, %v, want shape (0, 4)", e, err)
	}
	again := filepath.Join(t.TempDir(), "again.safetensors")
	if err := WriteFile(again, map[string]*tensor.Dense{"e": e}, nil); err != nil {
		t.Fatal(err)
	}
	if e, err = open(t, again).Dense("e"); err != nil || !e.Shape().Eq(tensor.Shape{0, 4}) {
		t.Errorf("empty tensor written and read: got %v, %v, want shape (0, 4)", e, err)
	}
}

func TestWriterRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.safetensors")
	a := TensorInfo{Name: "a", Type: onnx.Float, Shape: []int64{2}}
	for _, c := range []struct {
		infos []TensorInfo
		want  string
	}{
		{[]TensorInfo{a, a}, "taken"},
		{[]TensorInfo{{Name: "s", Type: onnx.String}}, "no element type"},
		{[]TensorInfo{{Name: "n", Type: onnx.Float, Shape: []int64{-1}}}, "negative"},
		{[]TensorInfo{{Name: "n", Type: onnx.Float, Shape: []int64{1 << 40, 1 << 40}}}, "larger than any file"},
		{[]TensorInfo{{Name: "__metadata__", Type: onnx.Float}}, "not allowed"},
	} {
		t.Run(c.want, func(t *testing.T) {
			if _, err := NewWriter(path, c.infos, nil); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v: got %v, want %q", c.infos, err, c.want)
			}
		})
	}
	w, err := NewWriter(path, []TensorInfo{a}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{w.Write("b", nil), w.Write("a", make([]byte, 7)), w.WriteAt("a", make([]byte, 5), 4),
		w.WriteAt("a", nil, -1)} {
		if err == nil {
			t.Errorf("writing what does not fit: got error %v, want one", err)
		}
	}
	if err := w.Close(); err == nil || !strings.Contains(err.Error(), "0 of 8 bytes") {
		t.Errorf("incomplete file: got error %v, want one with %q", err, "0 of 8 bytes")
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("got files %v left behind, want none", left)
	}
}

// file builds a safetensors file from its parts.
func file(header string, body int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, body)...)
}

func TestDamagedFiles(t *testing.T) {
	entry := func(name, dtype, shape string, from, to int) string {
		return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, from, to)
	}
	for name, c := range map[string]struct {
		data []byte
		want string
	}{
		"empty file":  {nil, "0 bytes"},
		"short":       {[]byte{1, 2, 3}, "3 bytes"},
		"huge header": {binary.LittleEndian.AppendUint64(nil, 1<<60), "header of"},
		"cut header":  {file("{}", 0)[:9], "cut short"},
		"no object":   {file("[]", 0), "begin with {"},
		"no UTF-8":    {file("{\"\xff\":1}", 0), "UTF-8"},
		"two tensors": {file("{"+entry("a", "F32", "[1]", 0, 4)+","+entry("a", "F32", "[1]", 4, 8)+"}", 8),
			`"a" occurs twice`},
		"two shapes": {file(`{"a":{"dtype":"F32","shape":[1],"shape":[1],"data_offsets":[0,4]}}`, 4),
			"shape occurs twice"},
		"overlap": {file("{"+entry("a", "F32", "[1]", 0, 4)+","+entry("b", "F32", "[1]", 2, 6)+"}", 6),
			`"b" begins at byte 2 of the data, inside tensor "a"`},
		"gap": {file("{"+entry("a", "F32", "[1]", 0, 4)+","+entry("b", "F32", "[1]", 8, 12)+"}", 12),
			`"b" begins at byte 8`},
		"truncated":       {file("{"+entry("a", "F32", "[2]", 0, 8)+"}", 4), `"a" ends 8 bytes after the header`},
		"trailing":        {file("{"+entry("a", "F32", "[1]", 0, 4)+"}", 6), "the file has 6"},
		"wrong length":    {file("{"+entry("a", "F32", "[3]", 0, 4)+"}", 4), "needs 12 bytes"},
		"negative dim":    {file("{"+entry("a", "F32", "[-1]", 0, 4)+"}", 4), "negative"},
		"overflow":        {file("{"+entry("a", "F32", "[4611686018427387904,4]", 0, 0)+"}", 0), "larger than any file"},
		"backward":        {file("{"+entry("a", "F32", "[1]", 4, 0)+"}", 4), "not a range"},
		"unknown type":    {file("{"+entry("a", "F8_E5M2", "[4]", 0, 4)+"}", 4), `"F8_E5M2" is not supported`},
		"missing shape":   {file(`{"a":{"dtype":"F32","data_offsets":[0,4]}}`, 4), "needs dtype"},
		"fraction":        {file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), "shape"},
		"unknown field":   {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1}}`, 4), "unknown field"},
		"bad metadata":    {file(`{"__metadata__":{"a":1}}`, 0), "__metadata__"},
		"second document": {file(`{} {}`, 0), "follow the JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "x.safetensors")
			if err := os.WriteFile(path, c.data, 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := OpenFile(
				path,
			); err == nil || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("%s: got %v, want %q", name, err, c.want)
			}
		})
	}
}

func FuzzHeader(f *testing.F) {
	x := fuzzing.New(f)
	for _, path := range pythonFiles[:3] {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		x.Add(data)
	}
	x.Add(file("{}", 0))
	x.Run(func(t testing.TB, data []byte) {
		var h *header
		var err error
		fuzzing.Bounded(t, 16<<20+1024*uint64(len(data)), func() {
			h, err = readHeader(bytes.NewReader(data), int64(len(data)))
		})
		if err != nil {
			return
		}
		for _, info := range h.tensors { // what passes the checks can be read
			body := data[info.Offset : info.Offset+info.Length]
			if len(body) > 0 {
				if _, err := dense(info.Type, info.Shape, body); err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, front, err := layout(h.tensors, h.metadata); err != nil {
			t.Fatal(err)
		} else if _, err := parseHeader(front[8:]); err != nil {
			t.Fatal(err)
		}
	})
}
