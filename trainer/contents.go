package trainer

import (
	"fmt"
	"path/filepath"

	"assay/data"
	"assay/store"
)

// Contents are the digests of the encoded bytes of a row's source and edit: what tells a picture from another one under
// the same name.
type Contents [2]store.Key

// contentsOf finds out what the pictures of a row are. A file is read only if it was not before: see
// [store.FileDigest].
func contentsOf(row *data.Row, folder string) (c Contents, err error) {
	for i, m := range []data.Image{row.Source, row.Edit} {
		if c[i], err = store.Content(folder, m); err != nil {
			return c, fmt.Errorf("%s: %w", [2]string{"source", "edit"}[i], err)
		}
	}
	return c, nil
}

// contents are those that were found when the run began, if the example is of a table.
func (e *Example) contents() (Contents, error) {
	if e.Contents != (Contents{}) {
		return e.Contents, nil
	}
	return contentsOf(&e.Row, e.Base)
}

// examplePicture is a picture of an example, augmented.
type examplePicture struct {
	example *Example
	content store.Key // that the file must have
	image   data.Image
}

// Decode implements edit.Picture.
func (p examplePicture) Decode() (*data.Picture, error) {
	out, err := openAs(p.image, p.example.Base, p.content)
	if err == nil && p.example.Augment != 0 {
		out = data.RandomAugmentation(p.example.Augment).Apply(out)
	}
	return out, err
}

// Key implements edit.Keyed.
func (p examplePicture) Key() string { return string(p.content[:]) + p.example.augmentation() }

// augmentation identifies what is done to the pictures of an example.
func (e *Example) augmentation() string {
	if e.Augment == 0 {
		return ""
	}
	return fmt.Sprintf("%+v", data.RandomAugmentation(e.Augment))
}

// pairKey identifies the two pictures of an example as it is augmented.
func (e *Example) pairKey(c Contents) store.Key {
	return store.KeyOf("pair", data.Decoding, string(c[0][:]), string(c[1][:]), e.augmentation())
}

// openStore opens the store of a run.
func openStore(c *Config, warn func(string)) (*store.Store, error) {
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
