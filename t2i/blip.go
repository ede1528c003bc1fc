package t2i

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/encoders"
	"assay/internal/strictjson"
	"assay/internal/tokens"
	"assay/metrics"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// ImageReward's number is (x - mean)/deviation of the head's x.
const (
	imageRewardMean      = 0.16717362830052426
	imageRewardDeviation = 1.0333394966054072
)

const (
	inIDs      = "input_ids" // [pictures, length] int64
	maxTokens  = 35          // tokens of a text; longer texts are truncated
	visionEps  = 1e-6
	visionHead = 64 // width of a head of the vision tower
)

// blip is ImageReward: BLIP's vision tower, a BERT over the text with cross-attention to its rows, and linear layers
// over the state of the first token. Nothing is padded: the authors' code masks padding.
type blip struct {
	dir       string
	o         Options
	weights   *checkpoints.Weights
	tokenizer *tokens.Tokenizer
	print     string

	vision             nn.ViT
	depth, patch, side int // layers, pixels
	text               bertConfig
}

// bertConfig holds the relevant settings of med_config.json.
type bertConfig struct {
	Hidden, Intermediate, Layers, Heads, Vocab, Positions int
	Activation                                            string
	Eps                                                   float64
}

// bertHarmless are keys of med_config.json that do not affect any number here.
var bertHarmless = strictjson.Harmless{
	"architectures": nil, "attention_probs_dropout_prob": nil, "hidden_dropout_prob": nil, "initializer_range": nil,
	"model_type": nil, "pad_token_id": nil, "type_vocab_size": nil, "encoder_width": nil, "fusion_layer": nil,
	"add_cross_attention": {true}, "transformers_version": nil,
}

func (c *bertConfig) read(o *strictjson.Object) error {
	nn.ReadSizes(o, map[string]*int{
		"hidden_size": &c.Hidden, "intermediate_size": &c.Intermediate, "num_hidden_layers": &c.Layers,
		"num_attention_heads": &c.Heads, "vocab_size": &c.Vocab, "max_position_embeddings": &c.Positions,
	})
	o.Get("hidden_act", &c.Activation)
	nn.CheckActivation(o, "hidden_act", c.Activation)
	o.Get("layer_norm_eps", &c.Eps)
	if c.Heads > 0 && c.Hidden%c.Heads != 0 {
		o.Failf("hidden_size", "%d attention heads do not divide a width of %d evenly", c.Heads, c.Hidden)
	}
	o.Close(bertHarmless, nn.Legacy)
	return o.Err()
}

func openBLIP(c *Config, o Options) (network, *encoders.Processor, error) {
	n := &blip{dir: c.Model, o: o}
	err := n.read()
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	return n, encoders.NewProcessor(n.side, c.Preprocessing), nil
}

