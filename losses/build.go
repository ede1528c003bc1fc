package losses

import (
	"cmp"
	"fmt"

	"assay/onnx"
)

// Head is the output of a head for the edits of a run: names of values in the graph.
type Head struct {
	Outputs string    // value, classes, mu_sigma
	Z       string    // [edits, outputs]: the last layer; mu and log sigma for mu_sigma
	Score   string    // [edits]: score01; mu for mu_sigma
	Values  []float64 // of classes, in 0..1
}

// term is one loss under construction. Its inputs are named <prefix><name>.
type term struct {
	*onnx.Builder
	Spec
	head   Head
	dtype  onnx.DType
	prefix string
	inputs map[string]string // name -> value of declared inputs
}

// Name returns the name of a graph input or output of term i.
func Name(i int, what string) string { return fmt.Sprintf("losses.%d.%s", i, what) }

// Out is the name of the output of a term with the loss of each of its rows (see [Rows]).
const Out = "loss"

// Build emits term i of an objective over a head's outputs and returns, with shape [1], the weight of the term times
// the sum of its items' weighted losses. The losses are an output of the graph. dtype is Float (or Double, for
// tests). [Feeds] provides the inputs.
func Build(b *onnx.Builder, i int, s Spec, head Head, dtype onnx.DType) (string, error) {
	r, ok := Lookup(s.Kind)
	if !ok || r.build == nil {
		return "", fmt.Errorf("losses[%d]: no loss %q over heads", i, s.Kind)
	}
	if r.Outputs != Value && r.Outputs != head.Outputs {
		return "", fmt.Errorf("losses[%d]: %s needs a head with outputs %s; the head of %s has %s", i, s.Kind, r.Outputs,
			dimension(s.Dimension), head.Outputs)
	}
	t := &term{
		Builder: b,
		Spec:    s,
		head:    head,
		dtype:   dtype,
		prefix:  Name(i, ""),
		inputs:  map[string]string{},
	}
	var sum string
	b.Scoped(fmt.Sprintf("losses.%d.%s", i, s.Kind), func() {
		each := r.build(t)
		weight := t.input("weight", onnx.Dims("items"))
		b.Output(t.prefix+Out, each, dtype, onnx.Dims(t.axis("items")))
		sum = b.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, b.Op("Mul", each, weight), b.Ints(0))
		sum = b.Op("Mul", sum, b.Numbers(dtype, []int64{1}, s.Factor()))
	})
	return sum, nil
}

func dimension(name string) string {
	return cmp.Or(name, "the score")
}

// axis returns the name of one of the term's own dimensions.
func (t *term) axis(name string) string { return t.prefix + name }

// input declares a graph input of the term's dtype; its symbolic dimensions belong to the term, except "examples".
func (t *term) input(name string, shape []onnx.Dim) string {
	return t.declare(name, t.dtype, shape)
}

func (t *term) declare(name string, dtype onnx.DType, shape []onnx.Dim) string {
	if v, ok := t.inputs[name]; ok {
		return v
	}
	for i, d := range shape {
		if s := d.Name; s != "" && s != "examples" {
			shape[i] = onnx.Symbol(t.axis(s))
		}
	}
	t.inputs[name] = t.Input(t.prefix+name, dtype, shape)
	return t.inputs[name]
}

// gather takes rows of a head's output, at indices that are an input; distinct means that no index occurs twice.
func (t *term) gather(x, index string, distinct bool) string {
	y := t.OpA("Gather", onnx.Attrs{"axis": 0}, x, t.declare(index, onnx.Int64, onnx.Dims("items")))
	if distinct {
		t.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
	}
	return y
}

// edits takes the rows of the items' edits. If an edit has several ratings, each is an item.
func (t *term) edits(x string) string { return t.gather(x, "a", t.Votes != VotesSoft) }

// score returns score01 of each labelled edit [items], label its label.
func (t *term) score() string { return t.edits(t.head.Score) }
func (t *term) label() string { return t.input("label", onnx.Dims("items")) }

// Basic arithmetic.
func (t *term) num(v float64) string   { return t.Scalar(t.dtype, v) }
func (t *term) add(a, b string) string { return t.Op("Add", a, b) }
func (t *term) sub(a, b string) string { return t.Op("Sub", a, b) }
func (t *term) mul(a, b string) string { return t.Op("Mul", a, b) }
func (t *term) times(a string, v float64) string {
	if v == 1 {
		return a
	}
	return t.mul(a, t.num(v))
}
func (t *term) square(a string) string   { return t.mul(a, a) }
func (t *term) oneMinus(a string) string { return t.sub(t.num(1), a) }

// softplus returns log(1 + e^x), without overflow, and with derivative 1/2 at 0. ONNX Runtime only has the operator
// in float32.
func (t *term) softplus(x string) string {
	if t.dtype == onnx.Float {
		return t.Op("Softplus", x)
	}
	zero := t.mul(x, t.num(0))
	both := t.OpA("Concat", onnx.Attrs{"axis": -1}, t.Op("Unsqueeze", x, t.Ints(-1)), t.Op("Unsqueeze", zero, t.Ints(-1)))
	return t.OpA("ReduceLogSumExp", onnx.Attrs{"keepdims": 0}, both, t.Ints(-1))
}

// logit returns scale (score01 - center).
func (t *term) logit(score string) string {
	if t.Center != nil && *t.Center != 0 {
		score = t.sub(score, t.num(*t.Center))
	}
	return t.times(score, t.Scale)
}

// column returns column i of x [rows, columns], as [rows].
func (t *term) column(x string, i int) string {
	return t.OpA("Gather", onnx.Attrs{"axis": 1}, x, t.Int(int64(i)))
}

// maxLogSigma bounds log sigma on both sides, so that neither a square nor a quotient overflows in float32.
const maxLogSigma = 10

// logSigma returns log sigma of each edit [edits], clipped; outside the bounds it has no gradient.
func (t *term) logSigma() string {
	return t.Op("Clip", t.column(t.head.Z, 1), t.num(-maxLogSigma), t.num(maxLogSigma))
}
