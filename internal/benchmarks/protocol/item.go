package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
	"assay/internal/table"
)

// Picture is a picture of a benchmark: a file, or bytes inside a larger file that are read on demand. It is an
// [edit.Picture].
type Picture struct {
	Path string
	Read func() ([]byte, error) // nil: the bytes of Path
	Area int                    // number of pixels that decoding resizes it to (bicubic); 0: unchanged
	// transparent pixels have their stored colours, as with Pillow's convert("RGB"), not composited over white
	Bare bool
	Like *Picture // decoding resizes it to this picture's size (bicubic); nil: unchanged
}

// Bare returns a picture with the Bare flag: the stored colours without transparency.
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

// Decode implements edit.Picture.
func (p Picture) Decode() (*data.Picture, error) {
	raw, err := p.Bytes()
	if err != nil {
		return nil, err
	}
	pic, err := data.Decode(raw, data.Limits{})
	if err == nil && p.Bare {
		pic, err = pic.DropAlpha()
	}
	if err != nil {
		return nil, err
	}
	if p.Area > 0 {
		width, height := sidesOf(p.Area, pic.Width, pic.Height)
		pic = pic.Resize(width, height, data.Bicubic)
	}
	if p.Like != nil {
		like, err := p.Like.Decode()
		if err != nil {
			return nil, err
		}
		pic = pic.Resize(like.Width, like.Height, data.Bicubic)
	}
	return pic, nil
}

// sidesOf returns the sides of a picture of about the area and the same aspect ratio, rounded down.
func sidesOf(area, width, height int) (w, h int) {
	ratio := float64(width) / float64(height)
	side := math.Sqrt(float64(area) * ratio)
	return max(1, int(side)), max(1, int(side/ratio))
}

// NewItem returns an edit to judge, with ID and editor from the key. Missing pictures are left out.
func NewItem(k Key, instruction string, source, output Picture) *edit.Edit {
	e := &edit.Edit{ID: k.ID, Editor: k.Model, Instruction: instruction}
	SetPicture(e, "source", source)
	SetPicture(e, "edit", output)
	return e
}

// SetPicture sets the picture with a role, if there is one.
func SetPicture(e *edit.Edit, role string, p Picture) {
	if !p.None() {
		e.Set(role, p)
	}
}

// PictureOf returns the picture of an item with a role; the zero Picture if there is none.
func PictureOf(e *edit.Edit, role string) Picture {
	p, _ := e.Picture(role).(Picture)
	return p
}

// The roles of an item's texts and picture that metrics and similarities use: captions of the source and of the
// target, and the target.
const (
	SourceCaption = "source_caption"
	TargetCaption = "target_caption"
	Target        = "target"
)

// SetCaptions sets the captions of the source and of the target; "": there is none.
func SetCaptions(e *edit.Edit, captions [2]string) {
	texts := map[string]string{}
	maps.Copy(texts, e.Texts)
	for i, role := range []string{SourceCaption, TargetCaption} {
		if texts[role] = captions[i]; captions[i] == "" {
			delete(texts, role)
		}
	}
	e.Texts = texts
}

// ItemKey names an item.
func ItemKey(e *edit.Edit) Key { return Key{e.ID, e.Editor} }

// Content identifies what an item's score depends on besides the judge: its name, pictures and texts. unknown is the
// error if this is uncertain: an existing picture could not be read.
func Content(e *edit.Edit) (content string, unknown error) {
	image := func(role string) data.Image {
		image, err := PictureOf(e, role).image()
		if !errors.Is(err, fs.ErrNotExist) {
			unknown = cmp.Or(unknown, err)
		}
		return image
	}
	of, err := table.Content("", nil, e.Instruction, image("source"), image("edit"))
	unknown = cmp.Or(unknown, err)
	parts := []string{e.ID, e.Editor, of, e.Texts[SourceCaption], e.Texts[TargetCaption]}
	add := func(role string) {
		k, err := store.Content("", image(role))
		if err == nil {
			parts = append(parts, k.String())
		} else if !PictureOf(e, role).None() && !errors.Is(err, fs.ErrNotExist) {
			unknown = cmp.Or(unknown, err)
		}
	}
	add(Target) // few judges need it, so it may be missing
	if p := PictureOf(e, "edit"); p.Bare || p.Like != nil {
		parts = append(parts, fmt.Sprintf("shown bare %t, like the source %t", p.Bare, p.Like != nil))
	}
	if e.Kind != "" {
		parts = append(parts, "kind", e.Kind)
	}
	for _, name := range slices.Sorted(maps.Keys(e.Texts)) {
		if name != SourceCaption && name != TargetCaption {
			parts = append(parts, "field", name, e.Texts[name])
		}
	}
	roles := slices.Collect(maps.Keys(e.Pictures))
	for n := range e.Sources {
		if n > 0 {
			roles = append(roles, fmt.Sprintf("source%d", n+1))
		}
	}
	slices.Sort(roles)
	for _, role := range roles {
		if role != Target {
			parts = append(parts, "shown", role)
			add(role)
		}
	}
	return store.KeyOf(parts...).String(), unknown
}

// image returns the picture as a table would hold it, without its bytes if they cannot be read.
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

// Digest identifies what the scores of items depend on besides the judge: their names, pictures and texts, in order.
func Digest(items []*edit.Edit) string {
	parts := make([]string, len(items))
	for i, e := range items {
		parts[i], _ = Content(e)
	}
	return store.KeyOf(parts...).String()
}

// FilePicture returns the picture in a file; with check, a missing file is added to p.
func FilePicture(path string, check bool, p *Problems) Picture {
	if check {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			p.Add(path, "the picture does not exist")
		} else if err != nil {
			p.Add(path, "%v", err)
		}
	}
	return Picture{Path: path}
}

// FirstFile returns base with the first ending for which there is a file; with the last ending if there is none.
func FirstFile(base string, endings ...string) string {
	for _, ending := range endings {
		if _, err := os.Stat(base + ending); err == nil {
			return base + ending
		}
	}
	return base + endings[len(endings)-1]
}

// CheckFiles returns an error that names the missing pictures of items.
func CheckFiles(items []*edit.Edit) error {
	var p Problems
	seen := map[string]bool{}
	for _, it := range items {
		for _, role := range []string{"source", "edit"} {
			if of := PictureOf(it, role); of.Path != "" && of.Read == nil && !seen[of.Path] {
				seen[of.Path] = true
				FilePicture(of.Path, true, &p)
			}
		}
	}
	return p.Err()
}
