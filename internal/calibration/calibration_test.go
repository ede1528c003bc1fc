package calibration

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/testfile"
)

// reference is testdata/sklearn.json, written by tools/oracle/calibration.py.
type reference struct {
	Isotonic []struct {
		Name          string
		X, Y, Weights []float64
		Fitted        []float64
	}
	Centred []struct {
		X, Y           []float64
		KnotsX         []float64 `json:"knots_x"`
		KnotsY         []float64 `json:"knots_y"`
		Points, Values []float64
	}
	Sigmoid []struct {
		Name      string
		X, Y      []float64
		A, B      float64
		Predicted []float64
	}
	Curve []struct {
		Scores, Labels []float64
		Bins           int
		Score, Label   []float64 // of the non-empty bins
	}
	Conformal []struct {
		Distances []float64
		Coverage  float64
		HalfWidth float64 `json:"half_width"`
	}
}

func read(t *testing.T) reference {
	t.Helper()
	var r reference
	testfile.ReadJSON(t, "testdata/sklearn.json", &r)
	return r
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s: %.15g, want %.15g", what, got, want)
	}
}

// TestPool compares the isotonic regression with sklearn.isotonic.IsotonicRegression: ties, weights, falling labels.
func TestPool(t *testing.T) {
	for _, c := range read(t).Isotonic {
		t.Run(c.Name, func(t *testing.T) {
			blocks := Pool(c.X, c.Y, c.Weights)
			for i, x := range c.X {
				best := 0 // blocks ascend and do not overlap: the block of x has the value that sklearn returns for it
				for k := range blocks {
					if math.Abs(blocks[k].Y-c.Fitted[i]) < math.Abs(blocks[best].Y-c.Fitted[i]) {
						best = k
					}
				}
				near(t, c.Name, blocks[best].Y, c.Fitted[i], 1e-12)
				for k := range blocks { // and no block in between
					if k < best && blocks[k].X > x || k > best && blocks[k].X < x {
						if blocks[k].Weight == 1 {
							t.Errorf("%s: got block %d at %g between %g and its block %d, want none", c.Name, k, blocks[k].X, x, best)
						}
					}
				}
			}
			values := map[float64]bool{}
			for _, v := range c.Fitted {
				values[math.Round(v*1e9)] = true
			}
			if len(values) != len(blocks) {
				t.Errorf("%s: got %d blocks, want sklearn's %d", c.Name, len(blocks), len(values))
			}
		})
	}
}

// TestIsotonic compares the map with the centred form of sklearn's regression.
func TestIsotonic(t *testing.T) {
	for i, c := range read(t).Centred {
		t.Run(fmt.Sprintf("case %d", i), func(t *testing.T) {
			m, err := Fit(Isotonic, c.X, c.Y)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.X) != len(c.KnotsX) {
				t.Fatalf("%d knots, want %d", len(m.X), len(c.KnotsX))
			}
			for i := range m.X {
				near(t, "knot", m.X[i], c.KnotsX[i], 1e-12)
				near(t, "value at a knot", m.Y[i], c.KnotsY[i], 1e-12)
			}
			for i, x := range c.Points {
				y, _ := m.At(x)
				near(t, "value", y, c.Values[i], 1e-10)
			}
		})
	}
}

// TestPlatt compares the curve with sklearn's sigmoid calibration, whose minimum is accurate to about 1e-5.
func TestPlatt(t *testing.T) {
	for _, c := range read(t).Sigmoid {
		t.Run(c.Name, func(t *testing.T) {
			m, err := Fit(Platt, c.X, c.Y)
			if err != nil {
				t.Fatalf("%s: Fit: got error %v, want none", c.Name, err)
			}
			near(t, c.Name+" a", m.A, c.A, 2e-4*math.Abs(c.A))
			near(t, c.Name+" b", m.B, c.B, 2e-4*math.Max(1, math.Abs(c.B)))
			for i, x := range c.X {
				y, _ := m.At(x)
				near(t, c.Name, y, c.Predicted[i], 1e-4)
			}
		})
	}
}

