package curate

import (
	"math"

	"gonum.org/v1/gonum/stat"

	"assay/data"
	"assay/internal/stats"
)

// fact is a named number.
type fact struct {
	name  string
	value float64
}

// measureEdit computes simple statistics of an edited picture, in order, that show reward hacking (an editor that
// optimises only its reward). None needs a model. The source is resized to the edit for change.
func measureEdit(source, edit *data.Picture) []fact {
	var (
		change     float64 // mean absolute difference to the source, 0..1
		saturation float64 // mean of (max - min) / max over the channels
		edges      float64 // share of pixels whose Sobel gradient of luma is above 0.25 per pixel
		grain      float64 // mean absolute 4-neighbour Laplacian of luma, 0..1: high-frequency noise
		clipped    float64 // share of channel values at 0 or 255
	)
	n := float64(edit.Width * edit.Height)
	s := source.Resize(edit.Width, edit.Height, data.Bicubic)
	luma := make([]float64, edit.Width*edit.Height)
	sum, squares := 0.0, 0.0
	for i := range luma {
		p, q := edit.Pix[3*i:3*i+3], s.Pix[3*i:3*i+3]
		hi, lo := max(p[0], p[1], p[2]), min(p[0], p[1], p[2])
		if hi > 0 {
			saturation += float64(hi-lo) / float64(hi) / n
		}
		for c, v := range p {
			change += math.Abs(float64(v)-float64(q[c])) / 255 / 3 / n
			if v == 0 || v == 255 {
				clipped += 1 / (3 * n)
			}
		}
		luma[i] = (0.299*float64(p[0]) + 0.587*float64(p[1]) + 0.114*float64(p[2])) / 255
		sum += luma[i]
		squares += luma[i] * luma[i]
	}
	brightness := sum / n // mean luma, 0..1
	contrast := math.Sqrt(max(0, squares/n-brightness*brightness))
	w, inner := edit.Width, float64(max(1, (edit.Width-2)*(edit.Height-2)))
	for y := 1; y < edit.Height-1; y++ {
		for x := 1; x < w-1; x++ {
			at := func(dx, dy int) float64 { return luma[(y+dy)*w+x+dx] }
			gx := (at(1, -1) + 2*at(1, 0) + at(1, 1) - at(-1, -1) - 2*at(-1, 0) - at(-1, 1)) / 8
			gy := (at(-1, 1) + 2*at(0, 1) + at(1, 1) - at(-1, -1) - 2*at(0, -1) - at(1, -1)) / 8
			if math.Hypot(gx, gy) > 0.25/2 { // the kernel spans two pixels
				edges += 1 / inner
			}
			grain += math.Abs(4*at(0, 0)-at(1, 0)-at(-1, 0)-at(0, 1)-at(0, -1)) / 4 / inner
		}
	}
	return []fact{{"change", change}, {"brightness", brightness}, {"contrast", contrast}, {"saturation", saturation},
		{"edges", edges}, {"grain", grain}, {"clipped", clipped}}
}

// FactDrift compares one statistic of the outputs of two checkpoints.
type FactDrift struct {
	Name        string   `json:"name"`
	Before      float64  `json:"before"` // means
	After       float64  `json:"after"`
	Difference  float64  `json:"difference"`
	Deviation   float64  `json:"deviation"`   // standard deviation of before
	Shift       *float64 `json:"shift"`       // difference in deviations; null: before has none
	Correlation *float64 `json:"correlation"` // of the fact with the score, within after; null: one is constant
}

// shifted returns the difference in standard deviations; infinite if before was constant and after differs.
func (m *FactDrift) shifted() float64 {
	switch {
	case m.Shift != nil:
		return *m.Shift
	case math.Abs(m.Difference) <= rounding*math.Abs(m.Before):
		return 0
	}
	return math.Inf(int(math.Copysign(1, m.Difference)))
}

// rounding is the relative deviation below which a statistic counts as constant.
const rounding = 1e-12

// compare compares a statistic of two checkpoints. scoreAfter are the scores of after, in order.
func compare(name string, before, after, scoreAfter []float64) FactDrift {
	m := FactDrift{Name: name}
	m.Before, m.Deviation = stat.PopMeanStdDev(before, nil)
	m.After = stat.Mean(after, nil)
	m.Difference = m.After - m.Before
	if m.Deviation > rounding*math.Abs(m.Before) {
		shift := m.Difference / m.Deviation
		m.Shift = &shift
	}
	if r := stats.Pearson(after, scoreAfter); !math.IsNaN(r) {
		m.Correlation = &r
	}
	return m
}

// warnings lists signs of reward hacking: the score rises while a statistic moves by more than half a standard
// deviation.
func warnings(score FactDrift, facts []FactDrift) []string {
	var out []string
	if score.Difference <= 0 {
		return nil
	}
	for _, f := range facts {
		switch {
		case f.Name == heldOut: // see [Confirmation]
		case f.Name == "clip_i" && f.shifted() < -0.5:
			out = append(out, "edits resemble their sources less and less (CLIP-I falls) while the score rises")
		case f.Name == "change" && f.shifted() < -0.5:
			out = append(out, "edits change less and less of the source while the score rises")
		case f.Name != "clip_i" && f.Name != "change" && math.Abs(f.shifted()) > 0.5:
			out = append(out,
				f.Name+" moved by more than half a standard deviation while the score rose: look at the pictures")
		}
	}
	return out
}
