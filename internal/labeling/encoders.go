package labeling

import (
	"cmp"
	"io"
	"slices"

	"assay/encoders"
	"assay/internal/store"
)

// openEncoders opens the models that a configuration names, each behind the store of embeddings; warn is told what the
// store could not do. closer frees them.
func openEncoders(c EncoderConfig, warn func(string)) (e models, closer func() error, err error) {
	var open []io.Closer
	closeAll := func() (err error) {
		for _, o := range slices.Backward(open) {
			err = cmp.Or(err, o.Close())
		}
		return err
	}
	defer func() {
		if err != nil {
			closeAll() // err came first
		}
	}()
	if c.Clip == "" && c.Dino == "" {
		return e, closeAll, nil
	}
	if e.Store, err = store.Open(c.Cache, store.Options{Limit: int64(c.CacheSize), Warn: warn}); err != nil {
		return e, nil, err
	}
	open = append(open, e.Store)
	for _, model := range []struct {
		kind, path string
		to         *encoders.Encoder
	}{{encoders.CLIP, c.Clip, &e.Clip}, {encoders.DINO, c.Dino, &e.Dino}} {
		if model.path == "" {
			continue
		}
		m, err := encoders.Open(model.path, c.options(model.kind))
		if err != nil {
			return e, nil, err
		}
		open = append(open, m)
		cached, err := encoders.NewCached(m, e.Store)
		if err != nil {
			return e, nil, err
		}
		*model.to = cached
	}
	return e, closeAll, nil
}

func (c *EncoderConfig) options(kind string) encoders.Options {
	return encoders.Options{Device: c.Device, Threads: c.Threads, Batch: c.Batch, Kind: kind}
}
