package onnx_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/internal/packed"
	"assay/onnx"
	pb "assay/onnx/onnxpb"
	"assay/ort"

	"google.golang.org/protobuf/proto"
)

// TestInferAgainstRuntime compares every inferred type and shape of the oracle's models with the values that ONNX
// Runtime computes.
func TestInferAgainstRuntime(t *testing.T) {
	suites, err := filepath.Glob("../testdata/oracle*/onnx")
	if err != nil {
		t.Fatal(err)
	}
	archives, err := filepath.Glob("../testdata/oracle*/onnx.zip")
	if err != nil {
		t.Fatal(err)
	}
	for _, archive := range archives {
		suites = append(suites, packed.Unpack(t, archive))
	}
	cases := 0
	for _, suite := range suites {
		folders, err := filepath.Glob(filepath.Join(suite, "*"))
		if err != nil {
			t.Fatal(err)
		}
		cases += len(folders)
		for _, folder := range folders {
			t.Run(filepath.Base(folder), func(t *testing.T) { inferCase(t, folder) })
		}
	}
	if cases < 60 {
		t.Fatalf("got %d cases, want at least 60", cases)
	}
}

func inferCase(t *testing.T, folder string) {
	m, err := onnx.Read(folder + "/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.Check(m); err != nil {
		t.Fatal(err)
	}
	m.Outputs = nil // inference must find them
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	symbols := map[string]int{}
	feeds, _, err := checkpoints.ReadFile(folder + "/inputs.safetensors")
	if err != nil {
		t.Fatal(err)
	}
	for _, in := range m.Inputs {
		for i, d := range in.Shape {
			if !d.Known() {
				symbols[d.Name] = feeds[in.Name].Shape()[i]
			}
		}
	}
	for _, n := range m.Nodes {
		for _, y := range n.Outputs {
			v := types.Of(y)
			if v.Type == onnx.Undefined || !v.Ranked {
				t.Errorf("%s: got no type and rank of output %q, want both", m.Describe(n), y)
				continue
			}
			if v.Type != onnx.Bool && v.Type != onnx.Float16 { // those are converted when they are read back
				m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: y, Type: v.Type})
			}
		}
	}
	s, err := ort.Open(m, ort.Options{Threads: 1, Optimize: ort.OptimizeNothing})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := s.Run(context.Background(), feeds)
	if err != nil {
		t.Fatal(err)
	}
	for _, out := range m.Outputs {
		v, shape := types.Of(out.Name), []int(got[out.Name].Shape())
		if got[out.Name].IsScalar() {
			shape = nil
		}
		if len(shape) != len(v.Shape) {
			t.Errorf("%s: got %v from inference, want the runtime's shape %v", out.Name, v, shape)
			continue
		}
		for i, d := range v.Shape {
			size, named := symbols[d.Name]
			switch {
			case d.Known() && int(d.Size) != shape[i], named && size != shape[i]:
				t.Errorf("%s: got %v from inference, want the runtime's shape %v", out.Name, v.Shape, shape)
			case !d.Known(): // the same symbol must be the same size everywhere
				symbols[d.Name] = shape[i]
			}
		}
		if ints, ok := v.Known(); ok && out.Type == onnx.Int64 {
			want := fmt.Sprint(got[out.Name].Data())
			if have := fmt.Sprint(ints); have != want && "["+want+"]" != have {
				t.Errorf("%s is %s, inference says %s", out.Name, want, have)
			}
		}
	}
}

// TestSymbols follows sizes through the shape computations of packed attention.
func TestSymbols(t *testing.T) {
	b := onnx.NewBuilder("packed", 23)
	x := b.Input("x", onnx.Float, onnx.Dims(1, "rows", 64))
	b.Input("lengths", onnx.Int64, onnx.Dims(2))
	b.Input("counts", onnx.Int64, onnx.Dims(2))
	length := b.Op("Slice", "lengths", b.Ints(0), b.Ints(1))
	parts := b.Node("", "Split", 2, onnx.Attrs{"axis": 1}, x, "counts")
	heads := b.Op("Reshape", parts[0], b.OpA("Concat", onnx.Attrs{"axis": 0}, b.Ints(-1), length, b.Ints(4, 16)))
	flat := b.Op("Reshape", b.OpA("Transpose", onnx.Attrs{"perm": []int{0, 2, 1, 3}}, heads), b.Ints(1, -1, 64))
	joined := b.OpA("Concat", onnx.Attrs{"axis": 1}, flat, parts[1])
	types, err := onnx.Infer(b.M)
	if err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		parts[0]: "[1 counts[0] 64]", heads: "[(counts[0]/lengths[0]) lengths[0] 4 16]", flat: "[1 counts[0] 64]",
		joined: "[1 rows 64]",
	} {
		t.Run(want, func(t *testing.T) {
			if got := fmt.Sprint(types.Of(value).Shape); got != want {
				t.Errorf("%s is %s, want %s", value, got, want)
			}
		})
	}
}

