package model

import (
	"fmt"

	"assay/onnx"
)

// Names of graph inputs and outputs that are not tensors of the checkpoint or the scorer.
const (
	inTextIDs   = "text_ids"       // [text tokens] int64: ordinary tokens, without placeholders and score tokens
	inFeatures  = "image_features" // [image tokens, feature width]
	inPixels    = "pixel_values"   // the first vision input of every family: its gradient is the pixel gradient
	inOrder     = "order"          // [rows] int64: row of concat(text rows, score rows, image rows) at each place
	inPositions = "position_ids"   // [axes, rows] int64
	inScoreRows = "score_rows"     // [examples] int64: selected rows whose states are read
	inGradient  = "score_gradient" // [examples, heads]: d score / d dimension, heads sorted by name
	outScore    = "score01"        // [examples]
	outHidden   = "hidden_score"   // [examples, hidden]
	outHead     = "head"           // [examples, head outputs]: of a head without a name
	outSaid     = "said"           // [examples] int64: the likeliest next token behind the state that is read
	outLoss     = "loss"           // [1]: weighted sum
	ofHead      = "head."          // + name, [examples, outputs]
	ofScore     = "score01."       // + name, [examples]: the dimension
)

// headOutput and scoreOutput name what a head gives, and the dimension made of it.
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

// built is a finished graph with the names that the caller needs.
type built struct {
	Model  *onnx.Model
	Params []Param           // trained inputs
	Grads  map[string]string // parameter -> output
	Sums   bool              // gradients are added to sums instead
	Sites  int               // LoRA layers with dropout
	Widest int               // widest input among them

	packed bool            // weights are kept as the processor multiplies them: one row is as exact as many
	Bound  map[string]bool // inputs and outputs that lie in memory of the device
}

// finish takes a graph's model, parameters and dropout sites; the error is the first one met while building.
func (g *Graph) finish() (*built, error) {
	if g.err != nil {
		return nil, g.err
	}
	out := &built{Model: g.M, Params: g.Params, Grads: map[string]string{}}
	if g.dropout != nil {
		out.Sites, out.Widest = g.dropout.sites, g.dropout.widest
	}
	return out, nil
}

// batchSpec says which rows of a packed batch enter the decoder.
type batchSpec struct {
	Groups int  // of sequences of equal length, see Packing
	All    bool // every row is selected
	Vision bool // pixels are inputs; otherwise the image features are
}

// decode runs a packed batch through embedding, vision tower and decoder: the states of its selected rows
// [selected, hidden]. inputs (may be nil) declares further inputs before the pictures', and returns the rows of score
// tokens that have embeddings of their own; "": there are none.
func (g *Graph) decode(b Architecture, s batchSpec, inputs func() (scoreRows string)) string {
	dec := b.Decoder()
	ids := g.Input(inTextIDs, onnx.Int64, onnx.Dims("text_tokens"))
	order := g.Input(inOrder, onnx.Int64, onnx.Dims("rows"))
	p := newPacking(g, s.Groups, !s.All)
	scoreRows, features := "", inFeatures
	if inputs != nil {
		scoreRows = inputs()
	}
	if s.Vision {
		g.Scoped("vision", func() { features = b.Vision(g) })
	} else {
		g.Input(inFeatures, onnx.Float, onnx.Dims("image_tokens", dec.FeatureWidth()))
	}
	x := g.embed(b.Keys(), dec, p, ids, order, scoreRows, features)
	return dec.Forward(g, x, dec.Rotary(g), p)
}

// states decodes a batch, and returns with its states h [selected, hidden] a function that takes the read rows out of a
// value of all selected rows. Heads see all selected rows: see packing.span.
func (n *network) states(g *Graph, s batchSpec) (h string, read func(x string) string) {
	rows := ""
	h = g.decode(n.backbone, s, func() string {
		if rows = g.Input(inScoreRows, onnx.Int64, onnx.Dims("examples")); n.config.AddsToken() {
			return rows
		}
		return ""
	})
	return h, func(x string) string {
		if n.config.AddsToken() { // without a promise about the rows, as graphs of format 1 have always been
			return g.OpA("Gather", onnx.Attrs{"axis": 0}, x, rows)
		}
		return g.Pick(x, rows, 0)
	}
}

// head adds a head over states h: what it gives, z, and the dimension made of it, of the rows that are read.
func (n *network) head(g *Graph, name, h string, read func(x string) string) (z, score string) {
	head := n.config.Heads[name]
	z, score = head.build(g, name, h)
	return read(z), read(score)
}

// forwardSpec says what a forward graph gives besides heads and dimensions.
type forwardSpec struct {
	State  bool // the states that are read
	Next   bool // the likeliest next tokens
	Pixels bool // d (score_gradient . dimensions) / d pixel_values; the vision tower is in the graph
}

