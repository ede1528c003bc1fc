package dataset

import (
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/store"
)

// TestInspectorDecodesOnce: a start looks up in the store which pictures an earlier start has decoded, and only
// decodes changed ones.
func TestInspectorDecodesOnce(t *testing.T) {
	dir := t.TempDir()
	kept, err := store.Open(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	writePicture(t, filepath.Join(dir, "a.png"), 3)
	writePicture(t, filepath.Join(dir, "b.png"), 9)
	picture := func(name string) RowPicture {
		return RowPicture{File: data.File{Image: data.Image{Path: name}, Folder: dir}}
	}
	e := &Example{Edit: *edit.New(picture("a.png"), picture("b.png"), "")}
	for start, want := range []int64{2, 0} {
		s := NewPictureInspector(kept)
		for range 2 {
			if err := s.Example(e); err != nil {
				t.Fatal(err)
			}
		}
		if n := s.pictures.Decoded(); n != want {
			t.Errorf("start %d decodes %d pictures, want %d", start, n, want)
		}
	}
	raw, err := os.ReadFile(filepath.Join(dir, "b.png"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.png"), raw[:len(raw)/2], 0o666); err != nil {
		t.Fatal(err)
	}
	if err := NewPictureInspector(kept).Example(e); err == nil {
		t.Error("a picture that was cut off passes")
	}
}
