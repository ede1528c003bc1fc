package dataset

import (
	"fmt"

	"assay/data"
	"assay/store"
)

// Example is one labelled edit as a model is asked about it.
type Example struct {
	Index            int // among the training or the validation examples
	Row              data.Row
	Base             string   // folder of the table, to which the paths of the row are relative
	Question, Answer string   // templates drawn; [INSTRUCTION] is not yet replaced
	Augment          uint64   // 0: none, else seed of the augmentation
	Contents         Contents // of the pictures, found when the run began; zero: not yet known
	Label            float64  // 0..1

	Conversation *Conversation // of mode text; nil: a labelled edit
	Share        float64       // what its mean text loss counts in its batch, 1 on average; 0: as much as any other's

	Annotations Annotations // without any Label is all
	Unit        int         // number of its group in the batch
	Group       int         // unit of the order that it is of

	Prepared any // what a Prefetcher made of it; nil: nothing yet
}

// Labelled reports whether there is a label: an edit that is only compared has none.
func (e *Example) Labelled() bool {
	if e.Conversation != nil {
		return false
	}
	_, ok := e.Annotations.Labels[""]
	return ok || e.Annotations.none()
}

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
func (e *Example) PictureContents() (Contents, error) {
	if e.Contents != (Contents{}) {
		return e.Contents, nil
	}
	return contentsOf(&e.Row, e.Base)
}

// Pictures decodes source and edit and augments them. They must be what the example's contents say.
func (e *Example) Pictures(contents Contents) (source, edit *data.Picture, err error) {
	var out [2]*data.Picture
	for i, m := range []data.Image{e.Row.Source, e.Row.Edit} {
		what := [2]string{"source", "edit"}[i]
		if out[i], err = openAs(m, e.Base, contents[i]); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", what, err)
		}
		if e.Augment != 0 {
			out[i] = data.RandomAugmentation(e.Augment).Apply(out[i])
		}
	}
	return out[0], out[1], nil
}

// PairKey identifies the two pictures of an example as it is augmented.
func (e *Example) PairKey(c Contents) store.Key {
	augmentation := ""
	if e.Augment != 0 {
		augmentation = fmt.Sprintf("%+v", data.RandomAugmentation(e.Augment))
	}
	return store.KeyOf("pair", data.Decoding, string(c[0][:]), string(c[1][:]), augmentation)
}
