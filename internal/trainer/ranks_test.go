package trainer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/distributed"
	"assay/internal/trainer/models"
)

// crew are ranks in one process.
type crew struct {
	mu    sync.Mutex
	ready *sync.Cond
	n     int
	there int
	turn  int
	bytes [][]byte
	value [][]float32
	what  []string
}

func newCrew(n int) *crew {
	c := &crew{n: n, bytes: make([][]byte, n), value: make([][]float32, n), what: make([]string, n)}
	c.ready = sync.NewCond(&c.mu)
	return c
}

// meet contributes a value, waits for all ranks, and returns the values of all.
func (c *crew) meet(put, take func()) {
	for _, f := range []func(){put, take} {
		c.mu.Lock()
		f()
		turn := c.turn
		if c.there++; c.there == c.n {
			c.there, c.turn = 0, turn+1
			c.ready.Broadcast()
		}
		for c.turn == turn {
			c.ready.Wait()
		}
		c.mu.Unlock()
	}
}

type mate struct {
	*crew
	rank int
}

func (m mate) Rank() int        { return m.rank }
func (m mate) Size() int        { return m.n }
func (m mate) Local() int       { return m.rank }
func (m mate) Doing(s string)   {}
func (m mate) Lost(func(error)) {}

func (m mate) Hosts() (out []string) {
	for i := range m.n {
		out = append(out, fmt.Sprintf("host%d", i))
	}
	return out
}

func (m mate) Gather(what string, mine []byte) (out [][]byte, err error) {
	m.meet(func() { m.bytes[m.rank], m.what[m.rank] = mine, what }, func() {
		for i := range m.n {
			out = append(out, bytes.Clone(m.bytes[i]))
			if m.what[i] != what {
				err = fmt.Errorf("%q and %q", m.what[i], what)
			}
		}
	})
	return out, err
}

func (m mate) Deal(values, out []float32, first int) error {
	n := len(out) / first
	m.meet(func() { m.value[m.rank] = values }, func() {
		for i := range first {
			copy(out[i*n:(i+1)*n], m.value[i][m.rank*n:])
		}
	})
	return nil
}

func (m mate) Collect(slice, values []float32) error {
	m.meet(func() { m.value[m.rank] = slice }, func() {
		for i := range m.n {
			copy(values[i*len(slice):], m.value[i])
		}
	})
	return nil
}

func (m mate) Sum(values []float32) error {
	m.meet(func() { m.value[m.rank] = slices.Clone(values) }, func() {
		clear(values)
		for i := range m.n {
			for j, v := range m.value[m.n-1-i] { // some order
				values[j] += v
			}
		}
	})
	return nil
}

// strategyOf trains as one of several ranks.
func strategyOf(r distributed.Ranks) StrategyOpener {
	return func(c *config.Config, cancel context.CancelFunc) (Strategy, error) {
		return distributed.New(r, c, cancel)
	}
}

// together trains with n ranks, each with its own model.
func together(t *testing.T, n int, set func(rank int, o *Options, f *fake)) ([]*Result, []error, []*fake) {
	t.Helper()
	c := newCrew(n)
	results, errs, models := make([]*Result, n), make([]error, n), make([]*fake, n)
	var wg sync.WaitGroup
	for i := range n {
		models[i] = newFake()
		o := Options{Strategy: strategyOf(mate{c, i})}
		set(i, &o, models[i])
		o.Factory = models[i].factory
		wg.Go(func() { results[i], errs[i] = Train(context.Background(), o) })
	}
	wg.Wait()
	return results, errs, models
}

// firstOf fails the test unless all ranks succeeded, and returns the result of the first one.
func firstOf(t *testing.T, results []*Result, errs []error) *Result {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return results[0]
}

// withMicro sets the micro-batch in a run's configuration.
func withMicro(t *testing.T, path string, n int) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		text = bytes.Replace(text, []byte("micro_batch: 4"), fmt.Appendf(nil, "micro_batch: %d", n), 1)
		err = os.WriteFile(path, text, 0o666)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestAnyNumberOfRanks: losses, parameters, validations and the best scorer are bit-identical to those of one process
