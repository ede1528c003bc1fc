package miniature

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
)

func TestBadWorlds(t *testing.T) {
	w := testWorld(t, false)
	if _, err := New(nil, 64, false); err == nil {
		t.Error("a world without photographs")
	}
	if _, err := New(w.Photos, 60, false); err == nil {
		t.Error("60 pixels")
	}
	if _, err := New([]Photo{{"dot", "a dot", data.NewPicture(8, 8)}}, 64, false); err == nil {
		t.Error("a photograph of 8 pixels")
	}
	black, err := New([]Photo{{"night", "the night", data.NewPicture(99, 77)}}, 64, true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := black.Task(generator(1, EditsTable, 0), Grey); err == nil || !strings.Contains(err.Error(), "uniform") {
		t.Errorf("a black photograph: %v", err)
	}
	grey := w.Photos[0].Picture.Crop(0, 0, 200, 200)
	for i := range grey.Pix {
		grey.Pix[i] = grey.Pix[i/3*3]
	}
	old, err := New([]Photo{{"old", "an old photo", grey}}, 32, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // only scenes with colourful shapes can lose their colour
		task, err := old.Task(generator(1, EditsTable, i), Grey)
		if err != nil {
			t.Fatal(err)
		}
		if far(task.Source, task.Target(generator(1, EditsTable, i)).Picture) < 1 {
			t.Error("a grey picture was to be made grey")
		}
	}
	for _, s := range []Selection{{Held: []string{"nobody"}}, {Only: []string{"nobody"}}} {
		if _, err := OpenPhotos(
			"../../../examples/photos",
			DefaultSize,
			s,
		); err == nil ||
			!strings.Contains(err.Error(), `no photograph named "nobody"`) {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// A folder of photographs: captions come from text files or names, and photographs are scaled down to the size
// needed.
func TestPhotos(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"b_old-house.txt": "", "a.txt": " a cat\n", "notes.md": "no photograph"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	for name, p := range map[string]*data.Picture{"b_old-house.png": data.NewPicture(90, 40),
		"a.png": data.NewPicture(1000, 640)} {
		if err := p.WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	photos, err := OpenPhotos(dir, 32, Selection{})
	if err != nil || len(photos) != 2 {
		t.Fatalf("%d photographs: %v", len(photos), err)
	}
	a, b := photos[0], photos[1]
	if a.Name != "a" || a.Caption != "a cat" || a.Picture.Width != 300 || a.Picture.Height != 192 {
		t.Errorf("%s, %q, %d x %d", a.Name, a.Caption, a.Picture.Width, a.Picture.Height)
	}
	if b.Name != "b_old-house" || b.Caption != "b old house" || b.Picture.Width != 90 {
		t.Errorf("%s, %q, %d x %d", b.Name, b.Caption, b.Picture.Width, b.Picture.Height)
	}
	if err := os.WriteFile(filepath.Join(dir, "c.png"), []byte("no picture"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenPhotos(dir, 32, Selection{}); err == nil || !strings.Contains(err.Error(), "c.png") {
		t.Errorf("a broken photograph: %v", err)
	}
	if _, err := OpenPhotos(dir, 32, Selection{Only: []string{"b_old-house"}}); err != nil {
		t.Errorf("it is read although it is not selected: %v", err)
	}
}

// The world of one seed, pixel by pixel. If it is changed on purpose, every figure measured on it becomes invalid.
func TestGolden(t *testing.T) {
	photos, err := OpenPhotos("../../../examples/photos", DefaultSize, Selection{Only: []string{"chelsea", "coffee"}})
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{
		64: "3b724a92650f6ec0ffe1b958e5336930b33ac3389a971c8ce4d461a1efea27b8",
		96: "937a476a17ca82e682a62f77136b787ebc85f2fbecd20440e98157a6c3b56b56",
	} {
		w, err := New(photos, size, true)
		if err != nil {
			t.Fatal(err)
		}
		h := sha256.New()
		for i := range len(Families) {
			rng := generator(1, EditsTable, i)
			task, err := w.Task(rng, Families[i])
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(h, task.Instruction, task.SourceCaption())
			h.Write(task.Source.Pix)
			for _, o := range slices.Concat(task.outputs(rng), task.examined(rng)) {
				fmt.Fprintln(h, o.editor, o.Kind, o.Degree, describe(o.Candidate), task.Caption(o.Candidate))
				h.Write(o.Picture.Pix)
			}
			c, err := w.Chain(generator(1, ChainsTable, i), 3)
			if err != nil {
				t.Fatal(err)
			}
			for j, p := range c.Pictures {
				fmt.Fprintln(h, c.Captions[j], append(c.Instructions, "")[j])
				h.Write(p.Pix)
			}
		}
		if d := cmp.Diff(want, hex.EncodeToString(h.Sum(nil))); d != "" {
			t.Errorf("size %d: %s", size, d)
		}
	}
}
