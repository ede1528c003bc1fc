package data

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"testing"

	"assay/internal/testfile"
)

var filters = map[string]Filter{
	"nearest": Nearest, "box": Box, "bilinear": Bilinear, "hamming": Hamming, "bicubic": Bicubic, "lanczos": Lanczos,
}

// noise is the picture of the same name in tools/oracle/data_resize.py.
func noise(width, height int) *Picture {
	p := NewPicture(width, height)
	x := uint32(1)
	for i := range p.Pix {
		x = x*1664525 + 1013904223
		p.Pix[i] = byte(x >> 24)
	}
	return p
}

func sum(p *Picture) string {
	h := sha256.Sum256(p.Pix)
	return hex.EncodeToString(h[:])
}

func TestResizeIsPillows(t *testing.T) {
	var cases []struct {
		File, Filter, SHA256 string
		Noise, Size          []int
	}
	testfile.ReadJSON(t, "testdata/resize.json", &cases)
	for _, c := range cases {
		t.Run(fmt.Sprint(c.File, c.Noise, c.Size, c.Filter), func(t *testing.T) {
			var p *Picture
			if c.File != "" {
				var err error
				if p, err = Open("../testdata/oracle/images/"+c.File, Limits{}); err != nil {
					t.Fatal(err)
				}
			} else {
				p = noise(c.Noise[0], c.Noise[1])
			}
			got := p.Resize(c.Size[0], c.Size[1], filters[c.Filter])
			if got.Width != c.Size[0] || got.Height != c.Size[1] || sum(got) != c.SHA256 {
				t.Errorf("got %d x %d pixels of digest %s, want Pillow's %v, %s", got.Width, got.Height, sum(got), c.Size, c.SHA256)
			}
		})
	}
}

func BenchmarkResize(b *testing.B) {
	for _, s := range [][4]int{{1024, 768, 512, 512}, {512, 512, 1024, 1024}, {4000, 3000, 336, 336},
		{512, 512, 336, 336}} {
		p := noise(s[0], s[1])
		b.Run(fmt.Sprintf("%dx%d-%dx%d", s[0], s[1], s[2], s[3]), func(b *testing.B) {
			for b.Loop() {
				p.Resize(s[2], s[3], Bicubic)
			}
		})
	}
}
