package dataset

import (
	"fmt"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
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

// Edit is the example as a scorer sees it. Its pictures must be what they were when the run began.
func (e *Example) Edit() (*edit.Edit, error) {
	c, err := e.PictureContents()
	if err != nil {
		return nil, err
	}
	return edit.New(picture{e, c[0], e.Row.Source}, picture{e, c[1], e.Row.Edit}, e.Row.Instruction), nil
}

// picture is a picture of an example, augmented: an edit.Picture with a key.
type picture struct {
	example *Example
	content store.Key // that the file must have
	image   data.Image
}

// Decode decodes and augments the picture.
func (p picture) Decode() (*data.Picture, error) {
	out, err := openAs(p.image, p.example.Base, p.content)
	if err == nil && p.example.Augment != 0 {
		out = data.RandomAugmentation(p.example.Augment).Apply(out)
	}
	return out, err
}

// Key identifies content and augmentation.
func (p picture) Key() string { return string(p.content[:]) + p.example.augmentation() }

// augmentation identifies what is done to the pictures.
func (e *Example) augmentation() string {
	if e.Augment == 0 {
		return ""
	}
	return fmt.Sprintf("%+v", data.RandomAugmentation(e.Augment))
}

// PairKey identifies the two pictures of an example as it is augmented.
func (e *Example) PairKey(c Contents) store.Key {
	return store.KeyOf("pair", data.Decoding, string(c[0][:]), string(c[1][:]), e.augmentation())
}