// read reads configuration, weights and tokenizer.
func (n *blip) read() (err error) {
	if n.weights, err = checkpoints.OpenWeights(n.dir); err != nil {
		return err
	}
	file := filepath.Join(n.dir, "config.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	o, err := strictjson.Parse(file, raw)
	if err != nil {
		return err
	}
	if err := n.text.read(o); err != nil {
		return err
	}
	if err := n.measure(); err != nil {
		return fmt.Errorf("%s: %w", n.dir, err)
	}
	if err := n.checkTensors(); err != nil {
		return fmt.Errorf("%s: %w", n.dir, err)
	}
	if n.tokenizer, err = bertTokenizer(filepath.Join(n.dir, "tokenizer.json")); err != nil {
		return err
	}
	n.print, err = backbone.Fingerprint(n.dir, n.weights)
	return err
}

// measure reads the sizes of the vision tower from its tensors. BLIP's heads are 64 wide, in both of its sizes.
func (n *blip) measure() error {
	conv, ok := n.weights.Info("vision_model.embeddings.patch_embedding.weight")
	places, found := n.weights.Info("vision_model.embeddings.position_embedding.weight")
	if !ok || !found || len(conv.Shape) != 4 || len(places.Shape) != 2 || conv.Shape[2] != conv.Shape[3] {
		return errors.New("the weights contain no vision tower of BLIP")
	}
	hidden := int(conv.Shape[0])
	if hidden%visionHead != 0 {
		return fmt.Errorf("the vision tower has a width of %d: BLIP's heads are %d wide", hidden, visionHead)
	}
	n.patch = int(conv.Shape[2])
	across := 0
	for across*across+1 < int(places.Shape[0]) {
		across++
	}
	if across*across+1 != int(places.Shape[0]) {
		return fmt.Errorf("%d positions are not a square of patches and a class token", places.Shape[0])
	}
	n.side = across * n.patch
	n.depth = depthOf(n.weights.Names())
	n.vision = nn.ViT{Hidden: hidden, Heads: hidden / visionHead, Activation: "gelu", Eps: visionEps, Key: "vision_model."}
	return nil
}

// bertTokenizer opens BERT's tokenizer, which truncates texts to 35 tokens including [CLS] and [SEP].
func bertTokenizer(path string) (*tokens.Tokenizer, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(raw, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	file["padding"] = json.RawMessage("null")
	file["truncation"] = fmt.Appendf(nil, `{"direction":"Right","max_length":%d,"strategy":"LongestFirst","stride":0}`,
		maxTokens)
	if raw, err = json.Marshal(file); err != nil {
		return nil, err
	}
	t, err := tokens.New(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

func (n *blip) fingerprint() (string, error) { return n.print, nil }

func (n *blip) open(g *nn.Graph, lean bool) (*ort.Session, error) {
	o := ort.Options{Device: n.o.Device, Threads: n.o.Threads, NoSpin: true, LowMemory: lean}
	return ort.OpenOver(n.weights, g.M, o)
}

// Close frees tokenizer and weights.
func (n *blip) Close() error {
	var errs []error
	if n.tokenizer != nil {
		errs = append(errs, n.tokenizer.Close())
	}
	if n.weights != nil {
		errs = append(errs, n.weights.Close())
	}
	return errors.Join(errs...)
}

// feeds returns the tokens of a text.
func (n *blip) feeds(_ context.Context, text string) (map[string]*tensor.Dense, error) {
	ids, err := n.tokenizer.Encode(text, true)
	if err != nil {
		return nil, err
	}
	row := make([]int64, len(ids))
	for i, id := range ids {
		if row[i] = int64(id); row[i] >= int64(n.text.Vocab) {
			return nil, fmt.Errorf("the tokenizer has token %d, but the model has %d tokens: the two do not match",
				id, n.text.Vocab)
		}
	}
	if len(row) == 0 || len(row) > n.text.Positions {
		return nil, fmt.Errorf("the text %.40q has %d tokens, want 1 to %d", text, len(row), n.text.Positions)
	}
	return map[string]*tensor.Dense{inIDs: tensor.New(tensor.WithShape(1, len(row)), tensor.WithBacking(row))}, nil
}

// rows are the concatenated rows of several segments, [segments*length, width].
type rows struct {
	x     string
	shape string // of the separate segments: [segments, length, width]
}

// apart reshapes values of the rows to separate segments.
func (r *rows) apart(g *nn.Graph, x string, width int) string {
	return g.Op("Reshape", x, g.OpA("Concat", onnx.Attrs{"axis": 0}, g.Op("Slice", r.shape, g.Ints(0), g.Ints(2)),
		g.Ints(int64(width))))
}

// graph builds pixels and tokens -> ((layers over the first token's state) - mean)/deviation.
func (n *blip) graph() (*nn.Graph, error) {
	g := nn.NewGraph(imageReward, n.weights)
	pixels := g.Input(encoders.Pixels, onnx.Float, onnx.Dims("pictures", 3, n.side, n.side))
	text := n.readText(g, n.look(g, pixels))
	x := text.apart(g, text.x, n.text.Hidden)
	x = g.OpA("Gather", onnx.Attrs{"axis": 1}, x, g.Int(0)) // [pictures, hidden]
	x, err := metrics.LinearHead(g.Builder, n.weights, x, int64(n.text.Hidden))
	if err != nil {
		return nil, err
	}
	x = g.Op("Sub", g.Op("Reshape", x, g.Ints(-1)), g.Scalar(onnx.Float, imageRewardMean))
	addScore(g, g.Op("Div", x, g.Scalar(onnx.Float, imageRewardDeviation)))
	return g, g.Err()
}

// look runs the vision tower: a class token and patches of each picture.
func (n *blip) look(g *nn.Graph, pixels string) *rows {
	const key = "vision_model.embeddings."
	v, across := n.vision, n.side/n.patch
	class := g.Op("Reshape", g.Param(key+"class_embedding"), g.Ints(1, 1, -1))
	cut := nn.Patches{Size: n.patch, Height: n.side, Width: n.side}
	x := v.Embed(g, pixels, cut, key+"patch_embedding", class, g.Param(key+"position_embedding.weight"))
	r := &rows{shape: g.Shape(g.SizeOf(pixels, 0), across*across+1, v.Hidden)}
	x = g.Op("Reshape", x, g.Ints(-1, int64(v.Hidden)))
	for i := range n.depth {
		x = v.Layer(g, x, i, nn.Span{Shape: r.shape})
	}
	r.x = g.LayerNorm(x, "vision_model.post_layernorm", v.Eps)
	return r
}

// readText runs BERT, whose layers attend to the picture after their self-attention. Its sums are normalised
// (post-norm).
func (n *blip) readText(g *nn.Graph, picture *rows) *rows {
	const key = "text_model.embeddings."
	c := &n.text
	ids := g.Input(inIDs, onnx.Int64, onnx.Dims("pictures", "length"))
	x := g.OpA("Gather", onnx.Attrs{"axis": 0}, g.Param(key+"word_embeddings.weight"), ids)
	x = g.Op("Add", x, g.Op("Slice", g.Param(key+"position_embeddings.weight"), g.Ints(0), g.SizeOf(ids, 1)))
	t := &rows{shape: g.Shape(g.SizeOf(ids, 0), g.SizeOf(ids, 1), c.Hidden)}
	t.x = g.LayerNorm(g.Op("Reshape", x, g.Ints(-1, int64(c.Hidden))), key+"LayerNorm", c.Eps)
	for i := range c.Layers {
		at := fmt.Sprintf("text_model.encoder.layer.%d.", i)
		n.attend(g, at+"attention.", t, t)
		n.attend(g, at+"crossattention.", t, picture)
		y := g.Activation(g.Linear(t.x, at+"intermediate.dense", ""), c.Activation)
		n.add(g, at, t, y)
	}
	return t
}

// attend adds attention from the text to some rows.
func (n *blip) attend(g *nn.Graph, at string, text, to *rows) {
	width := n.text.Hidden
	q := text.apart(g, g.Linear(text.x, at+"self.query", ""), width)
	k := to.apart(g, g.Linear(to.x, at+"self.key", ""), width)
	v := to.apart(g, g.Linear(to.x, at+"self.value", ""), width)
	n.add(g, at, text, g.Attend(q, k, v, "", n.text.Heads, width/n.text.Heads))
}

// add sets the text to LayerNorm(text + output(y)).
func (n *blip) add(g *nn.Graph, at string, text *rows, y string) {
	sum := g.Op("Add", g.Linear(y, at+"output.dense", ""), text.x)
	text.x = g.LayerNorm(sum, at+"output.LayerNorm", n.text.Eps)
}
