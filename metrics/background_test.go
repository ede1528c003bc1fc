package metrics

import (
	"encoding/json"
	"errors"
	"image"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// TestBackground: the difference outside masks and boxes equals numpy's (tools/oracle/background.py), and an invalid
// mask is an error.
func TestBackground(t *testing.T) {
	dir := packed.Unpack(t, "testdata/background.zip")
	in := func(name string) string { return filepath.Join(dir, name) }
	var want map[string]float64
	raw, err := os.ReadFile(in("expect.json"))
	if err == nil {
		err = json.Unmarshal(raw, &want)
	}
	if err != nil || len(want) == 0 {
		t.Fatal(err)
	}
	open := func(places string) *Metric {
		t.Helper()
		p, err := ReadPlaces(places)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open("bg_rmse", Options{Places: p})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	sample := func(id string) *edit.Edit {
		e := &edit.Edit{ID: id, Editor: "M"}
		for _, role := range []string{"source", "edit"} {
			e.Set(role, data.File{Image: data.Image{Path: in(id + "-" + role + ".png")}})
		}
		return e
	}
	m := open(in("places.jsonl"))
	for id, v := range want {
		got, err := valueOf(t, m, sample(id))
		if err != nil || !(math.Abs(got.(float64)-v) <= 1e-9) {
			t.Errorf("%s: %v, want %v (%v)", id, got, v, err)
		}
	}
	at := t.TempDir()
	// the mask of a with its black transparent, as cut-outs are saved: Pillow's convert("L") gives the same mask
	mask, err := data.Open(in("masks/a.png"), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	clear := image.NewNRGBA(image.Rect(0, 0, mask.Width, mask.Height))
	for i := range mask.Width * mask.Height {
		v := mask.Pix[3*i]
		copy(clear.Pix[4*i:], []byte{v, v, v, v})
	}
	f, err := os.Create(filepath.Join(at, "clear.png"))
	if err == nil {
		err = errors.Join(png.Encode(f, clear), f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	places := testfile.Write(t, "places.jsonl", `{"id": "a", "picture": "source", "mask": "`+f.Name()+`"}`)
	if got, err := valueOf(t, open(places), sample("a")); err != nil || !(math.Abs(got.(float64)-want["a"]) <= 1e-9) {
		t.Errorf("transparent mask: got %v, %v, want %v", got, err, want["a"])
	}
	for name, tt := range map[string]struct{ line, want string }{
		"size":  {`{"id": "a", "picture": "source", "mask": "` + in("masks/b.png") + `"}`, "has 31 x 44 pixels"},
		"grey":  {`{"id": "a", "picture": "source", "mask": "` + in("a-source.png") + `"}`, "black (0) and white (255"},
		"edit":  {`{"id": "a", "model": "M", "mask": "` + in("masks/a.png") + `"}`, `no line for the picture "source"`},
		"whole": {`{"id": "a", "picture": "source", "box": [-1, -1, 99, 99]}`, "there is no background"},
	} {
		path := filepath.Join(at, name+".jsonl")
		if err := os.WriteFile(path, []byte(tt.line), 0o600); err != nil {
			t.Fatal(err)
		}
		if v, err := valueOf(t, open(path), sample("a")); err == nil ||
			!strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, %v", name, v, err)
		}
	}
	if _, err := Open("bg_rmse", Options{}); err == nil || !strings.Contains(err.Error(), "boxes file") {
		t.Error(err)
	}
}
