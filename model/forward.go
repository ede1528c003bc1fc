package model

import (
	"fmt"
	"slices"

	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// Names of inputs and outputs of scorers' graphs.
const (
	inGradient = "score_gradient" // [examples, heads]: d score / d dimension, heads sorted by name; then d score / d sigma
	outScore   = "score01"        // [examples]
	outHidden  = "hidden_score"   // [examples, hidden]
	outHead    = "head"           // [examples, head outputs]: of an unnamed head
	outSaid    = "said"           // [examples] int64: the likeliest next token after the state that is read
	ofHead     = "head."          // + name, [examples, outputs]
	ofScore    = "score01."       // + name, [examples]: the dimension
)

// headOutput and scoreOutput name a head's outputs, and the dimension computed from them.
func headOutput(head string) string {
	if head == "" {
		return outHead
	}
	return ofHead + head
}

func scoreOutput(head string) string {
	if head == "" {
		return outScore
	}
	return ofScore + head
}

// states decodes a batch, and returns its states h [selected, hidden] and a function that picks the read rows from a
// value of all selected rows. Heads see all selected rows: see packing.span.
func (s *Scorer) states(g *nn.Graph, spec nn.BatchSpec) (h string, read func(x string) string) {
	rows := ""
	h = g.Decode(s.net.Backbone, spec, func() string {
		if rows = g.Input(batch.InScoreRows, onnx.Int64, onnx.Dims("examples")); s.config.AddsToken() {
			return rows
		}
		return ""
	})
	return h, func(x string) string {
		if s.config.AddsToken() { // without Pick's promise about the rows: graphs of format 1 never had it
			return g.OpA("Gather", onnx.Attrs{"axis": 0}, x, rows)
		}
		return g.Pick(x, rows, 0)
	}
}

// head adds a head on top of states h. It returns its outputs z and the dimension, both for the rows that are read.
func (s *Scorer) head(g *nn.Graph, name, h string, read func(x string) string) (z, score string) {
	head := s.config.Heads[name]
	var parts []string
	for _, member := range s.config.memberPrefixes() {
		parts = append(parts, head.build(g, member+headPrefix(name), h))
	}
	if z = parts[0]; len(parts) > 1 {
		z = g.OwnMember(parts)
	}
	score = head.dimension(g, z)
	return read(z), read(score)
}

// forwardSpec selects the outputs of a forward graph besides heads and dimensions.
type forwardSpec struct {
	State  bool // the states that are read
	Next   bool // the likeliest next tokens
	Pixels bool // d (score_gradient . dimensions) / d pixel_values; the vision tower is in the graph
}

// forwardGraph is the scoring graph: all heads read every state, so that passes share batches and a session.
func (s *Scorer) forwardGraph(spec forwardSpec) exec.Recipe {
	return exec.Recipe{Name: fmt.Sprintf("score %+v", spec), Build: func(g *nn.Graph) (*nn.Program, error) {
		b, err := s.buildForward(g, spec)
		if err == nil {
			b.Packed = s.net.Plan.Prepack && !(spec.Pixels && s.config.AddsToken()) // whose gradients predate packing
		}
		return b, err
	}}
}

func (s *Scorer) buildForward(g *nn.Graph, spec forwardSpec) (*nn.Program, error) {
	h, read := s.states(g, nn.BatchSpec{Groups: 1, Vision: spec.Pixels || s.net.VisionTrained()})
	hidden, examples := onnx.Dims("examples", s.net.Backbone.Decoder().Hidden), onnx.Dims("examples")
	var dimensions, sigmas []string
	for _, name := range s.config.heads() {
		head := s.config.Heads[name]
		outputs := onnx.Dims("examples", head.width())
		if name == "" { // keeps the order of format 1 exports
			state := ""
			if spec.State {
				state = read(h)
				g.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
			}
			z, d := s.head(g, name, h, read)
			g.Output(outScore, d, onnx.Float, examples)
			if spec.State {
				g.Output(outHidden, state, onnx.Float, hidden)
			}
			g.Output(outHead, z, onnx.Float, outputs)
			if dimensions = append(dimensions, d); spec.Pixels {
				dimensions[0] = g.Op("Unsqueeze", d, g.Ints(1))
			}
			break
		}
		z, d := s.head(g, name, h, read)
		g.Output(headOutput(name), z, onnx.Float, outputs)
		g.Output(scoreOutput(name), d, onnx.Float, examples)
		dimensions = append(dimensions, g.Op("Unsqueeze", d, g.Ints(1)))
		if spec.Pixels && slices.Contains(s.config.bounded(), name) {
			sigmas = append(sigmas, g.Op("Unsqueeze", g.Op("Exp", head.logSigma(g, z, onnx.Float)), g.Ints(1)))
		}
	}
	dimensions = append(dimensions, sigmas...)
	if spec.State && !s.config.AddsToken() {
		g.Output(outHidden, read(h), onnx.Float, hidden)
	}
	if spec.Next {
		g.Output(outSaid, read(g.NextToken(s.net.Backbone.Keys(), h)), onnx.Int64, examples)
	}
	if spec.Pixels {
		gradient := g.Input(inGradient, onnx.Float, onnx.Dims("examples", len(dimensions)))
		all := g.Op("Mul", g.OpA("Concat", onnx.Attrs{"axis": 1}, dimensions...), gradient)
		all = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, all, g.Ints(0, 1))
		g.Output(nn.OutLoss, g.Op("Reshape", all, g.Ints(1)), onnx.Float, onnx.Dims(1))
	}
	out, err := g.Finish()
	if err == nil && spec.Pixels {
		out.Grads, err = g.Backward(nn.OutLoss, nn.InPixels)
	}
	return out, err
}
