package main

import (
	"context"
	"errors"

	"assay/encoders"
	"assay/labeling"
)

// openEncoders opens the models that a configuration names, each behind the cache of embeddings.
func openEncoders(c labeling.EncoderConfig) (e labeling.Encoders, closeAll func(), err error) {
	var open []*encoders.Model
	closeAll = func() {
		for _, m := range open {
			m.Close() // nothing was written
		}
	}
	for _, model := range []struct {
		path string
		to   *labeling.Encoder
	}{{c.Clip, &e.Clip}, {c.Dino, &e.Dino}} {
		if model.path == "" {
			continue
		}
		m, err := encoders.Open(model.path, encoders.Options{Device: c.Device, Threads: c.Threads, Batch: c.Batch})
		if err != nil {
			closeAll()
			return e, nil, err
		}
		open = append(open, m)
		*model.to = optionalTexts{m}
	}
	return e, closeAll, nil
}

// optionalTexts gives no vectors for texts where the model has no text tower: CLIP-D is not known then.
type optionalTexts struct{ encoders.Encoder }

func (o optionalTexts) Texts(ctx context.Context, texts []string) ([][]float32, error) {
	vectors, err := o.Encoder.Texts(ctx, texts)
	if errors.Is(err, encoders.ErrNoTexts) {
		return make([][]float32, len(texts)), nil
	}
	return vectors, err
}
