package trainer

import (
	"context"
	"fmt"

	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
)

// quarantine sets aside unusable rows, as many as data.skip allows.
type quarantine struct {
	config    *config.Config
	data      *dataset.Data
	inspector dataset.Inspector // the model; nil: it cannot check rows
	strategy  Strategy
}

func newQuarantine(c *config.Config, d *dataset.Data, m models.Model, s Strategy) *quarantine {
	inspector, _ := m.(dataset.Inspector)
	return &quarantine{c, d, inspector, s}
}

// check checks every row before the first step, and sets aside unusable rows if the budget allows it.
func (q *quarantine) check(ctx context.Context, o *Options, fresh bool) error {
	if err := q.inspect(ctx, o); err != nil {
		return err
	}
	if err := q.data.AllowBadRows(q.config.Data.Skip); err != nil {
		if !fresh { // saved so that a user who repairs the tables may change these rows
			err = exit.Join(err, q.save())
		}
		return exit.Usage(err)
	}
	if fresh {
		q.data.DropBadRows()
	}
	if q.data.Train.Len() == 0 {
		return exit.Usagef("data.train: no rows are left to train on")
	}
	if fresh && q.data.Validation.Len() == 0 && q.config.Data.Validates() {
		return exit.Usagef("data.validation: no rows are left to validate on")
	}
	return nil
}

// inspect checks all rows that the run will use and marks the unusable ones.
func (q *quarantine) inspect(ctx context.Context, o *Options) error {
	if q.inspector == nil {
		return nil
	}
	rows := func(n int64) dataset.Progress { return o.bar("checking rows", n, "rows") }
	return q.data.CheckRows(ctx, q.inspector, q.config.Validate.Limit, rows, q.strategy.Mine,
		func(bad map[int]string, err error) (map[int]string, error) {
			err = q.strategy.Union("rows that cannot be used", &bad, err)
			return bad, err
		})
}

// setAside finds the bad rows in a batch that failed, and sets them aside if data.skip allows it. It returns nil if
// the step can be retried without them, and err or a BadRowsError otherwise. All processes must find the same rows.
func (q *quarantine) setAside(batch []dataset.Example, validation bool, step int64, err error) error {
	if !q.strategy.Knows(err) { // the processes have lost each other
		return err
	}
	left := err
	if q.inspector != nil {
		found, failed := q.data.Quarantine(q.inspector, batch, validation, step)
		if failed != nil {
			left = failed
		} else if found {
			left = exit.Join(q.data.AllowBadRows(q.config.Data.Skip), q.save())
		}
	}
	differ := q.strategy.Same("rows that are set aside", func() (map[string]string, error) {
		bad := map[string]string{"after it": fmt.Sprint(left == nil)}
		for _, b := range q.data.BadRows() {
			bad[fmt.Sprintf("row %d of %s", b.Row, b.Table)] = b.Reason
		}
		return bad, nil
	})
	if differ != nil {
		return fmt.Errorf("%w\nafter %w", differ, left)
	}
	return q.strategy.Agree("rows that are set aside", left)
}

// save writes the list of unusable rows.
func (q *quarantine) save() error {
	if !q.strategy.Main() {
		return nil
	}
	return q.data.SaveBadRows(q.config.Out)
}
