package onnx

import (
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	pb "assay/onnx/onnxpb"
)

func serialized(p *pb.ModelProto) []byte {
	raw, err := proto.MarshalOptions{AllowPartial: true}.Marshal(p)
	if err != nil {
		panic(err)
	}
	return raw
}

// withTensor returns a model whose only initializer is t, withAttr one whose only node has the attributes a.
func withTensor(t *pb.TensorProto) []byte {
	return serialized(&pb.ModelProto{Graph: &pb.GraphProto{Initializer: []*pb.TensorProto{t}}})
}

func withAttr(a ...*pb.AttributeProto) []byte {
	for _, a := range a {
		a.Name = proto.String("a")
	}
	node := &pb.NodeProto{OpType: proto.String("Op"), Output: []string{"y"}, Attribute: a}
	return serialized(&pb.ModelProto{Graph: &pb.GraphProto{Node: []*pb.NodeProto{node}}})
}

func tensor(kind DType, dims ...int64) *pb.TensorProto {
	return &pb.TensorProto{Name: proto.String("w"), DataType: proto.Int32(int32(kind)), Dims: dims}
}

func attr(kind pb.AttributeProto_AttributeType) *pb.AttributeProto {
	return &pb.AttributeProto{Type: &kind}
}

func external(entries ...string) *pb.TensorProto {
	place := pb.TensorProto_EXTERNAL
	t := tensor(Float, 2)
	t.DataLocation = &place
	for i := 0; i < len(entries); i += 2 {
		t.ExternalData = append(t.ExternalData, entry(entries[i], entries[i+1]))
	}
	return t
}

// nested returns depth nested graphs, each in an attribute of the enclosing one.
func nested(depth int) []byte {
	g := &pb.GraphProto{}
	for range depth - 1 {
		a := attr(pb.AttributeProto_GRAPH)
		a.Name, a.G = proto.String("a"), g
		g = &pb.GraphProto{Node: []*pb.NodeProto{{OpType: proto.String("If"), Attribute: []*pb.AttributeProto{a}}}}
	}
	return serialized(&pb.ModelProto{Graph: g})
}

func with[T any](v T, change func(T)) T {
	change(v)
	return v
}

