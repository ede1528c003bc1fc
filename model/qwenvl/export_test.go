package qwenvl

import (
	"assay/internal/oracle"
)

// PrepareFloat is Prepare in floating point, without rounding.
func (b *Family) PrepareFloat(frames []*oracle.Field) ([]float64, error) {
	v := b.Tower
	h, w, err := b.smartSize(frames[0].Height, frames[0].Width)
	if err != nil {
		return nil, err
	}
	at := Grid{h / v.Patch, w / v.Patch}
	pixels := make([]float64, 3*v.Frames*h*w)
	for f := range v.Frames {
		plane := frames[min(f, len(frames)-1)].Resize(w, h).Normalize(b.colours.Mean, b.colours.Std)
		b.EachPatch(at, func(i, row, col int) {
			for k := range 3 * v.Patch * v.Patch {
				c, y, x := k/(v.Patch*v.Patch), k/v.Patch%v.Patch, k%v.Patch
				pixels[((i*3+c)*v.Frames+f)*v.Patch*v.Patch+y*v.Patch+x] = plane[(c*h+row*v.Patch+y)*w+col*v.Patch+x]
			}
		})
	}
	return pixels, nil
}
