// Package encoders turns pictures and texts into embeddings with CLIP and DINOv2: Hugging Face checkpoints, built as
// ONNX graphs here, or exported ONNX graphs. Pictures are preprocessed as in transformers, and embedded in batches
// while the next batch is decoded. Built on this are embeddings stored on disk ([Cached]), the similarities that
// edits are labelled with ([Measurer]), judges by similarity ([Similarity]), and contrastive training ([Tuner]).
package encoders

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/internal/strictjson"
	"assay/model/backbone"
	"assay/model/nn"
	"assay/onnx"
)

// Encoder embeds pictures and texts in one vector space. Embeddings are not normalised.
type Encoder interface {
	// Images returns one embedding per picture: for CLIP visual_projection(post_layernorm(class token)), for DINOv2
	// the final LayerNorm of the class token.
	Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error)
	// Texts returns one embedding per text: text_projection(final_layer_norm(state at the end token)). An encoder
	// without a text tower returns ErrNoTexts.
	Texts(ctx context.Context, texts []string) ([][]float32, error)
}

// ErrNoTexts is returned when texts are passed to an encoder without a text tower.
var ErrNoTexts = errors.New("the encoder has no text tower")

// Options configure where and how an encoder runs.
type Options struct {
	Device   string // cpu (default), cuda:N, auto
	Threads  int    // CPU threads; 0: ONNX Runtime's default, one per physical core
	Batch    int    // pictures or texts per run; 0: 32
	Kind     string // CLIP or DINO: the required kind, checked if the encoder declares one; "": either
	Weights  string // folder or .safetensors file with other weights for a checkpoint; "": its own
	NoImages bool   // no session for pictures: only ImageGraph is used
}

// The kinds of encoders. Their similarities are not comparable.
const (
	CLIP = "CLIP"
	DINO = "DINOv2"
)

// Model is an opened encoder. It is safe for concurrent use.
type Model struct {
	path        string
	kind        string // CLIP or DINO; "": an ONNX file that does not declare it
	processor   *processor
	images      *tower
	texts       *textTower // nil: none
	batch       int
	fingerprint string                   // the data that Fingerprint hashes
	weights     *checkpoints.Weights     // nil for .onnx files
	towers      towers                   // builders of the graphs
	dropout     float64                  // training dropout from the configuration
	trained     map[string]*tensor.Dense // parameters of a Tuner by name; nil: the weights are constants of the graphs
}

var _ Encoder = (*Model)(nil)

// Open opens a CLIP or DINOv2 checkpoint directory (model_type clip, clip_vision_model, dinov2,
// dinov2_with_registers), or an exported graph in an .onnx file: see openFile for its requirements.
func Open(path string, o Options) (*Model, error) {
	o.Batch = cmp.Or(o.Batch, 32)
	var m *Model
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case !info.IsDir() && strings.EqualFold(filepath.Ext(path), ".onnx"):
		m, err = openFile(path, o)
	case !info.IsDir():
		err = errors.New("want a checkpoint directory or an .onnx file")
	default:
		m, err = openCheckpoint(path, o)
	}
	if err == nil && o.Kind != "" && m.kind != "" && m.kind != o.Kind {
		err = errors.Join(fmt.Errorf("it is a %s encoder, want %s", m.kind, o.Kind), m.Close())
	}
	if err != nil {
		return nil, fmt.Errorf("encoder %s: %w", path, err)
	}
	return m, nil
}

// towers build the parts of a checkpoint's architecture as a graph over weights: they declare the inputs and return
// the embedding, [pictures or texts, width].
type towers struct {
	weights nn.Weights
	images  func(g *nn.Graph) (embedding string, width int64, err error)
	texts   func(g *nn.Graph) (embedding string, width int64, err error) // nil: none
}

// family reads the configuration of one architecture, config.json, and opens the tokenizer if there is one.
type family func(m *Model, o *strictjson.Object) (towers, error)

// families are the architectures by model_type.
var families = map[string]struct {
	kind string // CLIP or DINO
	read family
}{"clip": {CLIP, readCLIP}, "clip_vision_model": {CLIP, readCLIP}, "dinov2": {DINO, readDINO},
	"dinov2_with_registers": {DINO, readDINO}}

func openCheckpoint(dir string, o Options) (*Model, error) {
	m, t, err := readCheckpoint(dir, o)
	if err != nil {
		return nil, err
	}
	if err := m.openTowers(t, o); err != nil {
		m.Close()
		return nil, err
	}
	if err := m.unread(); err != nil {
		m.Close()
		return nil, err
	}
	print, err := backbone.Fingerprint(dir, m.weights)
	if err != nil {
		m.Close()
		return nil, err
	}
	m.fingerprint = fmt.Sprintf("%s %+v %d", print, *m.processor, m.texts.limit())
	return m, nil
}