// protoCases are models that are refused, by a part of the error message.
func protoCases() map[string][]byte {
	segment := &pb.TensorProto_Segment{Begin: proto.Int64(0), End: proto.Int64(1)}
	return map[string][]byte{
		"has no graph":                         serialized(&pb.ModelProto{}),
		"not an ONNX model, or cut short":      nested(3)[:5],
		"declared a tensor but has none":       withAttr(attr(pb.AttributeProto_TENSOR)),
		"declared a graph but has none":        withAttr(attr(pb.AttributeProto_GRAPH)),
		"type SPARSE_TENSOR are not supported": withAttr(attr(pb.AttributeProto_SPARSE_TENSOR)),
		"type TYPE_PROTO are not supported":    withAttr(attr(pb.AttributeProto_TYPE_PROTO)),
		"type TENSORS are not supported":       withAttr(attr(pb.AttributeProto_TENSORS)),
		"type UNDEFINED are not supported":     withAttr(attr(pb.AttributeProto_UNDEFINED)),
		"of type INT but has a value of type FLOAT": withAttr(with(attr(pb.AttributeProto_INT),
			func(a *pb.AttributeProto) { a.F = proto.Float32(2) })),
		"given twice": withAttr(attr(pb.AttributeProto_INT), attr(pb.AttributeProto_INT)),
		`refers to "b" of a function`: withAttr(with(attr(pb.AttributeProto_INT),
			func(a *pb.AttributeProto) { a.RefAttrName = proto.String("b") })),
		"subgraphs are nested more than 64 deep": nested(70),
		"local functions": serialized(&pb.ModelProto{Graph: &pb.GraphProto{},
			Functions: []*pb.FunctionProto{{Name: proto.String("f")}}}),
		"overload": serialized(&pb.ModelProto{Graph: &pb.GraphProto{
			Node: []*pb.NodeProto{{OpType: proto.String("f"), Overload: proto.String("o")}}}}),
		"two versions of domain": serialized(
			&pb.ModelProto{Graph: &pb.GraphProto{}, OpsetImport: []*pb.OperatorSetIdProto{
				{
					Domain:  proto.String(""),
					Version: proto.Int64(17),
				}, {Domain: proto.String("ai.onnx"), Version: proto.Int64(18)}}},
		),
		"sparse initializers are not supported": serialized(&pb.ModelProto{Graph: &pb.GraphProto{
			SparseInitializer: []*pb.SparseTensorProto{{}}}}),
		"elements of type 0 are not supported":  withTensor(tensor(Undefined)),
		"elements of type 99 are not supported": withTensor(tensor(99)),
		"negative dimension":                    withTensor(tensor(Float, 2, -1)),
		"too many elements":                     withTensor(tensor(Float, 1<<32, 1<<32)),
		"needs 16 bytes, the file has 3": withTensor(
			with(tensor(Float, 4), func(t *pb.TensorProto) { t.RawData = []byte{1, 2, 3} }),
		),
		"needs 16 bytes, the file has 4": withTensor(
			with(tensor(Float, 4), func(t *pb.TensorProto) { t.FloatData = []float32{1} }),
		),
		"needs 8 bytes, the file has 0": withTensor(tensor(Int64, 1)),
		"needs 2 bytes, the file has 3": withTensor(
			with(tensor(22, 3), func(t *pb.TensorProto) { t.RawData = []byte{1, 2, 3} }),
		),
		"both raw_data and typed values": withTensor(with(tensor(Float, 1),
			func(t *pb.TensorProto) { t.RawData, t.FloatData = []byte{0, 0, 0, 0}, []float32{1} })),
		"in fields of other types": withTensor(
			with(tensor(Float, 1), func(t *pb.TensorProto) { t.Int32Data = []int32{1} }),
		),
		"300 is not a valid uint8": withTensor(
			with(tensor(Uint8, 1), func(t *pb.TensorProto) { t.Int32Data = []int32{300} }),
		),
		"70000 is not a valid float16": withTensor(
			with(tensor(Float16, 1), func(t *pb.TensorProto) { t.Int32Data = []int32{70000} }),
		),
		"4294967296 is not a valid uint32": withTensor(
			with(tensor(Uint32, 1), func(t *pb.TensorProto) { t.Uint64Data = []uint64{1 << 32} }),
		),
		"needs 2 in string_data": withTensor(
			with(tensor(String, 2), func(t *pb.TensorProto) { t.StringData = [][]byte{{'a'}} }),
		),
		"segments of tensors":     withTensor(with(tensor(Float, 1), func(t *pb.TensorProto) { t.Segment = segment })),
		"without a location":      withTensor(external()),
		`length "-5"`:             withTensor(external("location", "w", "length", "-5")),
		`offset "x"`:              withTensor(external("location", "w", "offset", "x")),
		"location is given twice": withTensor(external("location", "w", "location", "v")),
		`the entry "Offset"`:      withTensor(external("location", "w", "Offset", "4")),
		"external, but it also has data": withTensor(with(external("location", "w"),
			func(t *pb.TensorProto) { t.RawData = make([]byte, 8) })),
		"strings cannot be external": withTensor(with(external("location", "w"),
			func(t *pb.TensorProto) { t.DataType = proto.Int32(int32(String)) })),
	}
}

func TestDecodeRefuses(t *testing.T) {
	for want, raw := range protoCases() {
		m, err := Decode(raw)
		if err == nil || m != nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

func TestDecodeKeeps(t *testing.T) {
	if _, err := Decode(nested(60)); err != nil {
		t.Errorf("60 nested graphs: got error %v, want none", err)
	}
	for name, c := range map[string]struct {
		tensor *pb.TensorProto
		bytes  []byte
	}{
		"float16": {with(tensor(Float16, 2), func(t *pb.TensorProto) { t.Int32Data = []int32{0x3c00, 1} }),
			[]byte{0, 0x3c, 1, 0}},
		"int8": {with(tensor(Int8, 2), func(t *pb.TensorProto) { t.Int32Data = []int32{-1, 5} }), []byte{255, 5}},
		"int4": {with(tensor(22, 3), func(t *pb.TensorProto) { t.Int32Data = []int32{0x21, 3} }), []byte{0x21, 3}},
		"complex": {with(tensor(14, 1), func(t *pb.TensorProto) { t.FloatData = []float32{1, 0} }),
			[]byte{0, 0, 0x80, 0x3f, 0, 0, 0, 0}},
		"empty": {tensor(Float, 0, 1<<40, 1<<40), []byte{}},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := Decode(withTensor(c.tensor))
			if err != nil {
				t.Errorf("%s: got error %v, want none", name, err)
				return
			}
			if got := m.Initializers[0].Data; string(got) != string(c.bytes) {
				t.Errorf("%s: %v, want %v", name, got, c.bytes)
			}
		})
	}
	m, err := Decode(withTensor(external("location", "w", "checksum", "abc")))
	if err != nil || *m.Initializers[0].External != (External{Location: "w", Length: 8}) {
		t.Errorf("external data: got %+v, %v, want 8 bytes of file w", m, err)
	}
}
