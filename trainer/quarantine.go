package trainer

import (
	"context"
	"fmt"

	"assay/internal/exit"
	"assay/trainer/dataset"
)

// inspect looks at all rows that the run will use and marks those that cannot be used.
func (t *Trainer) inspect(ctx context.Context, bar func(what string, total int64, unit string) dataset.Progress) error {
	model, ok := t.model.(dataset.Inspector)
	if !ok {
		return nil
	}
	rows := func(n int64) dataset.Progress { return bar("checking rows", n, "rows") }
	return t.data.CheckRows(ctx, model, t.config.Validate.Limit, rows, t.strategy.Mine,
		func(bad map[int]string, err error) (map[int]string, error) {
			err = t.strategy.Union("rows that cannot be used", &bad, err)
			return bad, err
		})
}

// quarantine finds which rows of a batch that failed are bad themselves, and sets them aside if data.skip allows it. It
// returns nil if the step may be tried again without them, and err or a BadRowsError otherwise. All processes must find
// the same rows.
func (t *Trainer) quarantine(batch []dataset.Example, validation bool, err error) error {
	if !t.strategy.Knows(err) { // the processes have lost each other
		return err
	}
	left := err
	if model, ok := t.model.(dataset.Inspector); ok {
		found, failed := t.data.Quarantine(model, batch, validation, t.state.Step+1)
		if failed != nil {
			left = failed
		} else if found {
			left = exit.Join(t.data.AllowBadRows(t.config.Data.Skip), t.saveBadRows())
		}
	}
	differ := t.strategy.Same("rows that are set aside", func() (map[string]string, error) {
		bad := map[string]string{"after it": fmt.Sprint(left == nil)}
		for _, b := range t.data.BadRows() {
			bad[fmt.Sprintf("row %d of %s", b.Row, b.Table)] = b.Reason
		}
		return bad, nil
	})
	if differ != nil {
		return fmt.Errorf("%w\nafter %w", differ, left)
	}
	return t.strategy.Agree("rows that are set aside", left)
}

func (t *Trainer) saveBadRows() error {
	if !t.strategy.Main() {
		return nil
	}
	return t.data.SaveBadRows(t.config.Out)
}

// checkRows looks at every row before the first step, and sets aside those that cannot be used if the budget allows it.
func (t *Trainer) checkRows(ctx context.Context, o *Options, fresh bool) error {
	if err := t.inspect(ctx, o.bar); err != nil {
		return err
	}
	if err := t.data.AllowBadRows(t.config.Data.Skip); err != nil {
		if !fresh { // whoever repairs the tables may then change these rows
			err = exit.Join(err, t.saveBadRows())
		}
		return exit.Usage(err)
	}
	if fresh {
		t.data.DropBadRows()
	}
	if t.data.Train.Len() == 0 {
		return exit.Usagef("data.train: no rows are left to train on")
	}
	return nil
}
