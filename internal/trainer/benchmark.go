package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"assay/edit"
	"assay/internal/exit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

// Benchmark is a published benchmark for scorers, which validate.by may name. This package implements none: the
// caller passes one in (see internal/trainer/bybenchmark).
type Benchmark interface {
	// Measure runs a scorer on the benchmark. It is deterministic; the number is NaN if it is not defined.
	Measure(ctx context.Context, s edit.Judge) (float64, error)
	// Lower reports whether lower is better.
	Lower() bool
	// Fingerprint identifies everything besides the scorer that the number depends on: digests by file and part name.
	Fingerprint() (map[string]string, error)
	// String describes what is measured, and on how much data.
	String() string
}

// BenchmarkOpener reads the data of a benchmark. Its errors are configuration errors.
type BenchmarkOpener func(c *config.BenchmarkConfig) (Benchmark, error)

// openBenchmark reads the benchmark that validate.by names.
func openBenchmark(c *config.BenchmarkConfig, open BenchmarkOpener) (Benchmark, error) {
	if c == nil {
		return nil, nil
	}
	if open == nil {
		return nil, exit.Usagef("validate.by: no benchmarks are built into this program")
	}
	b, err := open(c)
	if err != nil {
		return nil, exit.Usage(fmt.Errorf("validate.benchmark: %w", err))
	}
	return b, nil
}

// measureBenchmark adds the benchmark's number, which the main process computes for all processes.
func (v *validator) measureBenchmark(ctx context.Context, step int64, m *records.ValidationMetrics) error {
	if v.benchmark == nil {
		return nil
	}
	what := fmt.Sprintf("the benchmark at step %d", step)
	var x float64
	var err error
	if v.strategy.Main() {
		x, err = v.askBenchmark(ctx, step)
	}
	if err = v.strategy.Agree(what, err); err == nil {
		err = v.strategy.Share(what, &x)
	}
	if err != nil {
		return err
	}
	n := records.Number(x)
	m.Benchmark, m.Lower = &n, v.benchmark.Lower()
	return nil
}

func (v *validator) askBenchmark(ctx context.Context, step int64) (float64, error) {
	s, ok := v.model.(interface{ Candidate() edit.Judge })
	if !ok {
		return 0, errors.New("validate.by: a benchmark cannot run this model")
	}
	x, err := v.benchmark.Measure(ctx, s.Candidate())
	if err != nil {
		return 0, fmt.Errorf("validate.benchmark: %w", err)
	}
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0, fmt.Errorf("validate.benchmark: %s is not defined for the scores of step %d (all the same?)", v.benchmark,
			step)
	}
	return x, nil
}
