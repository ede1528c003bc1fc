package model

import (
	"errors"
	"fmt"
	"math"

	"assay/model/nn"
	"assay/onnx"
)

// fusion combines the dimensions d into one number, and returns its gradient. sigma (may be nil) combines the standard
// deviations of all dimensions.
type fusion struct {
	score    func(d, weights []float64) float64
	gradient func(d, weights []float64) []float64
	sigma    func(s, weights []float64) float64
	sigmas   func(s []float64, sigma float64) []float64 // d sigma / d s, if sigma is set
	linear   bool                                       // the gradient does not depend on d

	// The same as graph nodes, [n] from d [n, dimensions] and from the logarithms of s; weights are [1, dimensions].
	emit func(g *nn.Graph, d, weights string) string
	logs func(g *nn.Graph, s string) string
}

// along reduces the columns of x [n, dimensions].
func along(op string) func(g *nn.Graph, x string) string {
	return func(g *nn.Graph, x string) string { return g.OpA(op, onnx.Attrs{"keepdims": 0}, x, g.Ints(1)) }
}

// unweighted is a fusion of columns without weights.
func unweighted(op string) func(g *nn.Graph, x, _ string) string {
	return func(g *nn.Graph, x, _ string) string { return along(op)(g, x) }
}

// fusions by name. mean, min and sum are EditReward's for pairs (mu, log sigma): the mean and the minimum of both
// numbers; mu_1 + mu_2 with sqrt(sigma_1^2 + sigma_2^2).
var fusions = map[string]fusion{
	"mean": {
		score:    func(d, _ []float64) float64 { return total(d) / float64(len(d)) },
		gradient: func(d, _ []float64) []float64 { return each(d, func(int) float64 { return 1 / float64(len(d)) }) },
		sigma: func(s, _ []float64) float64 {
			logs := each(s, func(i int) float64 { return math.Log(s[i]) })
			return math.Exp(total(logs) / float64(len(s)))
		},
		sigmas: func(s []float64, sigma float64) []float64 {
			return each(s, func(i int) float64 { return sigma / (float64(len(s)) * s[i]) })
		},
		linear: true,
		emit:   unweighted("ReduceMean"),
		logs:   along("ReduceMean"),
	},
	"sum": {
		score:    func(d, _ []float64) float64 { return total(d) },
		gradient: func(d, _ []float64) []float64 { return each(d, func(int) float64 { return 1 }) },
		sigma: func(s, _ []float64) float64 {
			return math.Sqrt(total(each(s, func(i int) float64 { return s[i] * s[i] })))
		},
		sigmas: func(s []float64, sigma float64) []float64 {
			return each(s, func(i int) float64 { return s[i] / sigma })
		},
		linear: true,
		emit:   unweighted("ReduceSum"),
		logs: func(g *nn.Graph, s string) string { // log sqrt(sum exp(2 s))
			doubled := along("ReduceLogSumExp")(g, g.Op("Add", s, s))
			return g.Op("Div", doubled, g.OpA("CastLike", nil, g.Scalar(onnx.Float, 2), s))
		},
	},
	"weights": {
		score:    func(d, w []float64) float64 { return total(each(d, func(i int) float64 { return w[i] * d[i] })) },
		gradient: func(d, w []float64) []float64 { return each(d, func(i int) float64 { return w[i] }) },
		linear:   true,
		emit:     func(g *nn.Graph, d, w string) string { return along("ReduceSum")(g, g.Op("Mul", d, w)) },
	},
	"min": {
		score:    func(d, _ []float64) float64 { return d[least(d)] },
		gradient: func(d, _ []float64) []float64 { return onlyLeast(d) },
		sigma:    func(s, _ []float64) float64 { return s[least(s)] },
		sigmas:   func(s []float64, _ float64) []float64 { return onlyLeast(s) },
		emit:     unweighted("ReduceMin"),
		logs:     along("ReduceMin"),
	},
	"product": {
		score:    func(d, _ []float64) float64 { return product(d, -1) },
		gradient: func(d, _ []float64) []float64 { return each(d, func(i int) float64 { return product(d, i) }) },
		emit:     unweighted("ReduceProd"),
	},
	"sqrt_product": {
		score: func(d, _ []float64) float64 { return math.Sqrt(product(d, -1)) },
		gradient: func(d, _ []float64) []float64 { // d sqrt(p)/d d_i = (p/d_i) / (2 sqrt(p))
			return each(d, func(i int) float64 { return product(d, i) / (2 * math.Sqrt(product(d, -1))) })
		},
		emit: func(g *nn.Graph, d, _ string) string { return g.Op("Sqrt", along("ReduceProd")(g, d)) },
	},
}

