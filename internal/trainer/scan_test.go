package trainer

import (
	"testing"

	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
)

// TestPlanCountsRows: the rows of the tables count as memory of the program.
func TestPlanCountsRows(t *testing.T) {
	r := &setup{Trainer: &Trainer{config: &config.Config{BatchSize: 1}, objective: &objective.Objective{},
		loader: &dataset.Loader{BatchSampler: &dataset.BatchSampler{}}, validator: &validator{},
		data: &dataset.Data{Train: &dataset.Samples{Rows: make([]dataset.Row, 900)},
			Validation: &dataset.Samples{Rows: make([]dataset.Row, 100)}}}}
	p := r.complete(&models.Plan{MemoryNeed: models.MemoryNeed{Bytes: map[string]int64{"program": 7}}})
	if want := int64(7 + 1000*rowBytes); p.Bytes["program"] != want || p.Need != want {
		t.Errorf("%d bytes, want %d", p.Bytes["program"], want)
	}
	p = r.complete(&models.Plan{MemoryNeed: models.MemoryNeed{
		Bytes: map[string]int64{"weights": 5}, Host: map[string]int64{"program": 7}}})
	if p.Need != 5 || p.Host["program"] != 7+1000*rowBytes {
		t.Errorf("beside a GPU: %v, %v", p.Bytes, p.Host)
	}
}
