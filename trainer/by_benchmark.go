package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"assay/internal/exit"
	"assay/trainer/config"
	"assay/trainer/models"
	"assay/trainer/records"
)

// Benchmark is somebody else's measure of scorers, which validate.by may name. This package knows none: who trains
// brings them along (see trainer/bybenchmark).
type Benchmark interface {
	// Measure runs a scorer on it. The same scorer always has the same number; it is NaN if it is not defined.
	Measure(ctx context.Context, s models.Candidate) (float64, error)
	// Lower tells whether less is better.
	Lower() bool
	// Fingerprint identifies all that the Number depends on besides the scorer: digests by the names of files and parts.
	Fingerprint() (map[string]string, error)
	// String says what is measured, and on how much.
	String() string
}

// BenchmarkOpener reads the data of a benchmark. Its errors are of the configuration.
type BenchmarkOpener func(c *config.BenchmarkConfig) (Benchmark, error)

// openBenchmark reads the benchmark that validate.by wants.
func (t *Trainer) openBenchmark(open BenchmarkOpener) (err error) {
	c := t.config.Validate.Benchmark
	if c == nil {
		return nil
	}
	if open == nil {
		return exit.Usagef("validate.by: this program brings no benchmarks along")
	}
	if t.benchmark, err = open(c); err != nil {
		return exit.Usage(fmt.Errorf("validate.benchmark: %w", err))
	}
	return nil
}

// fingerprintBenchmark notes what the benchmark was computed on.
func (t *Trainer) fingerprintBenchmark() (err error) {
	if t.benchmark != nil {
		if t.state.Benchmark, err = t.benchmark.Fingerprint(); err != nil {
			err = fmt.Errorf("validate.benchmark: %w", err)
		}
	}
	return err
}

// measureBenchmark adds the benchmark's Number, which the first rank computes for all.
func (t *Trainer) measureBenchmark(ctx context.Context, m *records.ValidationMetrics) error {
	if t.benchmark == nil {
		return nil
	}
	what := fmt.Sprintf("the benchmark at step %d", t.state.Step)
	var v float64
	var err error
	if t.strategy.Main() {
		v, err = t.askBenchmark(ctx)
	}
	if err = t.strategy.Agree(what, err); err == nil {
		err = t.strategy.Share(what, &v)
	}
	if err != nil {
		return err
	}
	n := records.Number(v)
	m.Benchmark, m.Lower = &n, t.benchmark.Lower()
	return nil
}

func (t *Trainer) askBenchmark(ctx context.Context) (float64, error) {
	s, ok := t.model.(interface{ Candidate() models.Candidate })
	if !ok {
		return 0, errors.New("validate.by: this model cannot be asked by a benchmark")
	}
	v, err := t.benchmark.Measure(ctx, s.Candidate())
	if err != nil {
		return 0, fmt.Errorf("validate.benchmark: %w", err)
	}
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0, fmt.Errorf("validate.benchmark: %s is not defined for the scores of step %d (all the same?)", t.benchmark,
			t.state.Step)
	}
	return v, nil
}
