package dataset

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
)

// Example is one edit with its labels, and the templates used to ask a model about it.
type Example struct {
	Index            int       // index in the training or the validation examples
	Edit             edit.Edit // from a table, its pictures are [RowPicture]
	Question, Answer string    // templates drawn; [INSTRUCTION] is not yet replaced
	Label            float64   // 0..1
	Why              string    // replaces [WHY] of Answer; only in training

	Conversation *Conversation // in mode text, where Edit only has an ID; nil: a labelled edit
	Share        float64       // weight of its mean text loss in the batch, 1 on average; 0: equal weights

	Completion *Completion // in objective grpo: the answer of the model to learn from

	Annotations data.Annotations // if empty, there is only Label
	Unit        int              // number of its group in the batch
	Group       int              // unit of the order that contains it

	Inputs edit.Inputs // the result of a Prefetcher; nil: none yet
	Err    error       // the error of the Prefetcher
}

// Labelled reports whether there is a score label: an edit that is only compared has none.
func (e *Example) Labelled() bool {
	if e.Conversation != nil {
		return false
	}
	_, ok := e.Annotations.Labels[""]
	return ok || e.Annotations.None()
}

// augment sets the seed of the augmentation of all pictures.
func (e *Example) augment(seed uint64) {
	for _, role := range e.roles() {
		if p, ok := e.Edit.Picture(role).(RowPicture); ok {
			p.Augment = seed
			e.Edit.Set(role, p)
		}
	}
}

// roles returns the roles of an edit's pictures: its sources, then the edit.
func (e *Example) roles() (out []string) {
	for i := range max(len(e.Edit.Sources), 1) {
		out = append(out, edit.SourceRole(i))
	}
	return append(out, "edit")
}

// Contents are the digests of the encoded bytes of a row's sources and edit, which distinguish pictures with the same
// file name. A picture that cannot be read has the zero key.
type Contents struct {
	sources []store.Key
	edit    store.Key
}

// contentsOf computes the digests of a row's pictures. A file is only read if it was not read before: see
// [store.FileDigest].
func contentsOf(row *data.Row, folder string) (c Contents, err error) {
	sources := append([]data.Image{row.Source}, row.References...)
	c.sources = make([]store.Key, len(sources))
	for i, m := range sources {
		if c.sources[i], err = store.Content(folder, m); err != nil {
			return c, fmt.Errorf("%s: %w", edit.SourceRole(i), err)
		}
	}
	if c.edit, err = store.Content(folder, row.Edit); err != nil {
		return c, fmt.Errorf("edit: %w", err)
	}
	return c, nil
}

// all returns the keys of sources and edit.
func (c *Contents) all() []store.Key { return append(slices.Clone(c.sources), c.edit) }

// known reports whether any picture could be read.
func (c *Contents) known() bool {
	return slices.ContainsFunc(c.all(), func(k store.Key) bool { return k != store.Key{} })
}

// scene identifies the sources; with one source it is its key.
func (c *Contents) scene() store.Key {
	if len(c.sources) == 1 {
		return c.sources[0]
	}
	var parts []string
	for _, k := range c.sources {
		parts = append(parts, string(k[:]))
	}
	return store.KeyOf(parts...)
}

// RowPicture is a picture of a row as it was when the run began: an [edit.Keyed].
type RowPicture struct {
	data.File
	Content store.Key // digest that the encoded bytes must have; zero: any
	Augment uint64    // seed of the augmentation; 0: none
}

// Decode decodes and augments the picture.
func (p RowPicture) Decode() (*data.Picture, error) {
	raw, err := p.Image.Read(p.Folder, p.Limits)
	if err != nil {
		return nil, err
	}
	if p.Content != (store.Key{}) && sha256.Sum256(raw) != p.Content {
		return nil, fmt.Errorf("%s has changed since the run checked its rows: pictures must not change during a run",
			p.Image.File(p.Folder))
	}
	out, err := p.Image.Decode(p.Folder, raw, p.Limits)
	if err == nil && p.Augment != 0 {
		out = data.RandomAugmentation(p.Augment).Apply(out)
	}
	return out, err
}

// Key identifies content and augmentation.
func (p RowPicture) Key() string {
	content, err := p.content()
	if err != nil { // Decode reports it
		return ""
	}
	return string(content[:]) + p.augmentation()
}

func (p RowPicture) content() (store.Key, error) {
	if p.Content != (store.Key{}) {
		return p.Content, nil
	}
	return store.Content(p.Folder, p.Image)
}

// augmentation identifies the augmentation of the picture.
func (p RowPicture) augmentation() string {
	if p.Augment == 0 {
		return ""
	}
	return fmt.Sprintf("%+v", data.RandomAugmentation(p.Augment))
}

// PairKey identifies the augmented pictures of an example.
func (e *Example) PairKey() (store.Key, error) {
	parts := []string{"pair", data.Decoding()}
	augmentation := ""
	for _, role := range e.roles() {
		p, ok := e.Edit.Picture(role).(RowPicture)
		if !ok {
			return store.Key{}, fmt.Errorf("%s: not a picture from a table", role)
		}
		content, err := p.content()
		if err != nil {
			return store.Key{}, fmt.Errorf("%s: %w", role, err)
		}
		parts, augmentation = append(parts, string(content[:])), p.augmentation()
	}
	return store.KeyOf(append(parts, augmentation)...), nil
}
