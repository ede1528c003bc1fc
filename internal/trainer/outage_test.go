package trainer

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"

	"assay/internal/remote"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
)

// outage is a model on object storage that fails after reading some rows.
type outage struct {
	*fake
	looks atomic.Int64
	after int64
}

func (m *outage) Inspector() func(*dataset.Example) error {
	return func(*dataset.Example) error {
		if m.looks.Add(1) > m.after {
			return &remote.Error{Doing: "reading", Name: "s3://b/x.png", Err: context.Canceled} // as all that is given up
		}
		return nil
	}
}

func (m *outage) Step(context.Context, []dataset.Example, models.StepInput) (*models.StepResult, error) {
	return nil, &remote.Error{Doing: "reading", Name: "s3://b/x.png", Err: context.Canceled}
}

// TestOutageIsNoBadRow: rows for which the storage did not respond are not set aside, neither at the start nor in a
// step. Checking stops at the first of them.
func TestOutageIsNoBadRow(t *testing.T) {
	for _, after := range []int64{5, 30} { // at the start; 30 rows are looked at, so in a step
		path := writeRun(t, 30, "steps: 4\n")
		rewrite(t, path, func(s string) string { return strings.Replace(s, "data: {", "data: {skip: 1000, ", 1) })
		c, err := config.Load(path)
		if err != nil || c.Data.Skip != 1000 {
			t.Fatal(c.Data.Skip, err)
		}
		m := &outage{fake: newFake(), after: after}
		open := func(context.Context, *config.Config) (models.Model, error) { return m, nil }
		_, err = Train(context.Background(), Options{Config: c, Factory: open})
		if !remote.Failed(err) {
			t.Errorf("after %d looks: %v", after, err)
		}
		if ids := badRowsOf(t, path); len(ids) > 0 {
			t.Errorf("after %d looks rows were set aside: %v", after, ids)
		}
		if n := m.looks.Load(); after == 5 && n > 20 {
			t.Errorf("%d rows were looked at after the sixth had failed", n)
		}
	}
}