// readCheckpoint opens everything in a checkpoint except the sessions.
func readCheckpoint(dir string, o Options) (*Model, towers, error) {
	file := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, towers{}, err
	}
	var c struct {
		ModelType string `json:"model_type"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return nil, towers{}, fmt.Errorf("%s: %w", file, err)
	}
	known, ok := families[c.ModelType]
	if !ok {
		return nil, towers{}, fmt.Errorf("%s: model_type %q is not a supported encoder (clip, clip_vision_model, dinov2, "+
			"dinov2_with_registers)", file, c.ModelType)
	}
	err = backbone.NoAdapter(dir, "Merge the adapter with PEFT's merge_and_unload, or move it to a folder of its own")
	if err != nil {
		return nil, towers{}, err
	}
	m := &Model{path: dir, batch: o.Batch, kind: known.kind}
	if m.processor, err = readProcessor(dir); err != nil {
		return nil, towers{}, err
	}
	if m.weights, err = checkpoints.OpenWeightsAt(cmp.Or(o.Weights, dir)); err != nil {
		return nil, towers{}, err
	}
	object, err := strictjson.Parse(file, raw)
	if err != nil {
		m.Close()
		return nil, towers{}, err
	}
	if m.towers, err = known.read(m, object); err != nil {
		m.Close()
		return nil, towers{}, err
	}
	return m, m.towers, nil
}

// besides matches tensors that are not part of the towers: CLIP's logit scale, DINOv2's mask token, buffers stored by
// older versions of transformers, and classifiers.
var besides = regexp.MustCompile(`^logit_scale$|mask_token$|position_ids$|^classifier\.`)

// unread is an error if the checkpoint holds tensors that the towers do not use: the configuration does not match.
func (m *Model) unread() error {
	names := slices.DeleteFunc(m.weights.Unread(), besides.MatchString)
	if m.texts == nil { // only a vision tower
		names = slices.DeleteFunc(names, func(name string) bool { return strings.HasPrefix(name, "text_") })
	}
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("config.json does not account for tensor %s (%d unused tensors in total)", names[0], len(names))
}

// openTowers opens the sessions for pictures and texts.
func (m *Model) openTowers(t towers, o Options) (err error) {
	if o.NoImages {
		_, _, _, err = m.ImageGraph("images") // marks the tower's tensors as read
	} else {
		m.images, err = m.openTower(t, "images", inPixels, t.images, o)
	}
	if err != nil || t.texts == nil {
		return err
	}
	texts, err := m.openTower(t, "texts", inIDs, t.texts, o)
	if err != nil {
		return err
	}
	m.texts.tower = *texts
	return nil
}

func (m *Model) openTower(t towers, of, input string, build func(*nn.Graph) (string, int64, error),
	o Options) (*tower, error) {
	g := m.graph(of, t)
	x, width, err := build(g)
	if err != nil {
		return nil, err
	}
	g.Output(outEmbedding, x, onnx.Float, onnx.Dims(of, width))
	s, err := m.OpenGraph(g, o, false)
	if err != nil {
		return nil, err
	}
	params, err := m.values(g)
	return &tower{Session: s, input: input, output: outEmbedding, params: params, weights: m.weights}, err
}

// graph starts a graph over the checkpoint's weights, which are inputs in a [Tuner].
func (m *Model) graph(name string, t towers) *nn.Graph {
	if m.trained != nil {
		return nn.NewTrainedGraph(name, t.weights)
	}
	return nn.NewGraph(name, t.weights)
}

// values returns the trained parameters of a graph by name, loading them on first use.
func (m *Model) values(g *nn.Graph) (map[string]*tensor.Dense, error) {
	in := make(map[string]*tensor.Dense, len(g.Params))
	for _, p := range g.Params {
		if m.trained[p.Name] == nil {
			t, err := m.weights.Dense(p.Name)
			if err != nil {
				return nil, err
			}
			m.trained[p.Name] = t
		}
		in[p.Name] = m.trained[p.Name]
	}
	return in, nil
}

// HasTexts reports whether the model has a text tower.
func (m *Model) HasTexts() bool { return m.texts != nil }

// Fingerprint identifies the model, its preprocessing and its tokenizer.
func (m *Model) Fingerprint() string {
	sum := sha256.Sum256([]byte(m.fingerprint))
	return hex.EncodeToString(sum[:10])
}

// Close frees the sessions, the tokenizer and the weights.
func (m *Model) Close() error {
	var errs []error
	if m.images != nil {
		errs = append(errs, m.images.Close())
	}
	if m.texts != nil {
		errs = append(errs, m.texts.Close())
	}
	if m.weights != nil {
		errs = append(errs, m.weights.Close())
	}
	return errors.Join(errs...)
}

// shape returns the shape of a parameter, which must match want; 0 in want matches any size.
func shape(w nn.Weights, name string, want ...int64) ([]int64, error) {
	t, err := w.Tensor(name)
	if err != nil {
		return nil, err
	}
	ok := len(t.Shape) == len(want)
	for i := 0; ok && i < len(want); i++ {
		ok = want[i] == 0 || want[i] == t.Shape[i]
	}
	if !ok || t.Type == onnx.Undefined {
		return nil, fmt.Errorf("%s has shape %v, which does not fit (want %v, 0 for any size)", name, t.Shape, want)
	}
	return t.Shape, nil
}

// values returns the values of a floating-point parameter.
func values(w nn.Weights, name string) ([]float32, error) {
	t, err := w.Dense(name)
	if err != nil {
		return nil, err
	}
	v, ok := t.Data().([]float32)
	if !ok {
		return nil, fmt.Errorf("%s holds %v, not floating-point numbers", name, t.Dtype())
	}
	return v, nil
}
