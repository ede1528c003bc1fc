package qwen25vl

import (
	"testing"

	"assay/internal/modeltest"
	"assay/internal/oracle"
	"assay/model"
)

func TestGradients(t *testing.T) {
	modeltest.Gradients(
		t,
		"qwen2_5_vl",
		[]string{"cases.json", "cases_frames.json"},
		func(t *testing.T, m model.Architecture, frames []*oracle.Field) []float64 {
			b := m.(*Architecture)
			v := b.vision
			h, w, err := b.smartSize(frames[0].Height, frames[0].Width)
			if err != nil {
				t.Fatal(err)
			}
			at := grid{h / v.Patch, w / v.Patch}
			pixels := make([]float64, 3*v.Frames*h*w)
			for f := range v.Frames {
				plane := frames[min(f, len(frames)-1)].Resize(w, h).Normalize(b.colours.Mean, b.colours.Std)
				b.eachPatch(at, func(i, row, col int) {
					for k := range 3 * v.Patch * v.Patch {
						c, y, x := k/(v.Patch*v.Patch), k/v.Patch%v.Patch, k%v.Patch
						pixels[((i*3+c)*v.Frames+f)*v.Patch*v.Patch+y*v.Patch+x] = plane[(c*h+row*v.Patch+y)*w+col*v.Patch+x]
					}
				})
			}
			return pixels
		},
	)
}

func TestGradientsTogether(t *testing.T) { modeltest.GradientsTogether(t, "qwen2_5_vl", "scorer") }
