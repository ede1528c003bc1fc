package onnx

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"

	"google.golang.org/protobuf/proto"

	pb "assay/onnx/onnxpb"
)

// Read reads a model file. External tensors stay references; CheckExternal checks that they exist.
func Read(path string) (*Model, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	m, err := Decode(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Decode parses a serialized ModelProto.
func Decode(data []byte) (*Model, error) {
	var p pb.ModelProto
	if err := proto.Unmarshal(data, &p); err != nil {
		return nil, fmt.Errorf("not an ONNX model, or cut short: %w", err)
	}
	if p.Graph == nil {
		return nil, fmt.Errorf("not an ONNX model: it has no graph")
	}
	m := &Model{
		IRVersion: p.GetIrVersion(),
		Producer:  p.GetProducerName(),
		Opsets:    map[string]int64{},
		Metadata:  map[string]string{},
	}
	for _, o := range p.OpsetImport {
		d := o.GetDomain()
		if d == "ai.onnx" {
			d = ""
		}
		if v, twice := m.Opsets[d]; twice && v != o.GetVersion() {
			return nil, fmt.Errorf("the model imports two versions of domain %q, %d and %d",
				o.GetDomain(), v, o.GetVersion())
		}
		m.Opsets[d] = o.GetVersion()
	}
	for _, e := range p.MetadataProps {
		m.Metadata[e.GetKey()] = e.GetValue()
	}
	if len(p.Functions) > 0 {
		return nil, fmt.Errorf("the model defines %d local functions (%s.%s first): inline them first (onnx.inliner)",
			len(p.Functions), p.Functions[0].GetDomain(), p.Functions[0].GetName())
	}
	g, err := decodeGraph(p.Graph, maxDepth)
	if err != nil {
		return nil, err
	}
	m.Graph = *g
	return m, nil
}

// maxDepth is the maximum nesting depth of subgraphs.
const maxDepth = 64

// decodeGraph reads a graph whose subgraphs are nested at most depth deep.
func decodeGraph(p *pb.GraphProto, depth int) (*Graph, error) {
	switch {
	case p == nil:
		return nil, errors.New("it is declared a graph but has none")
	case depth == 0:
		return nil, fmt.Errorf("subgraphs are nested more than %d deep", maxDepth)
	}
	g := &Graph{Name: p.GetName()}
	for _, t := range p.Initializer {
		d, err := decodeTensor(t)
		if err != nil {
			return nil, fmt.Errorf("initializer %q: %w", t.GetName(), err)
		}
		g.Initializers = append(g.Initializers, d)
	}
	if len(p.SparseInitializer) > 0 {
		return nil, fmt.Errorf("sparse initializers are not supported: store %q dense",
			p.SparseInitializer[0].GetValues().GetName())
	}
	for _, v := range p.Input {
		g.Inputs = append(g.Inputs, decodeValue(v))
	}
	for _, v := range p.Output {
		g.Outputs = append(g.Outputs, decodeValue(v))
	}
	for _, v := range p.ValueInfo {
		if d := decodeValue(v); d.Type != Undefined || d.Ranked { // nothing is known of a sequence
			g.Values = append(g.Values, d)
		}
	}
	for _, n := range p.Node {
		node, err := decodeNode(n, depth)
		if err != nil {
			return nil, err
		}
		g.Nodes = append(g.Nodes, node)
	}
	return g, nil
}

func decodeNode(p *pb.NodeProto, depth int) (*Node, error) {
	n := &Node{Name: p.GetName(), Op: p.GetOpType(), Domain: p.GetDomain(), Inputs: p.Input, Outputs: p.Output}
	if n.Domain == "ai.onnx" {
		n.Domain = ""
	}
	if p.GetOverload() != "" {
		return nil, fmt.Errorf("%v: it is the overload %q of a local function: inline functions first (onnx.inliner)",
			n, p.GetOverload())
	}
	for _, a := range p.Attribute {
		v, err := decodeAttr(a, depth)
		if _, twice := n.Attrs[a.GetName()]; twice && err == nil {
			err = errors.New("it is given twice")
		}
		if err != nil {
			return nil, fmt.Errorf("%v: attribute %q: %w", n, a.GetName(), err)
		}
		if n.Attrs == nil {
			n.Attrs = map[string]any{}
		}
		n.Attrs[a.GetName()] = v
	}
	for _, e := range p.MetadataProps {
		if e.GetKey() == metaSegment {
			n.Segment = e.GetValue()
			continue
		}
		if n.Meta == nil {
			n.Meta = map[string]string{}
		}
		n.Meta[e.GetKey()] = e.GetValue()
	}
	return n, nil
}

const metaSegment = "assay.segment"

func decodeValue(p *pb.ValueInfoProto) ValueInfo {
	v := ValueInfo{Name: p.GetName()}
	t := p.GetType().GetTensorType()
	if t == nil {
		if p.Type != nil {
			v.Other, _ = proto.MarshalOptions{Deterministic: true}.Marshal(p.Type) // cannot fail: it was just decoded
		}
		return v
	}
	v.Type = DType(t.GetElemType())
	if t.Shape == nil {
		return v
	}
	v.Ranked = true
	v.Shape = []Dim{}
	for _, d := range t.Shape.Dim {
		switch x := d.Value.(type) {
		case *pb.TensorShapeProto_Dimension_DimValue:
			v.Shape = append(v.Shape, Fixed(x.DimValue))
		case *pb.TensorShapeProto_Dimension_DimParam:
			v.Shape = append(v.Shape, Symbol(x.DimParam))
		default:
			v.Shape = append(v.Shape, Dim{Size: -1})
		}
	}
	return v
}

// decodeAttr reads the field of the attribute's type. A writer may omit a zero or an empty list. A value in any other
// field is an error.
func decodeAttr(a *pb.AttributeProto, depth int) (any, error) {
	if a.GetRefAttrName() != "" {
		return nil, fmt.Errorf("it refers to %q of a function, but is outside of one", a.GetRefAttrName())
	}
	own := a.GetType()
	for _, field := range [...]struct {
		kind  pb.AttributeProto_AttributeType
		given bool
	}{
		{pb.AttributeProto_INT, a.I != nil}, {pb.AttributeProto_INTS, len(a.Ints) > 0},
		{pb.AttributeProto_FLOAT, a.F != nil}, {pb.AttributeProto_FLOATS, len(a.Floats) > 0},
		{pb.AttributeProto_STRING, a.S != nil}, {pb.AttributeProto_STRINGS, len(a.Strings) > 0},
		{pb.AttributeProto_TENSOR, a.T != nil}, {pb.AttributeProto_GRAPH, a.G != nil},
	} {
		if field.given && field.kind != own {
			return nil, fmt.Errorf("it is declared of type %v but has a value of type %v", own, field.kind)
		}
	}
	switch own {
	case pb.AttributeProto_INT:
		return a.GetI(), nil
	case pb.AttributeProto_FLOAT:
		return a.GetF(), nil
	case pb.AttributeProto_STRING:
		return string(a.GetS()), nil
	case pb.AttributeProto_INTS:
		return append([]int64{}, a.Ints...), nil
	case pb.AttributeProto_FLOATS:
		return append([]float32{}, a.Floats...), nil
	case pb.AttributeProto_STRINGS:
		s := make([]string, len(a.Strings))
		for i := range s {
			s[i] = string(a.Strings[i])
		}
		return s, nil
	case pb.AttributeProto_TENSOR:
		return decodeTensor(a.T)
	case pb.AttributeProto_GRAPH:
		return decodeGraph(a.G, depth-1)
	}
	return nil, fmt.Errorf("attributes of type %v are not supported", a.GetType())
}

// Encode serializes the model. The same model always has the same bytes.
func (m *Model) Encode() ([]byte, error) {
	for _, t := range m.Initializers {
		if t.Lazy != nil {
			return nil, fmt.Errorf("tensor %q is lazy: its bytes do not exist yet", t.Name)
		}
	}
	p := &pb.ModelProto{
		IrVersion:    proto.Int64(m.IRVersion),
		ProducerName: proto.String(m.Producer),
		Graph:        encodeGraph(&m.Graph, m.IRVersion),
	}
	for _, d := range slices.Sorted(maps.Keys(m.Opsets)) {
		p.OpsetImport = append(
			p.OpsetImport,
			&pb.OperatorSetIdProto{Domain: proto.String(d), Version: proto.Int64(m.Opsets[d])},
		)
	}
	for _, k := range slices.Sorted(maps.Keys(m.Metadata)) {
		p.MetadataProps = append(p.MetadataProps, entry(k, m.Metadata[k]))
	}
	return proto.MarshalOptions{Deterministic: true}.Marshal(p)
}

func entry(k, v string) *pb.StringStringEntryProto {
	return &pb.StringStringEntryProto{Key: proto.String(k), Value: proto.String(v)}
}

func encodeGraph(g *Graph, ir int64) *pb.GraphProto {
	p := &pb.GraphProto{Name: proto.String(g.Name)}
	for _, t := range g.Initializers {
		p.Initializer = append(p.Initializer, encodeTensor(t))
	}
	for _, v := range g.Inputs {
		p.Input = append(p.Input, encodeValue(v))
	}
	for _, v := range g.Outputs {
		p.Output = append(p.Output, encodeValue(v))
	}
	for _, v := range g.Values {
		p.ValueInfo = append(p.ValueInfo, encodeValue(v))
	}
	for _, n := range g.Nodes {
		q := &pb.NodeProto{
			Name:   proto.String(n.Name),
			OpType: proto.String(n.Op),
			Domain: proto.String(n.Domain),
			Input:  n.Inputs,
			Output: n.Outputs,
		}
		for _, k := range slices.Sorted(maps.Keys(n.Attrs)) {
			q.Attribute = append(q.Attribute, encodeAttr(k, n.Attrs[k], ir))
		}
		if ir >= 10 { // nodes have metadata_props since IR version 10
			if n.Segment != "" {
				q.MetadataProps = append(q.MetadataProps, entry(metaSegment, n.Segment))
			}
			for _, k := range slices.Sorted(maps.Keys(n.Meta)) {
				q.MetadataProps = append(q.MetadataProps, entry(k, n.Meta[k]))
			}
		}
		p.Node = append(p.Node, q)
	}
	return p
}

func encodeValue(v ValueInfo) *pb.ValueInfoProto {
	if v.Other != nil {
		t := &pb.TypeProto{}
		if err := proto.Unmarshal(v.Other, t); err == nil {
			return &pb.ValueInfoProto{Name: proto.String(v.Name), Type: t}
		}
	}
	t := &pb.TypeProto_Tensor{ElemType: proto.Int32(int32(v.Type))}
	if v.Ranked {
		t.Shape = &pb.TensorShapeProto{}
		for _, d := range v.Shape {
			q := &pb.TensorShapeProto_Dimension{}
			switch {
			case d.Known():
				q.Value = &pb.TensorShapeProto_Dimension_DimValue{DimValue: d.Size}
			case d.Name != "":
				q.Value = &pb.TensorShapeProto_Dimension_DimParam{DimParam: d.Name}
			}
			t.Shape.Dim = append(t.Shape.Dim, q)
		}
	}
	if v.Type == Undefined && !v.Ranked { // nothing is known of the type
		return &pb.ValueInfoProto{Name: proto.String(v.Name)}
	}
	return &pb.ValueInfoProto{
		Name: proto.String(v.Name),
		Type: &pb.TypeProto{Value: &pb.TypeProto_TensorType{TensorType: t}},
	}
}

func encodeAttr(name string, value any, ir int64) *pb.AttributeProto {
	a := &pb.AttributeProto{Name: proto.String(name)}
	kind := func(t pb.AttributeProto_AttributeType) { a.Type = &t }
	switch v := value.(type) {
	case int64:
		kind(pb.AttributeProto_INT)
		a.I = proto.Int64(v)
	case float32:
		kind(pb.AttributeProto_FLOAT)
		a.F = proto.Float32(v)
	case string:
		kind(pb.AttributeProto_STRING)
		a.S = []byte(v)
	case []int64:
		kind(pb.AttributeProto_INTS)
		a.Ints = v
	case []float32:
		kind(pb.AttributeProto_FLOATS)
		a.Floats = v
	case []string:
		kind(pb.AttributeProto_STRINGS)
		for _, s := range v {
			a.Strings = append(a.Strings, []byte(s))
		}
	case *Tensor:
		kind(pb.AttributeProto_TENSOR)
		a.T = encodeTensor(v)
	case *Graph:
		kind(pb.AttributeProto_GRAPH)
		a.G = encodeGraph(v, ir)
	}
	return a
}

func encodeTensor(t *Tensor) *pb.TensorProto {
	p := &pb.TensorProto{Name: proto.String(t.Name), DataType: proto.Int32(int32(t.Type)), Dims: t.Shape}
	switch {
	case t.External != nil:
		loc := pb.TensorProto_EXTERNAL
		p.DataLocation = &loc
		p.ExternalData = []*pb.StringStringEntryProto{
			entry("location", t.External.Location),
			entry("offset", strconv.FormatInt(t.External.Offset, 10)),
			entry("length", strconv.FormatInt(t.External.Length, 10)),
		}
	case t.Type == String:
		for _, s := range t.Strings {
			p.StringData = append(p.StringData, []byte(s))
		}
	default:
		p.RawData = t.Data
	}
	return p
}
