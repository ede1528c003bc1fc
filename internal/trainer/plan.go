package trainer

import (
	"context"
	"fmt"
	"slices"

	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/optimizer"
)

// planSample is the number of examples a plan looks at.
const planSample = 64

// rowBytes is the memory that a row of the tables takes, including what is computed from all rows when a run begins.
// Measured as the difference per edit between runs over 20,000 and 200,000 preference edits.
const rowBytes = 1800

// PlanOptions configure DryRun.
type PlanOptions struct {
	Progress  func(what string, total int64, unit string) dataset.Progress // of checking all rows; nil: none
	Benchmark BenchmarkOpener                                              // see Options.Benchmark
	Ranks     int                                                          // processes that would train together; 0: one
}

// DryRun returns what a run would do and need, without training or writing anything. The part that only the model
// knows is empty if the model is not a Planner.
func DryRun(
	ctx context.Context, c *config.Config, f models.Factory, more ...PlanOptions,
) (plan *models.Plan, err error) {
	var o PlanOptions
	if len(more) > 0 {
		o = more[0]
	}
	s := &setup{Trainer: &Trainer{config: c, strategy: single{}},
		o:    &Options{Config: c, Factory: f, Progress: o.Progress, Benchmark: o.Benchmark},
		here: config.OnDevice(c, o.Ranks, 0)}
	defer func() { err = exit.Join(err, s.close()) }()
	for _, do := range []func() error{s.openData, s.openBenchmark, func() error { return s.openModel(ctx) },
		func() error { return s.quarantine.inspect(ctx, s.o) },
		func() error { return exit.Usage(s.data.AllowBadRows(c.Data.Skip)) },
		func() error { s.data.DropBadRows(); return s.order() }, func() error { return s.checkComparable(nil) }} {
		if err := do(); err != nil {
			return nil, err
		}
	}
	if _, err = optimizer.GroupsOf(c, s.model.Params()); err != nil {
		return nil, err
	}
	if p, ok := s.model.(models.Planner); ok {
		return s.plan(ctx, p, 0)
	}
	return s.complete(&models.Plan{MicroBatch: c.BatchSize}), nil
}

// plan asks the model about the first examples of the run; micro is the micro-batch if it is known, else 0.
func (s *setup) plan(ctx context.Context, p models.Planner, micro int) (*models.Plan, error) {
	var sample []dataset.Example
	for at := int64(0); len(sample) < planSample && at < s.loader.Limit; at = s.loader.Next(at) {
		batch, err := s.loader.Read(at)
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
	plan, err := p.Plan(ctx, models.PlanInput{Examples: sample[:min(len(sample), planSample)], MicroBatch: micro,
		Rows:       s.data.Train.Len(),
		Validation: s.data.Validation.Len(), Group: s.loader.Largest()})
	if err != nil {
		return nil, err
	}
	return s.complete(plan), nil
}

// fewSteps is how many steps a new head needs to learn anything.
const fewSteps = 100

// warnings returns the warnings about the data, and one if the run has too few steps to learn from.
func (s *setup) warnings() []string {
	out := slices.Concat(models.UnusedExclude(s.config), s.data.Warnings)
	if s.loader.Steps >= fewSteps || s.config.Steps > 0 || s.config.Init != "" {
		return out
	}
	return append(out, fmt.Sprintf("only %d steps to learn from, fewer than %d: use more "+
		"epochs, more rows, or a smaller batch_size (%d)", s.loader.Steps, fewSteps, s.config.BatchSize))
}

func (s *setup) complete(p *models.Plan) *models.Plan {
	c := s.config
	p.Trains = s.trains
	p.RunSize = models.RunSize{
		Steps:      s.loader.Steps,
		Examples:   s.loader.Limit,
		Rows:       s.data.Train.Len(),
		Validation: s.data.Validation.Len(),
		BadRows:    s.data.BadRows(),
		Warnings:   s.warnings(),
		Summary:    s.objective.Summarize(s.data),
		BatchSize:  c.BatchSize,
	}
	if s.loader.Groups != nil {
		p.Examples, p.Groups = s.loader.Edits, s.loader.Limit
	}
	if c.MicroBatch != config.Auto {
		p.MicroBatch = int(c.MicroBatch)
	}
	p.MicroBatch = min(max(p.MicroBatch, 1), c.BatchSize)
	if s.validator.benchmark != nil {
		p.Benchmark = s.validator.benchmark.String()
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
