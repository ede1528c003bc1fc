package trainer

import (
	"path/filepath"

	"assay/internal/jsonfile"
	"assay/trainer/config"
	"assay/trainer/models"
)

// writePlan puts plan.json into the run directory.
func (t *Trainer) writePlan() error {
	p := models.Resolved{Trains: t.trains, MicroBatch: t.state.MicroBatch}
	if m, ok := t.model.(models.Resolver); ok {
		p.Auto = m.Resolved()
	}
	return jsonfile.Write(filepath.Join(t.config.Out, config.PlanFile), p)
}
