// Package backbone opens Hugging Face checkpoints of vision-language models.
//
// config.json names a family (model_type), which was registered with [Register]. The family reads its part of the
// configuration and that of the image processor, and returns an [Architecture]. The architecture turns pictures into
// a [Picture] (pixels in the vision tower's layout, and the number of tokens in the text), and its tower and the
// standard decoder (package nn) into graphs. A [Backbone] is an architecture with its weights; every tensor that the
// configuration calls for is compared with the file.
//
// A new family is a folder next to llavanext and qwen2vl that calls [Register].
package backbone

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"sync"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/internal/quant"
	"assay/internal/store"
	"assay/model/nn"
)

// Architecture is an opened checkpoint of one family.
type Architecture interface {
	// Decoder describes the language model and the names of its parameters.
	Decoder() *nn.Decoder
	// HeadSizes returns the attention head sizes of the decoder and of the vision tower.
	HeadSizes() []int
	// Keys returns the names of the parameters outside the decoder's layers.
	Keys() nn.Keys
	// Placeholder is the text that represents a picture in prompts; EndOfTurn ends the answer, "" if the tokenizer
	// decides.
	Placeholder() string
	EndOfTurn() string
	// CanPair reports whether source and edit can be shown in this way.
	CanPair(pair string) bool
	// Prepare turns a picture, or the two frames of a pair shown as frames, into the vision tower's inputs.
	Prepare(frames ...*data.Picture) (*Picture, error)
	// Processing describes everything that Prepare depends on: if it is equal, so are the inputs.
	Processing() string
	// ProcessorConfig returns the sizes that Prepare and Feeds use, for programs that run an export.
	ProcessorConfig() ProcessorConfig
	// Feeds joins prepared pictures into the inputs that Vision declares. pixels are the pictures' own, joined: see
	// [JoinPixels].
	Feeds(pictures []*Picture, pixels []float32) (map[string]*tensor.Dense, error)
	// Vision declares its inputs (pixel_values first) and returns the image features [sum of tokens, feature width]: see
	// [Decoder.FeatureWidth].
	Vision(g *nn.Graph) string
	// Inputs describes Vision's inputs besides pixel_values, by name, for programs that run an export.
	Inputs() map[string]string
	// Parameters lists all tensors that the configuration calls for, with this checkpoint's names.
	Parameters() nn.Parameters
	// VisionKey reports whether a parameter belongs to the vision side (tower, projector).
	VisionKey(key string) bool
	// Positions returns the rotary positions of a sequence; nil for 1-D positions, meaning 0, 1, 2...
	Positions(ids []int64, pictures []*Picture) [][]int64
}

// Picture is one picture (or pair of frames) prepared for the vision tower.
type Picture struct {
	Height, Width int       // pixels, before the family's own resizing
	Pixels        []float32 // the family's layout
	Rows          int       // tiles or patches: the first dimension of pixel_values
	Seen          int       // patches that see each other in the tower, if that is the whole picture; else 0
	Tokens        int       // placeholder tokens it takes in the text
	Layout        any       // further family data, comparable: pictures with equal layouts can share a graph

	Key      store.Key // digest of the content
	Features []byte    // [tokens, feature width] of the network's type, once the vision tower has run
}

// JoinPixels returns the pixels of pictures, one after another.
func JoinPixels(pictures []*Picture) []float32 {
	parts := make([][]float32, len(pictures))
	for i, p := range pictures {
		parts[i] = p.Pixels
	}
	return slices.Concat(parts...)
}

// Family opens checkpoints of one model_type.
type Family func(dir string, config json.RawMessage, w *checkpoints.Weights) (Architecture, error)

var (
	familiesMu sync.RWMutex
	families   = map[string]Family{}
)

// Register registers a family under the model_type of its config.json.
func Register(modelType string, f Family) {
	familiesMu.Lock()
	defer familiesMu.Unlock()
	families[modelType] = f
}

// Backbone is a backbone with its weights and folder.
type Backbone struct {
	Architecture
	Dir     string
	Weights *checkpoints.Weights

	untied bool // see Untie
}

// Keys returns the names of the parameters outside the layers.
func (o *Backbone) Keys() nn.Keys {
	k := o.Architecture.Keys()
	if o.untied {
		k.Output, k.Twin = k.Twin, ""
	}
	return k
}

