package main

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/workers"
	"assay/lab/internal/miniature"
	"assay/model/fresh"
)

func init() { app.Register(newCLIPCommand) }

func newCLIPCommand() *cobra.Command {
	const about = `clip trains a CLIP from scratch. A batch holds sources with several edits of each, so that pictures that
only differ by an edit are each other's negatives. This makes the direction from a source to an edit
meaningful. Validation compares CLIP-D of drawn pairs with their true degree of success; l1 of a training
step is the share of pictures whose caption is not the nearest.`
	return newEncoderCommand("clip", "Train a CLIP on pictures, edits of them, and captions", about,
		"miniature captions 1",
		course{steps: 2400, batch: 24, lr: 1e-3, every: 200},
		func(c *config.Config, world *miniature.World, size int) (*encoderModel, error) {
			return newCLIPModel(c, world, clipSizes(size))
		})
}

// clipSizes make 2.6 MB.
func clipSizes(size int) fresh.CLIPSizes {
	return fresh.CLIPSizes{
		Picture:    size,
		Patch:      8,
		Projection: 96,
		Context:    77,
		Vocab:      768,
		Vision:     fresh.Transformer{Hidden: 96, Layers: 3, Heads: 4, Intermediate: 384},
		Text:       fresh.Transformer{Hidden: 96, Layers: 2, Heads: 4, Intermediate: 192},
	}
}

func newCLIPModel(c *config.Config, world *miniature.World, sizes fresh.CLIPSizes) (*encoderModel, error) {
	m, err := openEncoder(c.Backbone, func(dir string) error { return makeCLIP(dir, sizes, world, c.Seed) }, c)
	if err != nil {
		return nil, err
	}
	m.rows = variants
	m.contrast = func(ctx context.Context, batch []dataset.Example, weights []float64) (*encoders.Contrast, error) {
		pictures, captions := make([]*data.Picture, len(weights)), make([]string, len(weights))
		err := workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
			at := i * variants
			return drawVariants(
				world,
				generator(c.Seed, forTraining, batch[i].Index),
				pictures[at:at+variants],
				captions[at:at+variants],
			)
		})
		if err != nil {
			return nil, err
		}
		return m.Captions(ctx, pictures, captions, weights)
	}
	m.score = func(ctx context.Context, batch []dataset.Example) ([]float64, error) {
		edits, err := drawEdits(world, c.Seed, batch)
		if err != nil {
			return nil, err
		}
		return directions(ctx, m, edits)
	}
	return m, nil
}

// makeCLIP makes the checkpoint that training starts from; its tokenizer is trained on captions.
func makeCLIP(dir string, sizes fresh.CLIPSizes, world *miniature.World, seed uint64) error {
	var text bytes.Buffer
	for i := range 5000 {
		_, caption, err := world.Captioned(generator(seed, 0, i))
		if err != nil {
			return err
		}
		fmt.Fprintln(&text, caption)
	}
	return fresh.CreateCLIP(dir, sizes, text.String(), seed)
}

// variants is the number of pictures per example: a source, the requested edit, and other edits.
const variants = 4

// otherKinds are the kinds of the other edits. Their captions describe them fully.
var otherKinds = []miniature.Kind{
	miniature.WrongAttribute,
	miniature.WrongAttribute,
	miniature.WrongFamily,
	miniature.Over,
	miniature.Half,
}

// drawVariants draws a source and edits of it with their captions.
func drawVariants(world *miniature.World, rng *rand.Rand, pictures []*data.Picture, captions []string) error {
	t, err := world.Task(rng, "")
	if err != nil {
		return err
	}
	pictures[0], captions[0] = t.Source, t.SourceCaption()
	kind := miniature.Perfect
	for i := 1; i < len(pictures); {
		if c, ok := t.Candidate(rng, kind); ok {
			pictures[i], captions[i] = c.Picture, t.Caption(c)
			i++
		}
		kind = otherKinds[rng.IntN(len(otherKinds))]
	}
	return nil
}

// directions returns the CLIP-D of every edit.
func directions(ctx context.Context, m encoders.Encoder, edits []edit) ([]float64, error) {
	var pictures []*data.Picture
	var captions []string
	for _, e := range edits {
		pictures, captions = append(pictures, e.source, e.edit), append(captions, e.before, e.after)
	}
	images, err := m.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	texts, err := m.Texts(ctx, captions)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(edits))
	for i := range scores {
		scores[i] = heuristics.ClipDirection(images[2*i], images[2*i+1], texts[2*i], texts[2*i+1])
	}
	return scores, nil
}
