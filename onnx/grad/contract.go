package grad

import (
	"fmt"
	"strings"

	"assay/onnx"
)

// noRule returns the error for a node without a rule.
func noRule(m *onnx.Model, n *onnx.Node) error {
	return fmt.Errorf(
		"%s lies between the outputs and the values to differentiate by, but there is no gradient rule for this "+
			"operator at this version; it needs a rule for input %q. docs/ops.md lists the rules: "+
			"differentiate with respect to a later value, or rewrite the node",
		m.Describe(n),
		strings.Join(n.Reads(), ", "),
	)
}

// untyped returns the error for an active value that is not known to be a floating-point tensor. It names the first
// node of unknown type.
func (e *engine) untyped(x string) error {
	v := e.value(x)
	for v.Type == onnx.Undefined && e.producers[x] != nil {
		n := e.producers[x]
		before := ""
		for _, y := range n.Inputs {
			if y != "" && e.value(y).Type == onnx.Undefined {
				before = y
				break
			}
		}
		if before == "" || lookup(n, e.b.M.Opset(n.Domain)) == nil {
			if lookup(n, e.b.M.Opset(n.Domain)) == nil {
				return noRule(e.b.M, n)
			}
			return fmt.Errorf(
				"%s outputs %q, whose type neither the operator nor a declaration in the model determines",
				e.b.M.Describe(n), x,
			)
		}
		x, v = before, e.value(before)
	}
	return fmt.Errorf(
		"%q is %v, which cannot have a gradient: want a float, float16, bfloat16 or double tensor",
		x, v,
	)
}

// ruleErrorf returns the error for a rule that violated its contract.
func ruleErrorf(format string, args ...any) error {
	return &onnx.InternalError{Doing: "checking the result of a rule", Cause: fmt.Errorf(format, args...)}
}

// checkGradient checks that a gradient has the type and shape of its value, as far as they are known.
func checkGradient(g, x *onnx.Value) error {
	if !compatible(g, x) {
		return ruleErrorf("the gradient is %v, want %v", g, x)
	}
	return nil
}

// compatible reports whether two values may have the same type and shape.
func compatible(g, x *onnx.Value) bool {
	if g.Type != onnx.Undefined && x.Type != onnx.Undefined && g.Type != x.Type {
		return false
	}
	if !g.Ranked || !x.Ranked {
		return true
	}
	if len(g.Shape) != len(x.Shape) {
		return false
	}
	for i := range g.Shape {
		if g.Shape[i].Known() && x.Shape[i].Known() && g.Shape[i].Size != x.Shape[i].Size {
			return false
		}
	}
	return true
}