// Untie makes the output layer of a tied checkpoint a parameter of its own, as PEFT does when modules_to_save names it
// or the embedding. It returns an error unless the checkpoint stores both tables.
func (o *Backbone) Untie() error {
	if k := o.Keys(); k.Output == k.Embedding {
		if k.Twin == "" {
			return fmt.Errorf("%s: the output layer shares %s, and no table of its own is stored", o.Dir, k.Embedding)
		}
		o.untied = true
	}
	return nil
}

// OpenBackbone opens a Hugging Face checkpoint directory and checks its tensors against its configuration. Close
// releases the mapped weights.
func OpenBackbone(dir string) (*Backbone, error) {
	return openBackbone(dir, checkpoints.OpenWeights, nil)
}

// DescribeBackbone opens a checkpoint directory whose weights may be absent: their names and shapes are then derived
// from its configuration, so that graphs can be built.
func DescribeBackbone(dir string) (*Backbone, error) {
	return openBackbone(dir, checkpoints.OpenOrAbsent, nil)
}

// openBackbone opens a checkpoint directory and its weights, with the given function. amend (may be nil) modifies
// config.json.
func openBackbone(
	dir string, weights func(dir string) (*checkpoints.Weights, error),
	amend func(config json.RawMessage, w *checkpoints.Weights) (json.RawMessage, error),
) (*Backbone, error) {
	file := filepath.Join(dir, "config.json")
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, NoBackbone(dir, err)
	}
	if err := NoAdapter(dir, adapterElsewhere); err != nil {
		return nil, err
	}
	var head struct {
		ModelType string `json:"model_type"`
		storedType
		Text storedType `json:"text_config"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	familiesMu.RLock()
	open := families[head.ModelType]
	known := make([]string, 0, len(families))
	for k := range families {
		known = append(known, k)
	}
	familiesMu.RUnlock()
	if open == nil {
		sort.Strings(known)
		return nil, fmt.Errorf("%s: model_type %q is not supported%s; %s are", file, head.ModelType,
			nn.Lacking(head.ModelType), strings.Join(known, ", "))
	}
	packing, raw, err := quant.Split(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	w, err := weights(dir)
	if err != nil {
		return nil, err
	}
	config := json.RawMessage(raw)
	if amend != nil {
		config, err = amend(config, w)
	}
	if err == nil && packing != nil {
		err = packing.Find(w)
	}
	var b Architecture
	if err == nil {
		b, err = open(dir, config, w)
	}
	if err == nil {
		declarePacked(b, w, packing)
		err = fit(b.Parameters(), w, head.storedType.or(head.Text))
	}
	if err != nil {
		w.Close()
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return &Backbone{Architecture: b, Dir: dir, Weights: w}, nil
}

// Close releases the weights.
func (o *Backbone) Close() error { return o.Weights.Close() }

// PictureTokens returns the number of tokens of each picture.
func PictureTokens(pictures []*Picture) []int {
	counts := make([]int, len(pictures))
	for i, q := range pictures {
		counts[i] = q.Tokens
	}
	return counts
}

// PrepareAdjoint is implemented by an [Architecture] that can return gradients of the original pictures. It is the
// transpose of the linear map in Prepare (resizing, tiling or patching, normalisation): from grad, in the layout of
// p.Pixels, it computes the gradient of each frame that p was prepared from.
type PrepareAdjoint interface {
	PrepareAdjoint(p *Picture, frames int, grad []float32) ([]*data.Gradient, error)
}

// Twin returns the picture without features, which are set and cleared: see Fill in package exec.
func (p *Picture) Twin() *Picture {
	return &Picture{
		Height: p.Height,
		Width:  p.Width,
		Pixels: p.Pixels,
		Rows:   p.Rows,
		Seen:   p.Seen,
		Tokens: p.Tokens,
		Layout: p.Layout,
		Key:    p.Key,
	}
}

// Bytes returns the memory of its pixels and features.
func (p *Picture) Bytes() int64 { return int64(len(p.Features) + 4*len(p.Pixels)) }

// Ways of showing a source and its edit to a backbone: see [Architecture.CanPair].
const (
	Sequence = "sequence" // two pictures, source first
	Concat   = "concat"   // one picture, source left
	Frames   = "frames"   // one picture entry of two frames
)
