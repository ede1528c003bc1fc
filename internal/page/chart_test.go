package page

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

func TestChart(t *testing.T) {
	nan := math.NaN()
	got := string(Chart("loss <of> a run", "step", Series{Name: "loss", Color: "--accent", X: []float64{0, 1, 2, 3, 4},
		Y: []float64{4, 3, nan, 1, 0}}, Series{Name: "l1", Color: "--truth", X: []float64{2}, Y: []float64{2}, Marks: true}))
	for _, want := range []string{
		`aria-label="loss &lt;of&gt; a run"`,
		`d="M52.0 8.0L197.0 54.5M487.0 147.5L632.0 194.0"`, // a gap where there is no number
		`<circle cx="342.0" cy="101.0" r="3.5" fill="var(--truth)"/>`,
		">step</text>",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got %s, want %s in it", got, want)
		}
	}
	for name, s := range map[string]Series{"no points": {}, "no number": {X: []float64{1}, Y: []float64{nan}}} {
		if got := Chart("", "", s); got != "" {
			t.Errorf("%s: got %s, want nothing", name, got)
		}
	}
	if got := string(Chart("", "", Series{X: []float64{7}, Y: []float64{3}, Marks: true})); !strings.Contains(got,
		`<circle cx="342.0" cy="101.0"`) {
		t.Errorf("one point: got %s, want it in the middle", got)
	}
}

func TestTicks(t *testing.T) {
	for _, c := range []struct {
		lo, hi float64
		want   string
	}{
		{0, 1, "[0 0.2 0.4 0.6 0.8 1]"}, {0, 270, "[0 50 100 150 200 250]"}, {-1, 1, "[-1 -0.5 0 0.5 1]"},
		{0.7115, 0.7573, "[0.72 0.73 0.74 0.75]"}, {3, 3, "[3]"}, {0.3, math.Nextafter(0.3, 1), "[0.3]"},
		{-1, math.Nextafter(-1, 0), "[-1]"}, {0, 6, "[0 2 4 6]"},
	} {
		t.Run(fmt.Sprint(c.lo, " to ", c.hi), func(t *testing.T) {
			var got []string
			for _, v := range ticks([2]float64{c.lo, c.hi}) {
				got = append(got, fmt.Sprintf("%.4g", v))
			}
			if text := "[" + strings.Join(got, " ") + "]"; text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}
