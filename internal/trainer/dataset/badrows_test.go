package dataset

import (
	"testing"

	"assay/data"
)

func writePicture(t *testing.T, path string, shade int) {
	t.Helper()
	p := data.NewPicture(24, 24)
	for i := range p.Pix {
		p.Pix[i] = byte(shade + i%7)
	}
	if err := p.WritePNG(path); err != nil {
		t.Fatal(err)
	}
}
