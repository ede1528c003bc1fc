package llavanext

import (
	"testing"

	"assay/internal/long"
	"assay/internal/modeltest"
	"assay/internal/oracle"
	"assay/model/backbone"
)

func TestGradients(t *testing.T) {
	long.Test(t)
	modeltest.Gradients(
		t,
		"llavanext",
		[]string{"cases.json", "cases_adiee.json"},
		func(t *testing.T, m backbone.Architecture, frames []*oracle.Field) []float64 {
			b, p := m.(*Architecture), frames[0]
			pixels := p.Resize(b.crop, b.crop).Normalize(b.colours.Mean, b.colours.Std)
			gridH, gridW := b.bestResolution(p.Height, p.Width)
			h, w := fit(p.Height, p.Width, gridH, gridW)
			canvas := p.Resize(w, h).Crop(-((gridW - w) / 2), -((gridH - h) / 2), gridW, gridH)
			for y := 0; y < gridH; y += b.crop {
				for x := 0; x < gridW; x += b.crop {
					pixels = append(pixels, canvas.Crop(x, y, b.crop, b.crop).Normalize(b.colours.Mean, b.colours.Std)...)
				}
			}
			return pixels
		},
	)
}

func TestGradientsTogether(t *testing.T) {
	modeltest.GradientsTogether(t, "llavanext", "scorer_sequence")
}
