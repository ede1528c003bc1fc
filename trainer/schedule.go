package trainer

import (
	"assay/optim"
	"assay/trainer/records"
)

// measurePlateaus lets the schedules of kind plateau see a validation.
func (t *Trainer) measurePlateaus(m *records.ValidationMetrics) {
	for owner, s := range t.config.Plateaus() {
		p := optim.Plateau{Patience: s.Patience, Threshold: s.Threshold, Rising: !m.Falling(t.by(m))}
		if kept := t.state.Plateaus[owner]; kept != nil {
			p.PlateauState = *kept
		}
		p.Measure(m.Number(t.by(m)))
		if t.state.Plateaus == nil {
			t.state.Plateaus = map[string]*optim.PlateauState{}
		}
		t.state.Plateaus[owner] = &p.PlateauState
	}
}
