package data

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/packed"
	"assay/internal/testfile"
)

// TestDropAlpha compares the colours of transparent pixels with Pillow's convert("RGB").
func TestDropAlpha(t *testing.T) {
	var want map[string]string
	testfile.ReadJSON(t, filepath.Join("testdata", "bare.json"), &want)
	dir, seen := packed.Unpack(t, pictures), 0
	for name, sum := range want {
		t.Run(name, func(t *testing.T) {
			raw, err := os.ReadFile(filepath.Join(dir, name))
			if err != nil {
				t.Fatal(err)
			}
			p, err := Decode(raw, Limits{})
			if err != nil {
				return // refused anyway
			}
			bare, err := p.DropAlpha()
			if slices.Contains(lost, name) {
				if err == nil {
					t.Errorf("%s: DropAlpha: got error %v, want one: the decoder does not keep its colours", name, err)
				}
				return
			} else if err != nil {
				t.Errorf("%s: DropAlpha: got error %v, want none", name, err)
				return
			}
			seen++
			if got := bare.Digest(); hex.EncodeToString(got[:]) != sum {
				t.Errorf("%s: %x, want %s", name, got, sum)
			}
		})
	}
	if seen < 15 {
		t.Errorf("got %d pictures compared, want at least 15", seen)
	}
}

// lost are pictures for which the decoders do not keep the colours of transparent pixels.
var lost = []string{"key.gif", "partial_key.gif"}