// TestMeasures compares bins with sklearn's calibration_curve, and half widths with numpy's quantile.
func TestMeasures(t *testing.T) {
	for _, c := range read(t).Curve {
		t.Run(fmt.Sprintf("%d bins", c.Bins), func(t *testing.T) {
			k, sum, n := 0, 0.0, 0
			bins := Reliability(c.Scores, c.Labels, c.Bins)
			for _, b := range bins {
				if b.Count == 0 {
					continue
				}
				near(t, "score", b.Score, c.Score[k], 1e-12)
				near(t, "label", b.Label, c.Label[k], 1e-12)
				sum += float64(b.Count) * math.Abs(c.Score[k]-c.Label[k])
				n += b.Count
				k++
			}
			if k != len(c.Score) {
				t.Errorf("%d bins, want %d", k, len(c.Score))
			}
			near(t, "error", Error(bins), sum/float64(n), 1e-12)
		})
	}
	for _, c := range read(t).Conformal {
		t.Run(fmt.Sprintf("%d rows, coverage %g", len(c.Distances), c.Coverage), func(t *testing.T) {
			got, err := HalfWidth(c.Distances, make([]float64, len(c.Distances)), c.Coverage)
			if err != nil {
				t.Fatal(err)
			}
			near(t, "half width", got, c.HalfWidth, 0)
		})
	}
	if _, err := HalfWidth(make([]float64, 8), make([]float64, 8), 0.9); err == nil ||
		!strings.Contains(err.Error(), "at least 9") {
		t.Errorf("HalfWidth: got error %v, want one with %q", err, "at least 9")
	}
}

// draw returns scores and labels that rise together.
func draw(rng *rand.Rand, n int) (scores, labels []float64) {
	for range n {
		y := float64(rng.IntN(5)) / 4
		scores, labels = append(scores, 0.2+0.4*y+0.15*rng.NormFloat64()), append(labels, y)
	}
	return scores, labels
}

// TestCoverage: intervals contain the labels of new edits as often as promised.
func TestCoverage(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	sum := 0.0
	const runs = 200
	for range runs {
		scores, labels := draw(rng, 60)
		apply := func(m *Map, n int) (calibrated, labels []float64) {
			scores, labels := draw(rng, n)
			for i, s := range scores {
				scores[i], _ = m.At(s)
			}
			return scores, labels
		}
		m, err := Fit(Isotonic, scores, labels)
		if err != nil {
			t.Fatal(err)
		}
		s, y := apply(m, 49)
		half, err := HalfWidth(s, y, 0.8)
		if err != nil {
			t.Fatal(err)
		}
		s, y = apply(m, 500)
		sum += Coverage(s, y, half) / runs
	}
	if !(sum >= 0.79) || sum > 0.83 { // 0.8 to 0.8 + 1/50 in expectation, whatever the map
		t.Errorf("got coverage %.3f, want about 0.80", sum)
	}
}