// fusionValue is the fusion of dimensions and their standard deviations.
type fusionValue struct {
	score, sigma float64            // sigma is 0 if the fusion or a head has none
	gradient     map[string]float64 // d score / d dimension
	sigmas       map[string]float64 // d score / d standard deviation of a dimension; nil without a lower bound
}

// fuse computes score01 from the dimensions of all heads, and its derivatives. The score of no heads is NaN.
func (c *ScorerConfig) fuse(dimensions, sigmas map[string]float64) (out fusionValue, err error) {
	f, how := c.Score, fusions[c.Score.Fusion]
	if len(f.Of) == 0 { // all heads have classes without an order
		return fusionValue{score: math.NaN()}, nil
	}
	d, s, all := make([]float64, len(f.Of)), make([]float64, len(f.Of)), true
	for i, name := range f.Of {
		d[i], s[i] = dimensions[name], sigmas[name]
		all = all && s[i] > 0
	}
	out.gradient = map[string]float64{}
	for i, v := range how.gradient(d, f.Weights) {
		out.gradient[f.Of[i]] = v
	}
	by := []float64{1} // d sigma / d s
	switch {
	case all && len(f.Of) == 1 && f.Fusion != "weights":
		out.sigma = s[0]
	case all && how.sigma != nil:
		out.sigma = how.sigma(s, f.Weights)
		by = how.sigmas(s, out.sigma)
	}
	if f.LowerBound > 0 {
		out.sigmas = map[string]float64{}
		for i, v := range by {
			out.sigmas[f.Of[i]] = -f.LowerBound * v
		}
	}
	out.score = how.score(d, f.Weights) - f.LowerBound*out.sigma
	if math.IsNaN(out.score) || math.IsInf(out.score, 0) {
		return out, fmt.Errorf("the %s of %v, the dimensions %v, is not a finite number", f.Fusion, d, f.Of)
	}
	return out, nil
}

// hasScore refuses a scorer whose heads all have classes without an order.
func (c *ScorerConfig) hasScore() error {
	if len(c.Score.Of) == 0 {
		return errors.New("the scorer has no score: all of its heads have classes without an order")
	}
	return nil
}

func total(v []float64) (sum float64) {
	for _, x := range v {
		sum += x
	}
	return sum
}

// product multiplies all values but the one at index without; -1: all.
func product(v []float64, without int) float64 {
	p := 1.0
	for i, x := range v {
		if i != without {
			p *= x
		}
	}
	return p
}

// least is the index of the smallest value, the first one on a tie.
func least(v []float64) int {
	at := 0
	for i, x := range v {
		if x < v[at] {
			at = i
		}
	}
	return at
}

// onlyLeast is 1 for the smallest value, and 0 for the others.
func onlyLeast(v []float64) []float64 {
	return each(v, func(i int) float64 {
		if i == least(v) {
			return 1
		}
		return 0
	})
}

func each(v []float64, f func(i int) float64) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		out[i] = f(i)
	}
	return out
}

// emit fuses dimensions [n] of a type, and the logarithms of their standard deviations if all heads have one. logs is
// "" if a head or the fusion has none.
func (f *FusionConfig) emit(g *nn.Graph, t onnx.DType, dimensions, sigmas []string) (score, logs string) {
	how, weights := fusions[f.Fusion], ""
	columns := func(x []string) string {
		out := make([]string, len(x))
		for i, v := range x {
			out[i] = g.Op("Unsqueeze", v, g.Ints(1))
		}
		return g.OpA("Concat", onnx.Attrs{"axis": 1}, out...)
	}
	if len(f.Weights) > 0 {
		weights = g.Numbers(t, []int64{1, int64(len(f.Weights))}, f.Weights...)
	}
	score = how.emit(g, columns(dimensions), weights)
	switch {
	case len(sigmas) < len(dimensions):
	case len(sigmas) == 1 && f.Fusion != "weights":
		logs = sigmas[0]
	case how.logs != nil:
		logs = how.logs(g, columns(sigmas))
	}
	return score, logs
}

// logSigma is the logarithm of the standard deviation [n] in a head's outputs z [n, 2], on the dimension's scale.
func (h *DimensionConfig) logSigma(g *nn.Graph, z string, t onnx.DType) string {
	logs := g.Op("Squeeze", g.Op("Slice", z, g.Ints(1), g.Ints(2), g.Ints(1)), g.Ints(1))
	if len(h.Scale) == 2 {
		logs = g.Op("Sub", logs, g.Scalar(t, math.Log(math.Abs(h.Scale[1]-h.Scale[0]))))
	}
	return logs
}