// for any number of ranks.
func TestAnyNumberOfRanks(t *testing.T) {
	long.Test(t)
	for _, extra := range []string{
		"epochs: 3\nvalidate: {every: 4}\naugment: adiee\n",
		"epochs: 3\ndata: {train: table.jsonl, train_split: train, validation_split: test, sampling: whole_groups}\n",
	} {
		write := func() string {
			path := withMicro(t, writeRun(t, 60, ""), 1)
			text, err := os.ReadFile(path)
			if err == nil && strings.Contains(extra, "whole_groups") {
				whole := "data: {train: table.jsonl, train_split: train, validation_split: test}\n"
				text = bytes.Replace(text, []byte(whole), nil, 1)
			}
			if err == nil {
				err = os.WriteFile(path, append(text, extra...), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			return path
		}
		quiet := write()
		alone := train(t, quiet, newFake())
		want := outcome(t, quiet)
		for _, n := range []int{2, 3, 5, 8} {
			path := write()
			results, errs, models := together(t, n, func(_ int, o *Options, _ *fake) { o.Config = load(t, path) })
			r := firstOf(t, results, errs)
			if r.Steps != alone.Steps || r.Samples != alone.Samples {
				t.Errorf("%d ranks: %+v, alone %+v", n, r, alone)
			}
			if d := cmp.Diff(want, outcome(t, path)); d != "" {
				t.Errorf("%d ranks: %s", n, d)
			}
			for i, f := range models {
				if len(f.seen) == 0 && i < 6 {
					t.Errorf("rank %d of %d did nothing", i, n)
				}
				if i > 0 && f.saves > 0 {
					t.Errorf("rank %d of %d wrote", i, n)
				}
			}
		}
	}
}

// TestRanksResume: a run resumes exactly with a different number of ranks, after an interrupt of any rank.
func TestRanksResume(t *testing.T) {
	extra := "epochs: 3\nvalidate: {every: 4}\n"
	quiet := withMicro(t, writeRun(t, 60, extra), 2)
	whole := train(t, quiet, newFake())
	path := withMicro(t, writeRun(t, 60, extra), 2)
	for turn, n := range []int{2, 1, 3, 4, 2} {
		c := newCrew(n)
		var wg sync.WaitGroup
		errs := make([]error, n)
		for i := range n {
			f, o := newFake(), Options{Config: load(t, path)}
			if n > 1 {
				o.Strategy = strategyOf(mate{c, i})
			}
			o.Factory = f.factory
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			f.steps = func(done int) {
				if i == min(n, 3)-1 && done == 4 && turn < 4 {
					cancel()
				}
			}
			wg.Go(func() { _, errs[i] = Train(ctx, o) })
		}
		wg.Wait()
		for i, err := range errs {
			if turn < 4 && (exit.Code(err) != exit.Interrupted || n > 1 && !distributed.Agreed(err)) || turn == 4 && err != nil {
				t.Fatalf("turn %d, rank %d of %d: %v", turn, i, n, err)
			}
		}
		s, _, _, err := checkpoint.Find(load(t, path).Out)
		if err != nil || s.Step == 0 || turn < 4 && s.Step >= whole.Steps {
			t.Fatalf("turn %d: %+v, %v", turn, s, err)
		}
	}
	if d := cmp.Diff(outcome(t, quiet), outcome(t, path)); d != "" {
		t.Error(d)
	}
}

// TestRanksMustBeAlike: a different backbone, configuration or table on a rank is reported before anything is
// trained.
func TestRanksMustBeAlike(t *testing.T) {
	path := writeRun(t, 40, "steps: 6\n")
	other := writeRun(t, 39, "steps: 6\n")
	for want, change := range map[string]func(o *Options, f *fake){
		"rank 2 (host2) differs from rank 0 (host0): model: backbone: fake there, other here": func(_ *Options, f *fake) {
			f.print = map[string]string{"backbone": "other"}
		},
		"backbone: model.safetensors: aa there, bb here": func(_ *Options, f *fake) {
			f.files = map[string]string{"model.safetensors": "bb", "config.json": "cc"}
		},
		"configuration: optimizer.lr: 0.01 there, 0.02 here": func(o *Options, _ *fake) { o.Config.Optimizer.LR = 0.02 },
		"--fresh: false there, true here":                    func(o *Options, _ *fake) { o.Fresh = true },
		"data: ": func(o *Options, _ *fake) {
			o.Config.Data.Train = load(t, other).Data.Train
		},
		"parameters: ": func(_ *Options, f *fake) {
			f.params[1].Value.Float32s()[0] = 1
		},
	} {
		_, errs, models := together(t, 3, func(rank int, o *Options, f *fake) {
			f.files = map[string]string{"model.safetensors": "aa", "config.json": "cc"}
			if o.Config = load(t, path); rank == 2 {
				change(o, f)
			}
		})
		for i, err := range errs {
			if exit.Code(err) != exit.Wrong || !strings.Contains(err.Error(), want) || !distributed.Agreed(err) {
				t.Errorf("rank %d: %v, want %q", i, err, want)
			}
			if len(models[i].seen) > 0 {
				t.Errorf("rank %d trained", i)
			}
		}
	}
}

// TestRanksFailTogether: a failure on one rank ends all, with the rank in the error and the state saved.
func TestRanksFailTogether(t *testing.T) {
	path := withMicro(t, writeRun(t, 60, "steps: 9\n"), 2)
	c := newCrew(3)
	errs := make([]error, 3)
	var wg sync.WaitGroup
	for i := range 3 {
		f, o := newFake(), Options{Config: load(t, path), Strategy: strategyOf(mate{c, i})}
		o.Factory = func(context.Context, *config.Config) (models.Model, error) {
			if i == 1 {
				return &brokenDevice{f, 4}, nil
			}
			return f, nil
		}
		wg.Go(func() { _, errs[i] = Train(context.Background(), o) })
	}
	wg.Wait()
	for i, err := range errs {
		if err == nil || !distributed.Agreed(err) || !strings.Contains(err.Error(), "rank 1 (host1): ") ||
			!strings.Contains(err.Error(), "the GPU is gone") {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	if s, _, _, err := checkpoint.Find(load(t, path).Out); err != nil || s == nil || s.Step != 4 {
		t.Errorf("%+v, %v", s, err)
	}
	for i := range 3 {
		text, err := os.ReadFile(filepath.Join(load(t, path).Out, distributed.RanksDir, fmt.Sprintf("rank-%04d.log", i)))
		if err != nil || !bytes.Contains(text, []byte("the GPU is gone")) {
			t.Errorf("the log of rank %d: %s %v", i, text, err)
		}
	}
}

// brokenDevice is a model whose device fails after some steps.
type brokenDevice struct {
	*fake
	left int
}

func (f *brokenDevice) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	if f.left--; f.left < 0 {
		return nil, errors.New("the GPU is gone")
	}
	return f.fake.Step(ctx, batch, in)
}

// TestReduceFast: sums in the library's order are the same up to rounding.
func TestReduceFast(t *testing.T) {
	quiet := withMicro(t, writeRun(t, 60, "epochs: 2\n"), 1)
	alone := train(t, quiet, newFake())
	path := withMicro(t, writeRun(t, 60, "epochs: 2\nreduce: fast\n"), 1)
	results, errs, _ := together(t, 3, func(_ int, o *Options, _ *fake) { o.Config = load(t, path) })
	r := firstOf(t, results, errs)
	if d := math.Abs(float64(r.Loss - alone.Loss)); !(d <= 1e-4) || r.Steps != alone.Steps {
		t.Errorf("%+v, alone %+v", r, alone)
	}
}