// TestShapeErrors: error messages name the mismatch.
func TestShapeErrors(t *testing.T) {
	for name, c := range map[string]struct {
		build func(b *onnx.Builder)
		want  string
	}{
		"broadcast": {func(b *onnx.Builder) {
			b.Op("Add", b.Input("x", onnx.Float, onnx.Dims(2, 3)), b.Input("y", onnx.Float, onnx.Dims(4)))
		},
			`node "Add" (ai.onnx.Add, opset 17): sizes 3 and 4 do not broadcast; inputs are "x" float[2,3], "y" float[4]`},
		"types": {func(b *onnx.Builder) { b.Op("Add", b.Input("x", onnx.Float, nil), b.Input("y", onnx.Double, nil)) },
			"float and double differ"},
		"reshape": {func(b *onnx.Builder) { b.Op("Reshape", b.Input("x", onnx.Float, onnx.Dims(2, 3)), b.Ints(4, -1)) },
			"6 elements are not divisible by 4"},
		"concat": {func(b *onnx.Builder) {
			b.OpA("Concat", onnx.Attrs{"axis": 0}, b.Input("x", onnx.Float, onnx.Dims(2, 3)),
				b.Input("y", onnx.Float, onnx.Dims(2, 4)))
		}, "sizes 3 and 4 of axis 1 differ"},
		"axis": {func(b *onnx.Builder) {
			b.OpA("Gather", onnx.Attrs{"axis": 2}, b.Input("x", onnx.Float, onnx.Dims(2, 3)), b.Ints(0))
		}, "axis 2 is out of range for rank 2"},
		"split": {func(b *onnx.Builder) {
			b.Node("", "Split", 2, nil, b.Input("x", onnx.Float, onnx.Dims(5)), b.Ints(2, 2))
		}, "do not add up to 5"},
		"conv": {func(b *onnx.Builder) {
			b.Op("Conv", b.Input("x", onnx.Float, onnx.Dims(1, 3, 8, 8)), b.Input("w", onnx.Float, onnx.Dims(4, 2, 3, 3)))
		}, "3 channels for a kernel of 2 x 1 groups"},
		"window of a convolution": {func(b *onnx.Builder) {
			b.Op("Conv", b.Input("x", onnx.Float, onnx.Dims(1, 3, 8, 2)), b.Input("w", onnx.Float, onnx.Dims(4, 3, 3, 6)))
		}, "the kernel is larger than the padded input along axis 3"},
		"window of a pooling": {func(b *onnx.Builder) {
			b.OpA("MaxPool", onnx.Attrs{"kernel_shape": []int64{3, 3}, "strides": []int64{2, 2}},
				b.Input("x", onnx.Float, onnx.Dims(1, 3, 2, 8)))
		}, "the kernel is larger than the padded input along axis 2"},
		"einsum": {func(b *onnx.Builder) {
			b.OpA("Einsum", onnx.Attrs{"equation": "ij,jk->ik"}, b.Input("x", onnx.Float, onnx.Dims(2, 3)),
				b.Input("y", onnx.Float, onnx.Dims(4, 5)))
		}, "sizes 3 and 4 do not broadcast"},
	} {
		t.Run(name, func(t *testing.T) {
			b := onnx.NewBuilder(name, 17)
			c.build(b)
			if _, err := onnx.Infer(b.M); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v lacks %q", name, err, c.want)
			}
		})
	}
}

// TestOtherTypesAreKept: a value declared as a sequence is written as one.
func TestOtherTypesAreKept(t *testing.T) {
	seq := &pb.TypeProto{Value: &pb.TypeProto_SequenceType{SequenceType: &pb.TypeProto_Sequence{ElemType: &pb.TypeProto{
		Value: &pb.TypeProto_TensorType{TensorType: &pb.TypeProto_Tensor{ElemType: proto.Int32(1)}}}}}}
	p := &pb.ModelProto{IrVersion: proto.Int64(8), Graph: &pb.GraphProto{Name: proto.String("g"),
		Input: []*pb.ValueInfoProto{{Name: proto.String("q"), Type: seq}}}}
	data, err := proto.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	m, err := onnx.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	if data, err = m.Encode(); err != nil {
		t.Fatal(err)
	}
	var again pb.ModelProto
	if err := proto.Unmarshal(data, &again); err != nil {
		t.Fatal(err)
	}
	if got := again.Graph.Input[0].Type; !proto.Equal(got, seq) {
		t.Errorf("got %v, want the sequence unchanged: %v", got, seq)
	}
}
