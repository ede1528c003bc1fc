package labeling

import (
	"context"

	"assay/encoders"
	"assay/store"
)

// openEncoders opens the models that a configuration names, each behind the store of embeddings; warn is told what the
// store could not do. closer frees them.
func openEncoders(c EncoderConfig, warn func(string)) (e Encoders, closer func() error, err error) {
	var open []func() error
	closeAll := func() error {
		var first error
		for i := len(open) - 1; i >= 0; i-- {
			if err := open[i](); first == nil {
				first = err
			}
		}
		return first
	}
	defer func() {
		if err != nil {
			closeAll() // err came first
		}
	}()
	if c.Clip == "" && c.Dino == "" {
		return e, closeAll, nil
	}
	cache, err := store.Open(c.Cache, store.Options{Limit: int64(c.CacheSize), Warn: warn})
	if err != nil {
		return e, nil, err
	}
	open = append(open, cache.Close)
	e.Store = cache
	for _, model := range []struct {
		kind, path string
		to         *Encoder
	}{{encoders.CLIP, c.Clip, &e.Clip}, {encoders.DINO, c.Dino, &e.Dino}} {
		if model.path == "" {
			continue
		}
		m, err := encoders.Open(model.path, encoders.Options{Device: c.Device, Threads: c.Threads, Batch: c.Batch,
			Kind: model.kind})
		if err != nil {
			return e, nil, err
		}
		open = append(open, m.Close)
		cached, err := encoders.NewCached(m, cache)
		if err != nil {
			return e, nil, err
		}
		if *model.to = cached; !m.HasTexts() {
			*model.to = picturesOnly{cached}
		}
	}
	return e, closeAll, nil
}

// picturesOnly is an encoder without a text tower: it has no vectors for captions, so there is no CLIP-D.
type picturesOnly struct{ *encoders.Cached }

func (picturesOnly) Texts(_ context.Context, texts []string) ([][]float32, error) {
	return make([][]float32, len(texts)), nil
}
