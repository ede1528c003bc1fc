package model

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/calibration"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

var testMap = calibration.Map{Method: calibration.Isotonic, X: []float64{-0.1, 0.2, 0.25, 0.9},
	Y: []float64{0, 0.05, 0.6, 0.97}}

// TestCalibratedGraph: an export computes the same values as the map.
func TestCalibratedGraph(t *testing.T) {
	for _, m := range []calibration.Map{testMap, {Method: calibration.Platt, A: -7, B: 2.5},
		{Method: calibration.Inverse, X: []float64{0.1, 0.6}, Y: []float64{0, 1}}} {
		g := nn.NewGraph("calibrated", nil)
		x := g.Input("x", onnx.Float, onnx.Dims("examples"))
		g.Output(outScore, g.Op("Neg", g.Op("Neg", x)), onnx.Float, onnx.Dims("examples"))
		calibrateOutput(g, &m)
		s, err := ort.Open(g.M, ort.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		var in []float32
		for v := float32(-1); v < 2; v += 0.0137 {
			in = append(in, v)
		}
		in = append(in, -0.1, 0.2, 0.25, 0.9)
		out, err := s.Run(context.Background(), map[string]*tensor.Dense{
			"x": tensor.New(tensor.WithShape(len(in)), tensor.WithBacking(in))})
		if err != nil {
			t.Fatal(err)
		}
		for i, got := range out[outScore].Float32s() {
			if want, _ := m.At(float64(in[i])); !(math.Abs(float64(got)-want) <= 1e-7*math.Max(1, math.Abs(want))) {
				t.Errorf("%s at %g: %g, want %g", m.Method, in[i], got, want)
			}
		}
		s.Close()
	}
}

// TestCalibrateScore: each dimension has its own map, and the fusion takes the heads' raw outputs. A score of only one
// dimension uses that dimension's map.
func TestCalibrateScore(t *testing.T) {
	quality := testMap
	quality.Dimension = "quality"
	curve := calibration.Map{Method: calibration.Platt, A: -3, B: 1,
		Interval: &calibration.Interval{Coverage: 0.8, HalfWidth: 0.3}}
	score := func(of ...string) *ScorerConfig {
		return &ScorerConfig{Format: 2, Score: &FusionConfig{Fusion: "mean", Of: of}}
	}
	n := &Scorer{config: score("following", "quality"),
		calibration: &calibration.Calibration{Format: 1, Maps: []calibration.Map{quality, curve}}}
	calibrated := func() edit.Score {
		s := edit.Score{Value: 0.4, Sigma: 0.1, Dimensions: []edit.Dimension{{Name: "following", Value: 0.3, Sigma: 0.02},
			{Name: "quality", Value: 0.5, Sigma: 0.2}}}
		n.calibrate(&s)
		return s
	}
	s := calibrated()
	want, _ := curve.At(0.4)
	if s.Value != want || *s.Raw01 != 0.4 || s.Sigma != curve.Sigma(0.4, 0.1) || s.Dimensions[0].Value != 0.3 {
		t.Errorf("got %+v, want the value %g of 0.4, and following as it was", s, want)
	}
	if i := s.Interval; i.Low != want-0.3 || i.High != math.Min(1, want+0.3) || i.Coverage != 0.8 {
		t.Errorf("got %+v, want 0.3 around %g, within 1, and coverage 0.8", i, want)
	}
	if want, _ := quality.At(0.5); s.Dimensions[1].Value != want || s.Dimensions[1].Sigma != quality.Sigma(0.5, 0.2) {
		t.Errorf("got %+v, want quality %g", s.Dimensions, want)
	}
	n.config = score("quality")
	want, _ = quality.At(0.4)
	if s := calibrated(); s.Value != want || s.Interval != nil {
		t.Errorf("got %+v, want %g without an interval", s, want)
	}
	n.config = score("following")
	if s := calibrated(); s.Value != 0.4 || s.Raw01 != nil {
		t.Errorf("got %+v, want 0.4, not calibrated", s)
	}
	// The slope is the calibrated score's.
	n.config = score("following", "quality")
	rng := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		x, h := rng.Float64(), 1e-6
		up, _ := n.calibrated(x + h)
		down, _ := n.calibrated(x - h)
		if _, slope := n.calibrated(x); !(math.Abs(slope-(up-down)/(2*h)) <= 1e-6) {
			t.Errorf("slope %g at %g, finite differences give %g", slope, x, (up-down)/(2*h))
		}
	}
}
