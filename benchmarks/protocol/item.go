package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"assay/data"
	"assay/scoring"
	"assay/store"
)

// Picture is a picture of a benchmark: a file, or bytes inside a bigger file that are read when they are needed.
type Picture struct {
	Path string
	Read func() ([]byte, error) // nil: the bytes of Path
	Area int                    // pixels that it is resized to before anything sees it (bicubic); 0: it stays
	// it has the colours below its transparency, as by Pillow's convert("RGB"): not over white
	Bare bool
	Like bool // of an edit: it is resized to its source's size before anything sees it (bicubic)
}

// Bare is a picture without its transparency.
func Bare(p Picture) Picture {
	p.Bare = true
	return p
}

// None reports whether there is no picture.
func (p Picture) None() bool { return p.Path == "" && p.Read == nil }

// Bytes returns the encoded picture.
func (p Picture) Bytes() ([]byte, error) {
	if p.Read != nil {
		return p.Read()
	}
	return os.ReadFile(p.Path)
}

// Item is one edit to be scored.
type Item struct {
	Key
	Group       string // source and instruction: the candidates of one group are scored together
	Source      Picture
	Edit        Picture
	Instruction string
	Target      Picture   // the wanted result, where a benchmark has it
	Captions    [2]string // of the source and of the wanted result, "" where a benchmark has none

	// What judges that answer in words may be shown besides.
	Kind   string             // of the edit, by which questions differ
	Fields map[string]string  // texts by name
	Shown  map[string]Picture // pictures by role: reference, source2, ...
}

// Content identifies what an item's score depends on besides the scorer: its name, pictures and texts.
func (it *Item) Content() string {
	content, _ := it.Known()
	return content
}

// Known is the item's content, and why it is not known for sure: a picture that is there could not be read.
func (it *Item) Known() (content string, unknown error) {
	image := func(p Picture) data.Image {
		image, err := p.image()
		if !errors.Is(err, fs.ErrNotExist) {
			unknown = cmp.Or(unknown, err)
		}
		return image
	}
	row := data.Row{Source: image(it.Source), Edit: image(it.Edit), Instruction: it.Instruction}
	of, err := scoring.Content("", &row, nil)
	unknown = cmp.Or(unknown, err)
	parts := []string{it.ID, it.Model, of, it.Captions[0], it.Captions[1]}
	add := func(p Picture) {
		k, err := store.Content("", image(p))
		if err == nil {
			parts = append(parts, k.String())
		} else if !p.None() && !errors.Is(err, fs.ErrNotExist) {
			unknown = cmp.Or(unknown, err)
		}
	}
	add(it.Target) // few scorers need it: it need not be there
	if it.Edit.Bare || it.Edit.Like {
		parts = append(parts, fmt.Sprintf("shown bare %t, like the source %t", it.Edit.Bare, it.Edit.Like))
	}
	if it.Kind != "" {
		parts = append(parts, "kind", it.Kind)
	}
	for _, name := range slices.Sorted(maps.Keys(it.Fields)) {
		parts = append(parts, "field", name, it.Fields[name])
	}
	for _, role := range slices.Sorted(maps.Keys(it.Shown)) {
		parts = append(parts, "shown", role)
		add(it.Shown[role])
	}
	return store.KeyOf(parts...).String(), unknown
}

// image is a picture as tables have it. Bytes that cannot be read are no picture.
func (p Picture) image() (data.Image, error) {
	if p.Read == nil {
		return data.Image{Path: p.Path}, nil
	}
	raw, err := p.Read()
	if err != nil {
		return data.Image{Path: p.Path}, err
	}
	return data.Image{Bytes: raw}, nil
}

// Digest identifies what the scores of items depend on besides the scorer: their names, pictures and texts, in order.
func Digest(items []Item) string {
	parts := make([]string, len(items))
	for i := range items {
		parts[i] = items[i].Content()
	}
	return store.KeyOf(parts...).String()
}

// FilePicture is the picture in a file; with check it is a problem if the file is not there.
func FilePicture(path string, check bool, p *Problems) Picture {
	if check {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			p.Add(path, "the picture is not there")
		} else if err != nil {
			p.Add(path, "%v", err)
		}
	}
	return Picture{Path: path}
}
