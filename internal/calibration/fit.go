package calibration

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// errFlat: labels and scores do not rise together.
var errFlat = errors.New("the labels do not rise with the scores: no monotone map fits them")

// Fit fits a map by a method to scores and the labels (0..1) of the same edits.
func Fit(method string, scores, labels []float64) (*Map, error) {
	if len(scores) != len(labels) {
		return nil, fmt.Errorf("%d scores and %d labels", len(scores), len(labels))
	}
	for i := range scores {
		if !finite(scores[i]) || !(labels[i] >= 0 && labels[i] <= 1) {
			return nil, fmt.Errorf("row %d: score %g, label %g (want a finite score, a label 0 to 1)", i, scores[i], labels[i])
		}
	}
	switch method {
	case Isotonic:
		return fitIsotonic(scores, labels)
	case Platt:
		return fitPlatt(scores, labels)
	case Inverse:
		return fitInverse(scores, labels)
	}
	return nil, fmt.Errorf("method %q: want one of %v", method, Methods())
}

// Block is a block of isotonic regression: neighbouring points with a common mean.
type Block struct{ X, Y, Weight float64 } // weighted means, and the sum of the weights

// Pool is isotonic regression: the ascending fit with the least weighted squares, by pooling adjacent violators (Ayer
// et al., 1955; sklearn.isotonic.IsotonicRegression). It returns blocks of equal value by ascending x. Points of
// equal x are merged. weights may be nil.
func Pool(x, y, weights []float64) []Block {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	var blocks []Block
	for k := 0; k < len(order); {
		b := Block{}
		for at := x[order[k]]; k < len(order) && x[order[k]] == at; k++ {
			w := 1.0
			if weights != nil {
				w = weights[order[k]]
			}
			b = b.join(Block{at, y[order[k]], w})
		}
		blocks = append(blocks, b)
		for n := len(blocks); n > 1 && blocks[n-2].Y >= blocks[n-1].Y; n-- {
			blocks[n-2] = blocks[n-2].join(blocks[n-1])
			blocks = blocks[:n-1]
		}
	}
	return blocks
}

func (b Block) join(o Block) Block {
	w := b.Weight + o.Weight
	if w == 0 {
		return o
	}
	return Block{(b.X*b.Weight + o.X*o.Weight) / w, (b.Y*b.Weight + o.Y*o.Weight) / w, w}
}

// nearest is the minimum distance of two knots, relative to the range of knots: it limits the slope.
const nearest = 1e-3

// fitIsotonic is the centred isotonic regression (Oron and Flournoy, Centered Isotonic Regression, 2017). Each block
// of the isotonic regression is a knot at its mean score, with straight lines in between, so that the map has no flat
// parts.
func fitIsotonic(scores, labels []float64) (*Map, error) {
	blocks := Pool(scores, labels, nil)
	return knots(Isotonic, blocks)
}

// knots makes a map from blocks; blocks that are too close are joined.
func knots(method string, blocks []Block) (*Map, error) {
	if len(blocks) < 2 {
		return nil, errFlat
	}
	gap := nearest * (blocks[len(blocks)-1].X - blocks[0].X)
	var apart []Block
	for _, b := range blocks {
		n := len(apart)
		if n > 0 && b.X-apart[n-1].X < gap {
			apart[n-1] = apart[n-1].join(b)
			continue
		}
		apart = append(apart, b)
	}
	if len(apart) < 2 {
		return nil, errFlat
	}
	m := &Map{Method: method}
	for _, b := range apart {
		m.X, m.Y = append(m.X, b.X), append(m.Y, b.Y)
	}
	return m, m.check()
}

// fitInverse is the classical estimator of calibration (Eisenhart, 1939; Krutchkoff, 1967, compares the two): scores
// are regressed on labels, by an isotonic regression, and the curve is inverted. Edits with the same label get that
// label on average, whereas the isotonic map gives each score the mean label of its edits, which pulls the ends to
// the middle.
func fitInverse(scores, labels []float64) (*Map, error) {
	blocks := Pool(labels, scores, nil)
	for i, b := range blocks {
		blocks[i] = Block{X: b.Y, Y: b.X, Weight: b.Weight}
	}
	return knots(Inverse, blocks)
}

// fitPlatt is Platt's map (Probabilistic Outputs for Support Vector Machines, 1999), with his targets, which are not
// quite 0 and 1. It uses the Newton steps of Lin, Lin and Weng (2007), and computes what sklearn's
// CalibratedClassifierCV does with method sigmoid.
func fitPlatt(scores, labels []float64) (*Map, error) {
	ones := 0.0
	for i, y := range labels {
		if y != 0 && y != 1 {
			return nil, fmt.Errorf("row %d has the label %g: platt needs labels 0 and 1; use isotonic", i, y)
		}
		ones += y
	}
	zeros := float64(len(labels)) - ones
	if ones == 0 || zeros == 0 {
		return nil, fmt.Errorf("all labels are the same: platt needs labels 0 and 1")
	}
	targets := make([]float64, len(labels))
	for i, y := range labels {
		targets[i] = 1 / (zeros + 2)
		if y == 1 {
			targets[i] = (ones + 1) / (ones + 2)
		}
	}
	center, spread := moments(scores)
	if spread == 0 {
		return nil, errFlat
	}
	z := make([]float64, len(scores)) // standardised: Newton's steps are the same, but far from overflow
	for i, x := range scores {
		z[i] = (x - center) / spread
	}
	a, b := newton(z, targets, math.Log((zeros+1)/(ones+1)))
	m := &Map{Method: Platt, A: a / spread, B: b - a*center/spread}
	if !(m.A < 0) {
		return nil, errFlat
	}
	return m, m.check()
}

func moments(v []float64) (mean, deviation float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		deviation += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(deviation)
}

// newton minimises the cross-entropy of targets and 1/(1 + e^(a z + b)), starting at a = 0.
func newton(z, targets []float64, b float64) (a, _ float64) {
	loss := func(a, b float64) (sum float64) {
		for i, t := range targets { // log(1 + e^f) - (1 - t) f, f = a z + b
			f := a*z[i] + b
			sum += math.Max(f, 0) + math.Log1p(math.Exp(-math.Abs(f))) - (1-t)*f
		}
		return sum
	}
	for range 200 {
		var ga, gb, haa, hab, hbb float64
		for i, t := range targets {
			p := logistic(-(a*z[i] + b))
			d, w := t-p, p*(1-p)
			ga, gb = ga+d*z[i], gb+d
			haa, hab, hbb = haa+w*z[i]*z[i], hab+w*z[i], hbb+w
		}
		haa, hbb = haa+1e-12, hbb+1e-12
		det := haa*hbb - hab*hab
		da, db := -(hbb*ga-hab*gb)/det, -(haa*gb-hab*ga)/det
		step, now := 1.0, loss(a, b)
		for step > 1e-10 && loss(a+step*da, b+step*db) > now+1e-4*step*(ga*da+gb*db) {
			step /= 2
		}
		a, b = a+step*da, b+step*db
		if math.Abs(da)+math.Abs(db) < 1e-12*(1+math.Abs(a)+math.Abs(b)) || step <= 1e-10 {
			break
		}
	}
	return a, b
}
