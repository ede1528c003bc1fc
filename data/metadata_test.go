package data

import (
	"path/filepath"
	"testing"

	"assay/internal/packed"
	"assay/internal/testfile"
)

// TestOrientationIsPillows: orientation in PNG texts, and in WebP chunks that the header does or does not announce
// (tools/oracle/data_metadata.py).
func TestOrientationIsPillows(t *testing.T) {
	var expect map[string]struct {
		Size   []int
		SHA256 string
	}
	testfile.ReadJSON(t, "testdata/metadata.json", &expect)
	dir := packed.Unpack(t, "testdata/metadata.zip")
	for name, e := range expect {
		t.Run(name, func(t *testing.T) {
			p, err := Open(filepath.Join(dir, name), Limits{})
			if err != nil {
				t.Errorf("%s: got error %v, want none", name, err)
			} else if p.Width != e.Size[0] || p.Height != e.Size[1] || sum(p) != e.SHA256 {
				t.Errorf("%s is rotated differently from Pillow: %d x %d pixels, want %v", name, p.Width, p.Height, e.Size)
			}
		})
	}
}
