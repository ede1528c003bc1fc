package metrics

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/store"
	"assay/internal/strictyaml"
)

// Place is a region of a picture, in pixels from its upper left corner.
type Place struct {
	ID      string `json:"id"`
	Model   string `json:"model"`   // editor; "" for sources and targets
	Picture string `json:"picture"` // source, edit or target; "": edit

	Box    []float64    `json:"box"`    // left, top, right, bottom
	Mask   string       `json:"mask"`   // a picture of the same size, white in the region; path relative to the file
	Points [][2]float64 `json:"points"` // of a face: left eye, right eye, nose, left and right corner of the mouth
}

// placeKey names a picture.
type placeKey struct{ id, model, picture string }

// Places are boxes, masks and points of pictures, read from a file with the output of a detector.
type Places struct {
	path string
	at   map[placeKey]Place
}

// ReadPlaces reads JSON lines of [Place].
func ReadPlaces(path string) (*Places, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &Places{path, map[placeKey]Place{}}
	lines := bufio.NewReader(bytes.NewReader(raw))
	for n := 1; ; n++ {
		line, err := lines.ReadBytes('\n')
		if line = bytes.TrimSpace(line); len(line) > 0 {
			if e := p.add(line); e != nil {
				return nil, fmt.Errorf("%s:%d: %w", path, n, e)
			}
		}
		if err == io.EOF {
			return p, nil
		}
	}
}

func (p *Places) add(line []byte) error {
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	var place Place
	if err := d.Decode(&place); err != nil {
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one object on a line: want a line for each picture")
	}
	place.Picture = cmp.Or(place.Picture, "edit")
	k := placeKey{place.ID, place.Model, place.Picture}
	_, twice := p.at[k]
	switch b := place.Box; {
	case place.ID == "":
		return fmt.Errorf("id is missing")
	case !slices.Contains(pictureRoles, place.Picture):
		return fmt.Errorf("picture %q: want %s", place.Picture, strings.Join(pictureRoles, ", "))
	case twice:
		return fmt.Errorf("duplicate line for the picture %q of %s", place.Picture, place.ID)
	case b == nil && place.Points == nil && place.Mask == "":
		return fmt.Errorf("want box ([left, top, right, bottom]), points (five of [x, y]) or mask (a file)")
	case b != nil && (len(b) != 4 || !(b[0] < b[2]) || !(b[1] < b[3])):
		return fmt.Errorf("box %v: want [left, top, right, bottom]", b)
	case place.Points != nil && len(place.Points) != 5:
		return fmt.Errorf("%d points: want five, of eyes, nose and corners of the mouth", len(place.Points))
	}
	place.Mask = strictyaml.Absolute(filepath.Dir(p.path), place.Mask)
	p.at[k] = place
	return nil
}

// digest covers the file and all masks that it names.
func (p *Places) digest() (string, error) {
	file, err := store.FileDigest(p.path)
	if err != nil {
		return "", err
	}
	parts := []string{file.String()}
	for _, k := range slices.SortedFunc(maps.Keys(p.at), func(a, b placeKey) int {
		return cmp.Or(strings.Compare(a.id, b.id), strings.Compare(a.model, b.model), strings.Compare(a.picture, b.picture))
	}) {
		if mask := p.at[k].Mask; mask != "" {
			digest, err := store.FileDigest(mask)
			if err != nil {
				return "", err
			}
			parts = append(parts, digest.String())
		}
	}
	return store.KeyOf(parts...).String(), nil
}

// of finds the place of a picture. Places of sources and targets may be shared by all editors.
func (p *Places) of(e *edit.Edit, role string) (Place, error) {
	if p == nil {
		return Place{}, fmt.Errorf("this metric needs a boxes file")
	}
	for _, model := range []string{e.Editor, ""} {
		if place, ok := p.at[placeKey{e.ID, model, role}]; ok {
			return place, nil
		}
	}
	return Place{}, fmt.Errorf("%s has no line for the picture %q of %s", p.path, role, e.ID)
}

// pixels returns the box rounded to whole pixels and clipped to the picture.
func (p *Place) pixels(width, height int) (left, top, w, h int, err error) {
	if p.Box == nil {
		return 0, 0, 0, 0, fmt.Errorf("no box")
	}
	at := func(v float64, most int) int { return min(max(int(math.Round(v)), 0), most) }
	left, top = at(p.Box[0], width), at(p.Box[1], height)
	w, h = at(p.Box[2], width)-left, at(p.Box[3], height)-top
	if w < 1 || h < 1 {
		return 0, 0, 0, 0, fmt.Errorf("the box %v is outside the picture of %d x %d pixels", p.Box, width, height)
	}
	return left, top, w, h, nil
}
