package t2i

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/encoders"
	"assay/internal/store"
	"assay/metrics"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// inText is the input of a text's embedding, normalised to length 1: [pictures, width].
const inText = "text"

// clip is a reward over the embeddings of a CLIP: their cosine, or layers on top of the picture's.
type clip struct {
	*encoders.Model
	config *Config
	o      encoders.Options
	scale  float64 // of the cosine
	head   string  // digest of the head's file when it was opened; "": none

	mu    sync.Mutex
	texts map[string][]float32 // embeddings of length 1: trainers score many pictures with the same text
}

// maxTexts limits the number of cached text embeddings.
const maxTexts = 1024

func openCLIP(c *Config, o Options) (network, *encoders.Processor, error) {
	n := &clip{config: c, scale: 1, texts: map[string][]float32{}}
	n.o = encoders.Options{
		Device: o.Device, Threads: o.Threads, Kind: encoders.CLIP, Weights: c.Weights, NoImages: true,
	}
	var err error
	if n.Model, err = encoders.Open(c.Model, n.o); err != nil {
		return nil, nil, err
	}
	if kinds[c.Kind].reads && !n.HasTexts() {
		err = fmt.Errorf("%s has no text tower", c.Model)
	}
	if err == nil && (c.Kind == clipScore || c.Kind == pickScore) {
		n.scale, err = n.LogitScale()
	}
	if err == nil {
		n.head, err = n.headDigest()
	}
	if err != nil {
		return nil, nil, errors.Join(err, n.Close())
	}
	return n, n.Processor(c.Preprocessing), nil
}

func (n *clip) fingerprint() (string, error) {
	if n.head == "" {
		return n.Fingerprint(), nil
	}
	return store.KeyOf(n.Fingerprint(), n.head).String(), nil
}

func (n *clip) headDigest() (string, error) {
	if n.config.Head == "" {
		return "", nil
	}
	k, err := store.FileDigest(n.config.Head)
	return k.String(), err
}

func (n *clip) open(g *nn.Graph, lean bool) (*ort.Session, error) {
	s, err := n.OpenGraph(g, n.o, lean)
	if err != nil {
		return nil, err
	}
	if head, err := n.headDigest(); err != nil || head != n.head { // which the graph was built from
		return nil, errors.Join(fmt.Errorf("%s was changed while in use: open the judge again", n.config.Head), err,
			s.Close())
	}
	return s, nil
}

// graph builds scale e/|e| t with a text's embedding t of length 1, or the layers of the head over e/|e|.
func (n *clip) graph() (*nn.Graph, error) {
	g, x, width, err := n.ImageGraph(n.config.Kind)
	if err != nil {
		return nil, err
	}
	x = g.Op("Div", x, g.OpA("ReduceL2", onnx.Attrs{"keepdims": 1}, x, g.Ints(1)))
	if n.config.Kind == aesthetic {
		head, err := checkpoints.OpenFile(n.config.Head)
		if err != nil {
			return nil, err
		}
		defer head.Close()
		if x, err = metrics.LinearHead(g.Builder, head, x, width); err != nil {
			return nil, fmt.Errorf("%s: %w", n.config.Head, err)
		}
		addScore(g, g.Op("Reshape", x, g.Ints(-1)))
		return g, g.Err()
	}
	text := g.Input(inText, onnx.Float, onnx.Dims("pictures", width))
	x = g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, g.Op("Mul", x, text), g.Ints(1))
	addScore(g, g.Op("Mul", x, g.Scalar(onnx.Float, n.scale)))
	return g, g.Err()
}

// feeds returns the embedding of a text.
func (n *clip) feeds(ctx context.Context, text string) (map[string]*tensor.Dense, error) {
	if !kinds[n.config.Kind].reads {
		return nil, nil
	}
	if n.config.Kind == hpsv2 {
		var err error
		if text, err = clean(text); err != nil {
			return nil, err
		}
	}
	n.mu.Lock()
	unit, known := n.texts[text]
	n.mu.Unlock()
	if !known {
		all, err := n.Texts(ctx, []string{text})
		if err != nil {
			return nil, err
		}
		unit = all[0]
		sum := 0.0
		for _, v := range unit {
			sum += float64(v) * float64(v)
		}
		for i := range unit {
			unit[i] = float32(float64(unit[i]) / math.Sqrt(sum))
		}
		n.mu.Lock()
		if len(n.texts) >= maxTexts {
			clear(n.texts)
		}
		n.texts[text] = unit
		n.mu.Unlock()
	}
	shape := tensor.WithShape(1, len(unit))
	return map[string]*tensor.Dense{inText: tensor.New(shape, tensor.WithBacking(unit))}, nil
}
