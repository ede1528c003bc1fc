package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"

	"assay/edit"
	"assay/internal/exit"
	"assay/optim"
)

// BenchmarkConfig names a benchmark, as score bench knows it, and the Number of it that says which scorer is best.
type BenchmarkConfig struct {
	Name    string `yaml:"name"`              // of score bench
	Ratings string `yaml:"ratings"`           // its published data: a folder or a file
	Images  string `yaml:"images,omitempty"`  // folder of its pictures
	Votes   string `yaml:"votes,omitempty"`   // file of votes
	Targets string `yaml:"targets,omitempty"` // folder of the wanted results
	Subset  string `yaml:"subset,omitempty"`  // part of it
	Target  string `yaml:"target,omitempty"`  // which human value
	Number  string `yaml:"number,omitempty"`  // by its name; empty: the one that tables are sorted by
}

// Benchmark is somebody else's measure of scorers, which validate.by may name. This package knows none: who trains
// brings them along (see trainer/bybenchmark).
type Benchmark interface {
	// Measure runs a scorer, as it stands while it is trained, on it. The same scorer always has the same number; it is
	// NaN if it is not defined.
	Measure(ctx context.Context, j edit.Judge) (float64, error)
	// Lower tells whether less is better.
	Lower() bool
	// Fingerprint identifies all that the Number depends on besides the scorer: digests by the names of files and parts.
	Fingerprint() (map[string]string, error)
	// String says what is measured, and on how much.
	String() string
}

// BenchmarkOpener reads the data of a benchmark. Its errors are of the configuration.
type BenchmarkOpener func(c *BenchmarkConfig) (Benchmark, error)

// checkBenchmark looks at validate.benchmark, which goes with validate.by: benchmark.
func (c *Config) checkBenchmark(d checker) {
	b := c.Validate.Benchmark
	d.want((b != nil) == (c.Validate.By == byBenchmark), "validate.benchmark", "it goes with validate.by: %s", byBenchmark)
	if b == nil {
		return
	}
	d.want(b.Name != "", "validate.benchmark.name", "want the name of a benchmark: score bench list has them")
	d.want(b.Ratings != "", "validate.benchmark.ratings", "want the published data of the benchmark: a folder or a file")
	d.want(c.Mode == "lora" || c.Mode == "full", "validate.by",
		"mode %s keeps no model that a benchmark could ask: want mode lora or full", c.Mode)
}

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

// forgetBest drops what was measured by another benchmark: no Number of the present one compares with it. The scorer as
// the checkpoint has it is measured anew.
func (s *state) forgetBest() {
	s.Best, s.Last, s.Worse, s.Validated = nil, nil, 0, 0
	for _, p := range s.Plateaus {
		*p = optim.PlateauState{Cuts: p.Cuts}
	}
}

// measureBenchmark adds the benchmark's Number, which the first rank computes for all.
func (t *Trainer) measureBenchmark(ctx context.Context, m *ValidationMetrics) error {
	if t.benchmark == nil {
		return nil
	}
	what := fmt.Sprintf("the benchmark at step %d", t.state.Step)
	var v float64
	var err error
	if t.strategy.main() {
		v, err = t.askBenchmark(ctx)
	}
	if err = t.strategy.agree(what, err); err == nil {
		err = t.strategy.share(what, &v)
	}
	if err != nil {
		return err
	}
	n := Number(v)
	m.Benchmark, m.Lower = &n, t.benchmark.Lower()
	return nil
}

func (t *Trainer) askBenchmark(ctx context.Context) (float64, error) {
	s, ok := t.model.(interface{ Candidate() edit.Judge })
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

// Candidate is the scorer as it stands.
func (m *scorerModel) Candidate() edit.Judge { return m.tuner.Scorer() }
