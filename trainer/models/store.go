package models

import (
	"path/filepath"

	"assay/store"
	"assay/trainer/config"
)

// OpenStore opens the store of a run.
func OpenStore(c *config.Config, warn func(string)) (*store.Store, error) {
	folder := c.Cache.Folder
	if folder == "" {
		folder = filepath.Join(c.Out, "cache")
	}
	return store.Open(folder, store.Options{Limit: int64(c.Cache.Size), Warn: warn})
}

// warner passes on what a store warns of to whoever runs the model.
type warner struct{ tell func(string) }

// Warn says who is to be told.
func (w *warner) Warn(tell func(string)) { w.tell = tell }

func (w *warner) warn(text string) {
	if w.tell != nil {
		w.tell(text)
	}
}
