package optim

import "math"

// Plateau decides when a learning rate is cut because a metric stopped improving. It is
// torch.optim.lr_scheduler.ReduceLROnPlateau with threshold_mode rel and without a cooldown. The rate is cut after
// more than Patience measurements in a row that did not improve on the best one by the fraction Threshold.
type Plateau struct {
	Patience  int64
	Threshold float64
	Rising    bool // higher is better

	PlateauState
}

// PlateauState is the state of a Plateau, saved in checkpoints.
type PlateauState struct {
	Seen bool    `json:"seen"` // there was a measurement
	Best float64 `json:"best"` // the best one
	Bad  int64   `json:"bad"`  // measurements in a row without improvement
	Cuts int64   `json:"cuts"` // number of cuts so far
}

// Measure records one measurement; NaN is not an improvement. It reports whether the rate is cut.
func (p *Plateau) Measure(x float64) bool {
	better := x < p.Best*(1-p.Threshold)
	if p.Rising {
		better = x > p.Best*(1+p.Threshold)
	}
	if better || !p.Seen && !math.IsNaN(x) {
		p.Seen, p.Best, p.Bad = true, x, 0
		return false
	}
	if p.Bad++; p.Bad <= p.Patience {
		return false
	}
	p.Bad = 0
	p.Cuts++
	return true
}
