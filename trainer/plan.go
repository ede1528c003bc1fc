package trainer

import (
	"context"
	"fmt"

	"assay/internal/exit"
)

// planSample is the number of examples a plan looks at.
const planSample = 64

// rowBytes is what a row of the tables takes in memory, with what is computed of all rows when a run begins. Runs over
// 20,000 and 200,000 edits of preferences differed by so much for each.
const rowBytes = 1800

// PlanOptions say how a run is planned.
type PlanOptions struct {
	Progress  func(what string, total int64, unit string) Progress // of the look at all rows; nil: none
	Benchmark BenchmarkOpener                                      // as Options.Benchmark
	Ranks     int                                                  // processes that would train together; 0: one
}

// DryRun says what a run would do and need, without training or writing anything. The part that only the model knows is
// empty if the model is no Planner.
func DryRun(ctx context.Context, c *Config, f Factory, more ...PlanOptions) (plan *Plan, err error) {
	var o PlanOptions
	if len(more) > 0 {
		o = more[0]
	}
	tables, err := OpenData(c)
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	r := &run{config: c, data: tables, valid: tables.Validation}
	if err := r.openBenchmark(o.Benchmark); err != nil {
		return nil, err
	}
	here := r.ranks.here(c)
	here.Ranks = o.Ranks
	if r.model, err = f(ctx, here); err != nil {
		return nil, err
	}
	defer func() { err = joinErrors(err, r.model.Close()) }()
	if err := r.inspect(ctx, (&Options{Progress: o.Progress}).bar); err != nil {
		return nil, err
	}
	if err := r.allow(); err != nil {
		return nil, exit.Usage(err)
	}
	r.dropBad()
	if err := r.length(); err != nil {
		return nil, err
	}
	if err := r.checkComparable(nil); err != nil {
		return nil, err
	}
	if _, err = c.groupsOf(r.model.Params()); err != nil {
		return nil, err
	}
	r.trains = r.describeTrained()
	p, ok := r.model.(Planner)
	if !ok {
		return r.complete(&Plan{MicroBatch: c.BatchSize}), nil
	}
	return r.plan(ctx, p)
}

// plan asks the model about the first examples of the run.
func (r *run) plan(ctx context.Context, p Planner) (*Plan, error) {
	one := &run{config: r.config, data: r.data, order: r.order, groups: r.groups, limit: r.limit}
	var sample []Example
	for len(sample) < planSample && one.state.Samples < r.limit {
		batch, err := one.batch()
		if err != nil {
			return nil, err
		}
		units := 0
		if len(sample) > 0 {
			units = sample[len(sample)-1].Unit + 1
		}
		for i := range batch {
			batch[i].Unit += units
		}
		sample = append(sample, batch...)
		one.state.Samples = one.next()
	}
	if e, ok := p.(interface{ Expect(rows, validation int) }); ok {
		e.Expect(r.data.Train.Len(), r.valid.Len())
	}
	if e, ok := p.(interface{ ExpectGroup(edits int) }); ok && r.groups != nil {
		e.ExpectGroup(r.groups.largest(r.order))
	}
	plan, err := p.Plan(ctx, sample[:min(len(sample), planSample)])
	if err != nil {
		return nil, err
	}
	return r.complete(plan), nil
}

// Err says why the run that is planned would fail: a shard of the weights is missing, or there is too little memory.
// Weights that are absent as a whole are no reason: a run can be planned before they are fetched.
func (p *Plan) Err() error {
	switch {
	case p.Partly:
		return fmt.Errorf("the run would fail: %s", p.Absent)
	case p.Fits != nil && !*p.Fits:
		return fmt.Errorf("the run would not fit: it needs %.1f GB, %.1f GB are free", float64(p.Need)/1e9,
			float64(p.Memory)/1e9)
	}
	return nil
}

func (r *run) complete(p *Plan) *Plan {
	c := r.config
	p.Steps, p.Examples, p.BatchSize, p.Trains = r.total, r.limit, c.BatchSize, r.trains
	if r.groups != nil {
		p.Examples, p.Groups = r.edits, r.limit
	}
	p.BadRows = r.badRows()
	p.Rows, p.Validation, p.Warnings = r.data.Train.Len(), r.valid.Len(), r.data.Warnings
	if c.MicroBatch != Auto {
		p.MicroBatch = int(c.MicroBatch)
	}
	p.MicroBatch = min(max(p.MicroBatch, 1), c.BatchSize)
	p.Found = r.found()
	if r.benchmark != nil {
		p.Benchmark = r.benchmark.String()
	}
	if here := p.Bytes; here != nil {
		if p.Host != nil {
			here = p.Host
		}
		here["program"] += int64(p.Rows+p.Validation) * rowBytes
	}
	if p.Need = total(p.Bytes); p.Memory > 0 {
		fits := p.Need <= p.Memory
		p.Fits = &fits
	}
	return p
}
