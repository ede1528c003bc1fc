package grad

import (
	"fmt"
	"slices"

	"assay/onnx"
)

// entry is one rule: how gradients pass through an operator, from one of its versions on.
type entry struct {
	domain            string
	op                string
	since             int64 // first opset of the domain that the rule is valid in
	nonDifferentiable []int // inputs that carry no gradient; allInputs: all of them
	// outputs is the number of leading outputs whose gradients the rule takes: 0 is only the first, allOutputs any
	// number.
	outputs int
	// captures is set if the rule also computes gradients of the captures of the node's subgraphs (call.captures,
	// call.setCaptureGrad).
	captures bool
	// broadcast is set if the rule returns gradients in the broadcast shape; the engine sums them to the inputs'
	// shapes.
	broadcast bool
	// rule emits the gradients of the inputs. If it returns nil, decompose is used.
	rule func(c *call) []string
	// decompose computes the outputs with simpler operators, which are differentiated instead.
	decompose func(c *call) []string
	note      string // for docs/ops.md: what the rule does not cover
}

var allInputs = []int{-1}

const allOutputs = -1

// acceptsOutput reports whether the rule takes the gradient of output j.
func (r *entry) acceptsOutput(j int) bool { return r.outputs == allOutputs || j < max(1, r.outputs) }

// acceptedOutputs describes the outputs whose gradients the rule takes.
func (r *entry) acceptedOutputs() string {
	switch {
	case r.outputs == allOutputs:
		return "all outputs"
	case r.outputs <= 1:
		return "output 0"
	}
	return fmt.Sprintf("outputs 0 to %d", r.outputs-1)
}

func (r *entry) nonDifferentiableAt(i int) bool {
	return slices.Contains(r.nonDifferentiable, i) || slices.Equal(r.nonDifferentiable, allInputs)
}

// table holds all rules, rules indexes them by domain and operator. init fills them, because rules of control flow
// use the table to differentiate subgraphs.
var (
	table []entry
	rules = map[[2]string][]*entry{}
)

func init() {
	table = slices.Concat(
		elementwiseRules,
		activationRules,
		linearRules,
		reduceRules,
		normRules,
		shapeRules,
		indexRules,
		convRules,
		poolRules,
		attentionRules,
		controlRules,
		recurrentRules,
		fusedRules,
	)
	for i := range table {
		r := &table[i]
		rules[[2]string{r.domain, r.op}] = append(rules[[2]string{r.domain, r.op}], r)
	}
}

// lookup finds the rule of a node in a version of its domain, nil if there is none.
func lookup(n *onnx.Node, opset int64) *entry {
	for _, r := range rules[[2]string{n.Domain, n.Op}] {
		if opset >= r.since {
			return r
		}
	}
	return nil
}
