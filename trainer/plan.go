package trainer

import (
	"context"
	"errors"
)

// planSample is the number of examples a plan looks at.
const planSample = 64

// DryRun says what a run would do and need, without training or writing anything. The part that only the model knows is
// empty if the model is no Planner.
func DryRun(ctx context.Context, c *Config, f Factory) (plan *Plan, err error) {
	tables, err := OpenData(c)
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	r := &run{config: c, data: tables, valid: tables.Validation}
	r.length()
	if r.model, err = f(ctx, c); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.model.Close()) }()
	r.trains = describeModel(r.model)
	r.trains.Departures = c.Departures()
	p, ok := r.model.(Planner)
	if !ok {
		return r.complete(&Plan{MicroBatch: c.BatchSize}), nil
	}
	return r.plan(ctx, p)
}

// plan asks the model about the first examples of the run.
func (r *run) plan(ctx context.Context, p Planner) (*Plan, error) {
	one := &run{config: r.config, data: r.data, order: r.order, limit: r.limit}
	var sample []Example
	for int64(len(sample)) < min(planSample, r.limit) {
		batch, err := one.batch()
		if err != nil {
			return nil, err
		}
		sample = append(sample, batch...)
		one.state.Samples += int64(len(batch))
	}
	plan, err := p.Plan(ctx, sample[:min(len(sample), planSample)])
	if err != nil {
		return nil, err
	}
	return r.complete(plan), nil
}

func (r *run) complete(p *Plan) *Plan {
	c := r.config
	p.Steps, p.Examples, p.BatchSize, p.Trains = r.total, r.limit, c.BatchSize, r.trains
	p.Rows, p.Validation = r.data.Train.Len(), r.valid.Len()
	if c.MicroBatch != Auto {
		p.MicroBatch = int(c.MicroBatch)
	}
	p.MicroBatch = min(max(p.MicroBatch, 1), c.BatchSize)
	return p
}
