package trainer

import (
	"context"

	"assay/internal/exit"
	"assay/trainer/config"
	"assay/trainer/dataset"
	"assay/trainer/models"
	"assay/trainer/optimizer"
)

// planSample is the number of examples a plan looks at.
const planSample = 64

// rowBytes is what a row of the tables takes in memory, with what is computed of all rows when a run begins. Runs over
// 20,000 and 200,000 edits of preferences differed by so much for each.
const rowBytes = 1800

// PlanOptions say how a run is planned.
type PlanOptions struct {
	Progress  func(what string, total int64, unit string) dataset.Progress // of the look at all rows; nil: none
	Benchmark BenchmarkOpener                                              // as Options.Benchmark
	Ranks     int                                                          // processes that would train together; 0: one
}

// DryRun says what a run would do and need, without training or writing anything. The part that only the model knows is
// empty if the model is no Planner.
func DryRun(ctx context.Context, c *config.Config, f models.Factory, more ...PlanOptions) (plan *models.Plan, err error) {
	var o PlanOptions
	if len(more) > 0 {
		o = more[0]
	}
	tables, err := dataset.Open(c)
	if err != nil {
		return nil, err
	}
	defer tables.Close()
	t := &Trainer{config: c, data: tables, strategy: single{}}
	if err := t.openBenchmark(o.Benchmark); err != nil {
		return nil, err
	}
	if t.model, err = f(ctx, config.OnDevice(c, o.Ranks, 0)); err != nil {
		return nil, err
	}
	defer func() { err = exit.Join(err, t.model.Close()) }()
	if err := t.inspect(ctx, (&Options{Progress: o.Progress}).bar); err != nil {
		return nil, err
	}
	if err := t.data.AllowBadRows(c.Data.Skip); err != nil {
		return nil, exit.Usage(err)
	}
	t.data.DropBadRows()
	if err := t.order(); err != nil {
		return nil, err
	}
	if err := t.checkComparable(nil); err != nil {
		return nil, err
	}
	if _, err = optimizer.GroupsOf(c, t.model.Params()); err != nil {
		return nil, err
	}
	t.trains = t.describeTrained()
	p, ok := t.model.(models.Planner)
	if !ok {
		return t.complete(&models.Plan{MicroBatch: c.BatchSize}), nil
	}
	return t.plan(ctx, p)
}

// plan asks the model about the first examples of the run.
func (t *Trainer) plan(ctx context.Context, p models.Planner) (*models.Plan, error) {
	var sample []dataset.Example
	for at := int64(0); len(sample) < planSample && at < t.loader.Limit; at = t.loader.Next(at) {
		batch, err := t.loader.Read(at)
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
	}
	if e, ok := p.(interface{ Expect(rows, validation int) }); ok {
		e.Expect(t.data.Train.Len(), t.data.Validation.Len())
	}
	if e, ok := p.(interface{ ExpectGroup(edits int) }); ok && t.loader.Groups != nil {
		e.ExpectGroup(t.loader.Largest())
	}
	plan, err := p.Plan(ctx, sample[:min(len(sample), planSample)])
	if err != nil {
		return nil, err
	}
	return t.complete(plan), nil
}

func (t *Trainer) complete(p *models.Plan) *models.Plan {
	c := t.config
	p.Steps, p.Examples, p.BatchSize, p.Trains = t.loader.Steps, t.loader.Limit, c.BatchSize, t.trains
	if t.loader.Groups != nil {
		p.Examples, p.Groups = t.loader.Edits, t.loader.Limit
	}
	p.BadRows = t.data.BadRows()
	p.Rows, p.Validation, p.Warnings = t.data.Train.Len(), t.data.Validation.Len(), t.data.Warnings
	if c.MicroBatch != config.Auto {
		p.MicroBatch = int(c.MicroBatch)
	}
	p.MicroBatch = min(max(p.MicroBatch, 1), c.BatchSize)
	p.Summary = t.objective.Summarize(t.data)
	if t.benchmark != nil {
		p.Benchmark = t.benchmark.String()
	}
	if here := p.Bytes; here != nil {
		if p.Host != nil {
			here = p.Host
		}
		here["program"] += int64(p.Rows+p.Validation) * rowBytes
	}
	if p.Need = models.Total(p.Bytes); p.Memory > 0 {
		fits := p.Need <= p.Memory
		p.Fits = &fits
	}
	return p
}
