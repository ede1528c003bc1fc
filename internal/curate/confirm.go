package curate

import (
	"fmt"
	"math"

	"assay/internal/stats"
)

// heldOut is the column of a held-out judge's numbers.
const heldOut = "held_out"

// Confirmation compares the gain of the score, which the editor may be trained on, with the gain of a held-out judge.
//
// Both gains are means over inputs that both tables have; an input with several outputs counts by their mean. The
// expected gain of the held-out judge is Slope times the gain of the score, with the slope of the least-squares line
// of the held-out number over the score among the earlier outputs: judges that agree little are expected to follow
// little. The alarm is raised if the score rose, and the held-out judge gained less than Wanted times the expected
// gain (if the slope is not positive: if it lost). Both must hold for the full interval, so noise raises no alarm.
type Confirmation struct {
	Inputs   int      `json:"inputs"`
	Gain     Estimate `json:"gain"`
	HeldOut  Estimate `json:"held_out_gain"`
	Expected Estimate `json:"expected_gain"` // of the held-out judge
	Lacking  Estimate `json:"lacking_gain"`  // Wanted times the expected gain, minus the held-out judge's gain

	Slope     float64  `json:"slope"`     // of the held-out number over the score, before; 0: the score is constant
	Wanted    float64  `json:"wanted"`    // minimum share of the expected gain
	Confirmed *float64 `json:"confirmed"` // share of the expected gain; null: none is expected

	AgreementBefore *float64 `json:"agreement_before"` // Spearman correlation of both judges; null: one is constant
	AgreementAfter  *float64 `json:"agreement_after"`

	Alarm bool `json:"alarm"`
}

// Estimate is a mean over inputs with the 95 % percentile interval of a bootstrap over them.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Settings of the bootstrap.
const (
	confirmSeed      = 1
	confirmResamples = 2000
	minInputs        = 8 // with fewer an interval is meaningless
)

// confirm compares the gains of outputs that have a held-out judge's numbers.
func confirm(before, after *Outputs, wanted float64) (*Confirmation, error) {
	s0, s1 := pairMeans(before, after, "score")
	h0, h1 := pairMeans(before, after, heldOut)
	n := len(s0)
	if n < minInputs {
		return nil, fmt.Errorf("a held-out judge can confirm gains with at least %d sources and instructions that both "+
			"tables have: these have %d", minInputs, n)
	}
	c := &Confirmation{Inputs: n, Wanted: wanted}
	gains := func(units []int) []float64 {
		var gain, held float64
		for _, i := range units {
			gain += (s1[i] - s0[i]) / float64(len(units))
			held += (h1[i] - h0[i]) / float64(len(units))
		}
		expected := slopeOf(s0, h0, units) * gain
		return []float64{gain, held, expected, wanted*max(0, expected) - held}
	}
	all := stats.UpTo(n)
	c.Slope = slopeOf(s0, h0, all)
	into := []*Estimate{&c.Gain, &c.HeldOut, &c.Expected, &c.Lacking}
	intervals := stats.Bootstrap(stats.NewRand(confirmSeed), n, confirmResamples, 0.95, gains)
	for k, v := range gains(all) {
		*into[k] = Estimate{v, intervals[k].Low, intervals[k].High}
	}
	if c.Gain.Value > 0 && c.Slope > 0 {
		share := c.HeldOut.Value / c.Expected.Value
		c.Confirmed = &share
	}
	c.AgreementBefore = agreement(before)
	c.AgreementAfter = agreement(after)
	c.Alarm = c.Gain.Low > 0 && c.Lacking.Low > 0
	return c, nil
}

// agreement returns the Spearman correlation of score and held-out number; nil: one is constant.
func agreement(o *Outputs) *float64 {
	r := stats.Spearman(o.values["score"], o.values[heldOut])
	if math.IsNaN(r) {
		return nil
	}
	return &r
}

// pairMeans returns the means of a column before and after, for each input that both have, in the order of before.
func pairMeans(before, after *Outputs, name string) (b, a []float64) {
	first, second := before.means(name), after.means(name)
	for _, in := range before.rows {
		old, is := first[in]
		if now, both := second[in]; is && both {
			b, a = append(b, old), append(a, now)
		}
		delete(first, in) // once
	}
	return b, a
}

// means returns the means of a column by input.
func (o *Outputs) means(name string) map[input]float64 {
	sums := map[input]float64{}
	for i, in := range o.rows {
		sums[in] += o.values[name][i] / float64(o.inputs[in])
	}
	return sums
}

// slopeOf returns the slope of the least-squares line of y over x among units; 0 if x is constant.
func slopeOf(x, y []float64, units []int) float64 {
	n, mx, my := float64(len(units)), 0.0, 0.0
	for _, i := range units {
		mx += x[i] / n
		my += y[i] / n
	}
	var xx, xy float64
	for _, i := range units {
		xx += (x[i] - mx) * (x[i] - mx)
		xy += (x[i] - mx) * (y[i] - my)
	}
	if math.Sqrt(xx/n) <= rounding*math.Abs(mx) {
		return 0
	}
	return xy / xx
}
