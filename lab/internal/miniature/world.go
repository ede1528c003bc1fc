// Package miniature is a small world in which the true degree of success of every edit is known. It has crops of
// photographs with painted shapes, families of edits, instructions in varied wording, and candidates of known
// quality. Scorers are trained and tested on it without real editors or human raters. A [World] draws tasks, pairs
// and chains; [World.Write] writes a data set with its truth; [Scale] measures any picture; [Evaluate] compares
// scores with the truth.
package miniature

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
)

// Photo is a photograph that scenes are cut from.
type Photo struct {
	Name    string // file name without extension
	Caption string // what it shows, as in "a photo of a cat"
	Picture *data.Picture
}

// Selection selects photographs of a folder by Name. Empty: all.
type Selection struct {
	Held []string // excluded
	Only []string // only these
}

// pictureTypes are the extensions of photographs.
var pictureTypes = []string{".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff"}

// ample is the factor from the side of a picture to the shorter side of a photograph in memory: crops have at least
// 35 % of it.
const ample = 6

// OpenPhotos reads the photographs of a folder, sorted by name, for pictures of size x size pixels, and scales them
// down to the size needed for that. The caption of a photograph is in a text file next to it (cat.txt for cat.png: "a
// cat"); without one, it is the name.
func OpenPhotos(dir string, size int, s Selection) ([]Photo, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var photos []Photo
	var names []string
	for _, e := range entries {
		ext := filepath.Ext(e.Name())
		if e.IsDir() || !slices.Contains(pictureTypes, strings.ToLower(ext)) {
			continue
		}
		name := strings.TrimSuffix(e.Name(), ext)
		if slices.Contains(names, name) {
			return nil, fmt.Errorf("%s: two photographs are named %s: rename one", dir, name)
		}
		names = append(names, name)
		if slices.Contains(s.Held, name) || len(s.Only) > 0 && !slices.Contains(s.Only, name) {
			continue
		}
		p, err := data.Open(filepath.Join(dir, e.Name()), data.Limits{})
		if err != nil {
			return nil, err
		}
		caption, err := photoCaption(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		photos = append(photos, Photo{name, caption, reduce(p, ample*size)})
	}
	for _, name := range slices.Concat(s.Held, s.Only) {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("%s: no photograph named %q, only %s", dir, name, strings.Join(names, ", "))
		}
	}
	if len(photos) == 0 {
		return nil, fmt.Errorf("%s: no photographs to use (%s)", dir, strings.Join(pictureTypes, ", "))
	}
	return photos, nil
}

// reduce scales a picture down to a shorter side of at most side pixels.
func reduce(p *data.Picture, side int) *data.Picture {
	short := min(p.Width, p.Height)
	if short <= side || side < 1 {
		return p
	}
	return p.Resize(p.Width*side/short, p.Height*side/short, data.Bilinear)
}

// photoCaption returns the caption of the photograph path (without extension).
func photoCaption(path string) (string, error) {
	raw, err := os.ReadFile(path + ".txt")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if text := strings.TrimSpace(string(raw)); text != "" {
		return text, nil
	}
	return strings.Join(strings.FieldsFunc(strings.ToLower(filepath.Base(path)), func(r rune) bool {
		return r == '-' || r == '_' || r == ' ' || r == '.'
	}), " "), nil
}

// World makes tasks, pairs and chains from photographs. It is read-only: several goroutines may use it, each with its
// own generator. The same state of the generator leads to the same result on every machine.
type World struct {
	Photos  []Photo
	Size    int  // of pictures, in pixels: a multiple of 8
	Augment bool // mirror and turn crops, and vary their colours
}

// DefaultSize is the side of pictures, in pixels.
const DefaultSize = 64

// New returns a world of pictures of size x size pixels.
func New(photos []Photo, size int, augment bool) (*World, error) {
	if len(photos) == 0 {
		return nil, errors.New("a world needs at least one photograph")
	}
	if size < 32 || size > 512 || size%8 != 0 {
		return nil, fmt.Errorf("a size of %d pixels: want a multiple of 8 from 32 to 512", size)
	}
	for _, p := range photos {
		if min(p.Picture.Width, p.Picture.Height) < 16 {
			return nil, fmt.Errorf("photograph %s: %d x %d pixels are too small: want at least 16 x 16", p.Name, p.Picture.Width,
				p.Picture.Height)
		}
	}
	return &World{photos, size, augment}, nil
}

// crop cuts a square with 35 to 100 % of a photograph's shorter side.
func (w *World) crop(rng *rand.Rand) (*Photo, *canvas) {
	photo := &w.Photos[rng.IntN(len(w.Photos))]
	p := photo.Picture
	side := int(uniform(rng, 0.35, 1) * float64(min(p.Width, p.Height)))
	p = p.Crop(rng.IntN(p.Width-side+1), rng.IntN(p.Height-side+1), side, side).Resize(w.Size, w.Size, data.Bilinear)
	c := newCanvas(w.Size)
	for i, v := range p.Pix {
		c.pix[i] = float32(v) / 255
	}
	if w.Augment {
		c = augment(rng, c)
	}
	return photo, c
}

// augment varies a crop: mirroring, turns, channel order, gamma, gains and brightness.
func augment(rng *rand.Rand, c *canvas) *canvas {
	if rng.IntN(2) == 0 {
		c = c.turn(Edit{Variant: "horizontally"})
	}
	if rng.IntN(4) == 0 {
		c = c.turn(Edit{Variant: pick(rng, natures[Rotate].variants)})
	}
	if rng.IntN(2) == 0 {
		order := rng.Perm(3)
		c = c.pixels(func(_ int, v []float32) { v[0], v[1], v[2] = v[order[0]], v[order[1]], v[order[2]] })
	}
	if rng.Float64() >= 0.6 {
		return c
	}
	gamma, offset := uniform(rng, 0.7, 1.4), float32(uniform(rng, -0.08, 0.08))
	var curve [3][256]float32
	for i := range curve {
		gain := float32(uniform(rng, 0.85, 1.15))
		for v := range curve[i] {
			curve[i][v] = clip(float32(float32(math.Pow(float64(v)/255, gamma))*gain) + offset)
		}
	}
	return c.pixels(func(_ int, v []float32) {
		for i := range v {
			v[i] = curve[i][int(float32(v[i]*255)+0.5)]
		}
	})
}

// background draws a crop that is not too uniform.
func (w *World) background(rng *rand.Rand) (*Photo, *canvas, error) {
	for range 200 {
		if photo, c := w.crop(rng); deviation(c) >= 0.08 {
			return photo, c, nil
		}
	}
	return nil, nil, errors.New("the photographs are too uniform: 200 crops in a row show almost nothing")
}

// deviation returns the standard deviation of all values.
func deviation(c *canvas) float64 {
	var sum, squares float64
	for _, v := range c.pix {
		sum += float64(v)
		squares += float64(float64(v) * float64(v))
	}
	n := float64(len(c.pix))
	return math.Sqrt(max(0, squares/n-float64((sum/n)*(sum/n))))
}

// scene draws a background with the given number of shapes.
func (w *World) scene(rng *rand.Rand, shapes int) (*Photo, *scene, error) {
	photo, c, err := w.background(rng)
	if err != nil {
		return nil, nil, err
	}
	s := &scene{background: c}
	kinds, at := rng.Perm(len(shapeNames)), rng.Perm(len(placeNames))
	for i := range shapes {
		s.paint(rng, shapeNames[kinds[i]], pick(rng, colourNames), placeNames[at[i]])
	}
	return photo, s, nil
}