// TestMaps: every map ascends everywhere, has the slope of finite differences, and is read back unchanged from its
// file.
func TestMaps(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	scores, labels := draw(rng, 400)
	binary := make([]float64, len(labels))
	for i, y := range labels {
		binary[i] = math.Round(y)
	}
	c := &Calibration{Format: 1, Scorer: "abc"}
	for _, method := range Methods() {
		y := labels
		if method == Platt {
			y = binary
		}
		m, err := Fit(method, scores, y)
		if err != nil {
			t.Fatalf("%s: Fit: got error %v, want none", method, err)
		}
		last := math.Inf(-1)
		for x := -1.0; x < 2; x += 0.00371 {
			v, slope := m.At(x)
			if v <= last || slope <= 0 {
				t.Fatalf("%s: at %g: got %g with slope %g, want at least %g and a positive slope", method, x, v, slope, last)
			}
			const h = 1e-7
			up, right := m.At(x + h)
			down, left := m.At(x - h)
			if right == left || method == Platt {
				near(t, method+": slope", slope, (up-down)/(2*h), 1e-6*math.Max(1, slope))
			}
			last = v
		}
		m.Dimension, m.Interval = method, &Interval{Coverage: 0.9, HalfWidth: 0.1}
		c = c.With(*m)
	}
	file := filepath.Join(t.TempDir(), File)
	if err := c.Write(file); err != nil {
		t.Fatal(err)
	}
	back, err := Read(file)
	if err != nil || len(back.Maps) != 3 {
		t.Fatalf("Read: got %v, %v, want 3 maps", back, err)
	}
	for _, m := range c.Maps {
		for _, x := range scores {
			a, _ := m.At(x)
			if b, _ := back.Find(m.Dimension).At(x); a != b {
				t.Fatalf("%s: got %v from the file, want %v", m.Method, b, a)
			}
		}
	}
	if len(c.With(c.Maps[1]).Maps) != 3 || back.Find("other") != nil {
		t.Errorf("got %d maps with one replaced, want 3; Find(other): got %v, want nil", len(c.With(c.Maps[1]).Maps),
			back.Find("other"))
	}
}

// TestInverse: edits with the same label get that label on average.
func TestInverse(t *testing.T) {
	scores, labels := draw(rand.New(rand.NewPCG(7, 8)), 4000)
	m, err := Fit(Inverse, scores, labels)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range []float64{0.2, 0.3, 0.4, 0.5, 0.6} {
		y, _ := m.At(x)
		near(t, "mean score of a label", y, float64(i)/4, 0.03)
	}
}

func TestRefused(t *testing.T) {
	for want, f := range map[string]func() (*Map, error){
		"do not rise":    func() (*Map, error) { return Fit(Isotonic, []float64{1, 2, 3}, []float64{1, 0.5, 0}) },
		"not rise with":  func() (*Map, error) { return Fit(Inverse, []float64{1, 2, 3}, []float64{1, 0.5, 0}) },
		"rise with the":  func() (*Map, error) { return Fit(Platt, []float64{1, 2, 3}, []float64{1, 0, 0}) },
		"labels 0 and 1": func() (*Map, error) { return Fit(Platt, []float64{1, 2, 3}, []float64{1, 0.5, 0}) },
		"are the same":   func() (*Map, error) { return Fit(Platt, []float64{1, 2}, []float64{1, 1}) },
		"row 1":          func() (*Map, error) { return Fit(Isotonic, []float64{1, math.NaN()}, []float64{0, 1}) },
		"0 to 1":         func() (*Map, error) { return Fit(Isotonic, []float64{1, 2}, []float64{0, 10}) },
		"want one of":    func() (*Map, error) { return Fit("spline", []float64{1, 2}, []float64{0, 1}) },
	} {
		t.Run(want, func(t *testing.T) {
			if _, err := f(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
	dir := t.TempDir()
	for want, text := range map[string]string{
		"format 2":        `{"format": 2, "scorer": "", "maps": []}`,
		"unknown field":   `{"format": 1, "scorer": "", "maps": [], "more": 1}`,
		"does not ascend": `{"format": 1, "maps": [{"method": "isotonic", "x": [0, 1], "y": [1, 1]}]}`,
		"two knots":       `{"format": 1, "maps": [{"method": "isotonic", "x": [0], "y": [1]}]}`,
		"a below 0":       `{"format": 1, "maps": [{"method": "platt", "a": 1}]}`,
		"duplicate":       `{"format": 1, "maps": [{"method": "platt", "a": -1}, {"method": "platt", "a": -1}]}`,
		"unexpected data": `{"format": 1, "scorer": "", "maps": []} {}`,
	} {
		t.Run(want, func(t *testing.T) {
			file := filepath.Join(dir, "c.json")
			if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := Read(file); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, want %q", err, want)
			}
		})
	}
}
