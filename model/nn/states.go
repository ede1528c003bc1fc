package nn

import "assay/onnx"

// Names of graph inputs and outputs that are not tensors of the checkpoint or of the scorer.
const (
	InTextIDs     = "text_ids"     // [text tokens] int64: ordinary tokens, without placeholders and score tokens
	InDropoutSeed = "dropout_seed" // int64 [1], of fused dropout

	InFeatures  = "image_features" // [image tokens, feature width]
	InPixels    = "pixel_values"   // the first vision input of every family: its gradient is the pixel gradient
	InOrder     = "order"          // [rows] int64: row of concat(text rows, score rows, image rows) at each place
	InPositions = "position_ids"   // [axes, rows] int64
	OutLoss     = "loss"           // [1]: weighted sum
)

// Program is a finished graph with the names that the caller needs.
type Program struct {
	Model  *onnx.Model
	Params []Param           // trained inputs
	Grads  map[string]string // parameter -> output
	Sums   bool              // gradients are added to sums instead
	Sites  int               // LoRA layers with dropout
	Widest int               // widest input among them

	Packed bool            // weights are prepacked for the CPU's products: one row is as exact as many
	Bound  map[string]bool // inputs and outputs that are in device memory
}

// Finish takes a graph's model, parameters and dropout sites; the error is the first one met while building.
func (g *Graph) Finish() (*Program, error) {
	if g.err != nil {
		return nil, g.err
	}
	out := &Program{Model: g.M, Params: g.Params, Grads: map[string]string{}}
	if g.dropout != nil {
		out.Sites, out.Widest = g.dropout.sites, g.dropout.widest
	}
	return out, nil
}

// VLM is a vision-language model that graphs are built from.
type VLM interface {
	Decoder() *Decoder
	Keys() Keys
	Vision(g *Graph) string // declares its inputs and returns the image features [tokens, feature width]
}

// BatchSpec describes which rows of a packed batch enter the decoder.
type BatchSpec struct {
	Groups int  // of sequences of equal length, see Packing
	All    bool // every row is selected
	Vision bool // pixels are inputs; otherwise the image features are
}

// Decode runs a packed batch through embedding, vision tower and decoder: the states of its selected rows
// [selected, hidden]. inputs (may be nil) declares further inputs before the pictures', and returns the rows of score
// tokens that have their own embeddings; "": there are none.
func (g *Graph) Decode(b VLM, s BatchSpec, inputs func() (scoreRows string)) string {
	dec := b.Decoder()
	ids := g.Input(InTextIDs, onnx.Int64, onnx.Dims("text_tokens"))
	order := g.Input(InOrder, onnx.Int64, onnx.Dims("rows"))
	p := NewPacking(g, s.Groups, !s.All)
	g.useMembers(p.Select)
	scoreRows, features := "", ""
	if inputs != nil {
		scoreRows = inputs()
	}
	if s.Vision {
		g.Scoped("vision", func() { features = b.Vision(g) })
	} else {
		features = g.Features(dec)
	}
	x := g.Embed(b.Keys(), dec, p, ids, order, scoreRows, features)
	return dec.Forward(g, x, dec.Rotary(g), p)
}

// Features declares the vision features as an input, in the type of the large products, and returns them as float32.
func (g *Graph) Features(dec *Decoder) string {
	f := g.Input(InFeatures, g.Compute, onnx.Dims("image_tokens", dec.FeatureWidth()))
	if g.Compute == onnx.Float {
		return f
	}
	g.SizeOf(f, 0) // gradients read the number, or the float32 values would stay in memory for it
	return g.Wide(f)
}

// NextToken returns the most likely token after each state, [rows]; the first one on a tie.
func (g *Graph) NextToken(keys Keys, h string) string {
	logits := g.Wide(g.OpA("Gemm", onnx.Attrs{"transB": 1}, g.Narrow(h), g.param(keys.Output, g.Compute)))
	return g.OpA("ArgMax", onnx.Attrs{"axis": 1, "keepdims": 0}, logits)
}

// Embed returns the rows that enter the decoder [rows, hidden]: token embeddings, the score token's row (without
// scoreRows there is none), image features. The features that are added after layers become part of p.
func (g *Graph) Embed(keys Keys, dec *Decoder, p *Packing, ids, order, scoreRows, features string) string {
	table, stored := g.embeddingTable(keys.Embedding)
	text := g.OpA("Gather", onnx.Attrs{"axis": 0}, table, ids)
	if stored != onnx.Float {
		text = g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, text)
	}
	parts := []string{text}
	if scoreRows != "" {
		parts = append(parts, g.scoreTokens(scoreRows, dec.Hidden))
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

// embeddingTable leaves the table in its stored type if LowMemory is set: rows are widened after they are gathered.
func (g *Graph) embeddingTable(key string) (table string, t onnx.DType) {
	t = g.Compute
	if w, err := g.weights.Tensor(key); err == nil && g.LowMemory && !g.own(key) {
		t = w.Type
	}
	return g.param(key, t), t
}
