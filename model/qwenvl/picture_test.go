package qwenvl

import (
	"testing"

	"assay/internal/oracle"
)

// TestSmartSize compares with transformers: rows of factor, least and most pixels, height and width before and after
// (0: refused).
func TestSmartSize(t *testing.T) {
	for _, r := range oracle.Read[[][7]int](t, "testdata/sizes.json") {
		b := &Family{Tower: Tower{Patch: r[0] / 2, Merge: 2}, least: r[1], most: r[2]}
		h, w, err := b.smartSize(r[3], r[4])
		if h != r[5] || w != r[6] || (err != nil) != (r[5] == 0) {
			t.Errorf("%v: %dx%d (%v)", r, h, w, err)
		}
	}
}
