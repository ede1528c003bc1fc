package model

import (
	"slices"

	"assay/internal/calibration"
	"assay/model/nn"
	"assay/onnx"
)

// calibrateOutput applies a map to score01 of a finished graph.
func calibrateOutput(g *nn.Graph, m *calibration.Map) {
	at := slices.IndexFunc(g.M.Nodes, func(n *onnx.Node) bool { return slices.Contains(n.Outputs, outScore) })
	last := g.M.Nodes[at]
	g.M.Nodes = slices.Delete(g.M.Nodes, at, at+1)
	g.Scoped("calibration", func() { last.Inputs = []string{calibrated(g, m, last.Inputs[0])} })
	g.M.Nodes = append(g.M.Nodes, last)
}

// calibrated applies a map to x [n], in double precision:
//
//	y_1 + sum_k slope_k (min(max(x, x_k), x_k+1) - x_k) + beyond (min(x - x_1, 0) + max(x - x_n, 0))
func calibrated(g *nn.Graph, m *calibration.Map, x string) string {
	x = g.OpA("Cast", onnx.Attrs{"to": onnx.Double}, x)
	num := func(v float64) string { return g.Scalar(onnx.Double, v) }
	if m.Method == calibration.Platt {
		z := g.Op("Add", g.Op("Mul", x, num(-m.A)), num(-m.B))
		return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, g.Op("Sigmoid", z))
	}
	n := len(m.X)
	low, high, slopes := make([]float64, n-1), make([]float64, n-1), make([]float64, n-1)
	for k := range n - 1 {
		low[k], high[k] = m.X[k], m.X[k+1]
		slopes[k] = (m.Y[k+1] - m.Y[k]) / (m.X[k+1] - m.X[k])
	}
	row := func(v []float64) string { return g.Numbers(onnx.Double, []int64{1, int64(n - 1)}, v...) }
	within := g.Op("Max", g.Op("Min", g.Op("Unsqueeze", x, g.Ints(1)), row(high)), row(low))
	within = g.Op("Mul", g.Op("Sub", within, row(low)), row(slopes))
	y := g.Op("Add", g.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, within, g.Ints(1)), num(m.Y[0]))
	below := g.Op("Min", g.Op("Sub", x, num(m.X[0])), num(0))
	above := g.Op("Max", g.Op("Sub", x, num(m.X[n-1])), num(0))
	y = g.Op("Add", y, g.Op("Mul", g.Op("Add", below, above), num(m.Outside())))
	return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, y)
}

// carryCalibration writes the calibration for another scorer with the same scores: this one with its adapter merged.
func (p *ScorerState) carryCalibration(to string) error {
	if p.Calibration == nil {
		return nil
	}
	if err := p.checkCalibration(); err != nil {
		return err
	}
	merged, err := readScorerDir(to)
	if err != nil {
		return err
	}
	k := *p.Calibration
	k.Scorer = merged.Digest()
	return k.Write(calibrationFile(to, merged.Config))
}