// forwardGraph is the graph of scoring: all heads read every state, so that passes share batches and a session.
func (n *network) forwardGraph(s forwardSpec) (name string, build buildFunc) {
	return fmt.Sprintf("score %+v", s), func(g *Graph) (*built, error) {
		b, err := n.buildForward(g, s)
		if err == nil {
			b.packed = n.prepack && !(s.Pixels && n.config.AddsToken()) // whose gradients are older than packing
		}
		return b, err
	}
}

func (n *network) buildForward(g *Graph, s forwardSpec) (*built, error) {
	h, read := n.states(g, batchSpec{Groups: 1, Vision: s.Pixels || n.visionTrained()})
	hidden, examples := onnx.Dims("examples", n.backbone.Decoder().Hidden), onnx.Dims("examples")
	var dimensions []string
	for _, name := range n.config.heads() {
		head := n.config.Heads[name]
		outputs := onnx.Dims("examples", head.width())
		if name == "" { // in the order that exports of format 1 have always had
			state := ""
			if s.State {
				state = read(h)
				g.Last().Meta = map[string]string{onnx.MetaUnique: "true"}
			}
			z, d := n.head(g, name, h, read)
			g.Output(outScore, d, onnx.Float, examples)
			if s.State {
				g.Output(outHidden, state, onnx.Float, hidden)
			}
			g.Output(outHead, z, onnx.Float, outputs)
			if dimensions = append(dimensions, d); s.Pixels {
				dimensions[0] = g.Op("Unsqueeze", d, g.Ints(1))
			}
			break
		}
		z, d := n.head(g, name, h, read)
		g.Output(headOutput(name), z, onnx.Float, outputs)
		g.Output(scoreOutput(name), d, onnx.Float, examples)
		dimensions = append(dimensions, g.Op("Unsqueeze", d, g.Ints(1)))
	}
	if s.State && !n.config.AddsToken() {
		g.Output(outHidden, read(h), onnx.Float, hidden)
	}
	if s.Next {
		g.Output(outSaid, read(g.nextToken(n.backbone.Keys(), h)), onnx.Int64, examples)
	}
	if s.Pixels {
		gradient := g.Input(inGradient, onnx.Float, onnx.Dims("examples", len(dimensions)))
		all := g.Op("Mul", g.OpA("Concat", onnx.Attrs{"axis": 1}, dimensions...), gradient)
		all = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 1}, all, g.Ints(0, 1))
		g.Output(outLoss, g.Op("Reshape", all, g.Ints(1)), onnx.Float, onnx.Dims(1))
	}
	out, err := g.finish()
	if err == nil && s.Pixels {
		out.Grads, err = g.Backward(outLoss, inPixels)
	}
	return out, err
}

// nextToken is the likeliest token behind each state, [rows]; the first one on a tie.
func (g *Graph) nextToken(keys Keys, h string) string {
	logits := g.wide(g.OpA("Gemm", onnx.Attrs{"transB": 1}, g.narrow(h), g.param(keys.Output, g.compute)))
	return g.OpA("ArgMax", onnx.Attrs{"axis": 1, "keepdims": 0}, logits)
}

// embed returns the rows that enter the decoder [rows, hidden]: token embeddings, the score token's row (without
// scoreRows there is none), image features. What of the features is added behind layers becomes part of p.
func (g *Graph) embed(keys Keys, dec *Decoder, p *Packing, ids, order, scoreRows, features string) string {
	table, stored := g.embeddingTable(keys.Embedding)
	text := g.OpA("Gather", onnx.Attrs{"axis": 0}, table, ids)
	if stored != onnx.Float {
		text = g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, text)
	}
	parts := []string{text}
	if scoreRows != "" {
		row := g.Op("Unsqueeze", g.ScorerTensor("score_token.embedding"), g.Ints(0))
		row = g.Op("Expand", row, g.Shape(g.SizeOf(scoreRows, 0), dec.Hidden))
		parts = append(parts, row)
	}
	rows := func(parts ...string) string {
		return g.Pick(g.OpA("Concat", onnx.Attrs{"axis": 0}, parts...), order, 0)
	}
	if dec.Deepstack > 0 {
		n := 1 + dec.Deepstack
		blocks := g.Node("", "Split", n, onnx.Attrs{"axis": 1, "num_outputs": n}, features)
		words := g.SizeOf(text, 0)
		if scoreRows != "" {
			words = g.Op("Add", words, g.SizeOf(scoreRows, 0))
		}
		nothing := g.Op("Expand", g.Scalar(onnx.Float, 0), g.Shape(words, dec.Hidden))
		for _, block := range blocks[1:min(n, 1+dec.Layers)] {
			p.Deepstack = append(p.Deepstack, rows(nothing, block))
		}
		features = blocks[0]
	}
	return rows(append(parts, features)...)
}

// embeddingTable leaves the table in its stored type where that is wanted: rows are widened after they are gathered.
func (g *Graph) embeddingTable(key string) (table string, t onnx.DType) {
	t = g.compute
	if w, err := g.weights.Tensor(key); err == nil && g.lean && !g.own(key) {
		t = w.Type
	}
	return g.param(key, t), t
}
