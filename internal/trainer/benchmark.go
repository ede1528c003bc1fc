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

// Benchmark is a published measure of scorers, which validate.by may name. This package knows none: the caller
// brings it (see internal/trainer/bybenchmark).
type Benchmark interface {
	// Measure runs a scorer on it. The same scorer always has the same number; it is NaN if it is not defined.
	Measure(ctx context.Context, s edit.Judge) (float64, error)
	// Lower reports whether lower is better.
	Lower() bool
	// Fingerprint identifies all that the Number depends on besides the scorer: digests by the names of files and parts.
	Fingerprint() (map[string]string, error)
	// String says what is measured, and on how much.
	String() string
}

// BenchmarkOpener reads the data of a benchmark. Its errors are of the configuration.
type BenchmarkOpener func(c *config.BenchmarkConfig) (Benchmark, error)

// openBenchmark reads the benchmark that validate.by wants.
func openBenchmark(c *config.BenchmarkConfig, open BenchmarkOpener) (Benchmark, error) {
	if c == nil {
		return nil, nil
	}
	if open == nil {
		return nil, exit.Usagef("validate.by: this program brings no benchmarks along")
	}
	b, err := open(c)
	if err != nil {
		return nil, exit.Usage(fmt.Errorf("validate.benchmark: %w", err))
	}
	return b, nil
}

// measureBenchmark adds the benchmark's Number, which the first rank computes for all.
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
		return 0, errors.New("validate.by: this model cannot be asked by a benchmark")
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
