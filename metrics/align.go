package metrics

import (
	"errors"
	"math"

	"assay/data"
)

// arcFacePoints are the positions of the five face landmarks in ArcFace's 112 x 112 pixel pictures (insightface; Deng
// et al. 2019): left eye, right eye, nose, left and right corner of the mouth.
var arcFacePoints = [5][2]float64{
	{38.2946, 51.6963}, {73.5318, 51.5014}, {56.0252, 71.7366}, {41.5493, 92.3655}, {70.7299, 92.2041},
}

// similarityTransform is x' = a x - b y + tx, y' = b x + a y + ty.
type similarityTransform struct{ a, b, tx, ty float64 }

// fitSimilarity is the least-squares similarity transform without reflection from points from to points to (Umeyama
// 1991). In the plane, with both sets centred at their means, it is a + ib = sum conj(p) q / sum |p|^2.
func fitSimilarity(from, to [][2]float64) (similarityTransform, error) {
	n := float64(len(from))
	var mf, mt [2]float64
	for i := range from {
		for k := range 2 {
			mf[k] += from[i][k] / n
			mt[k] += to[i][k] / n
		}
	}
	var re, im, norm float64
	for i := range from {
		px, py := from[i][0]-mf[0], from[i][1]-mf[1]
		qx, qy := to[i][0]-mt[0], to[i][1]-mt[1]
		re += px*qx + py*qy
		im += px*qy - py*qx
		norm += px*px + py*py
	}
	if norm == 0 || re == 0 && im == 0 {
		return similarityTransform{}, errors.New("the face points coincide")
	}
	t := similarityTransform{a: re / norm, b: im / norm}
	t.tx = mt[0] - t.a*mf[0] + t.b*mf[1]
	t.ty = mt[1] - t.b*mf[0] - t.a*mf[1]
	return t, nil
}

// inverse maps a position in the result back to the picture.
func (t similarityTransform) inverse(x, y float64) (float64, float64) {
	d := t.a*t.a + t.b*t.b
	x, y = x-t.tx, y-t.ty
	return (t.a*x + t.b*y) / d, (t.a*y - t.b*x) / d
}

// warp returns a picture of width x height: each pixel is interpolated bilinearly at its source position, black
// outside.
func warp(p *data.Picture, t similarityTransform, width, height int) *data.Picture {
	out := data.NewPicture(width, height)
	at := func(x, y, c int) float64 {
		if x < 0 || y < 0 || x >= p.Width || y >= p.Height {
			return 0
		}
		return float64(p.Pix[3*(y*p.Width+x)+c])
	}
	for v := range height {
		for u := range width {
			x, y := t.inverse(float64(u), float64(v))
			x0, y0 := math.Floor(x), math.Floor(y)
			fx, fy := x-x0, y-y0
			i, j := int(x0), int(y0)
			for c := range 3 {
				top := (1-fx)*at(i, j, c) + fx*at(i+1, j, c)
				bottom := (1-fx)*at(i, j+1, c) + fx*at(i+1, j+1, c)
				out.Pix[3*(v*width+u)+c] = byte(math.Round((1-fy)*top + fy*bottom))
			}
		}
	}
	return out
}

// alignFace warps a face so that its five points are at ArcFace's positions.
func alignFace(p *data.Picture, points [][2]float64) (*data.Picture, error) {
	if len(points) != 5 {
		return nil, errors.New("no five face points")
	}
	t, err := fitSimilarity(points, arcFacePoints[:])
	if err != nil {
		return nil, err
	}
	return warp(p, t, 112, 112), nil
}
