package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/long"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/records"
	"assay/model"
)

// early is a fake that prefetches its examples, slowly, and records what it received.
type early struct {
	*fake
	mu    sync.Mutex
	slow  time.Duration
	order []string // ids, in the order of preparation
	most  int      // examples prepared but not yet used
	now   int
	late  int // examples that a step needed but that were not prepared
}

func (e *early) Prefetch(part []dataset.Example) {
	time.Sleep(e.slow)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range part {
		part[i].Inputs = &model.Sample{}
		e.order = append(e.order, part[i].Edit.ID)
		e.now++
	}
	e.most = max(e.most, e.now)
}

func (e *early) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	e.mu.Lock()
	for i := range batch {
		if batch[i].Inputs == nil {
			e.late++
		}
		e.now--
	}
	e.mu.Unlock()
	return e.fake.Step(ctx, batch, in)
}

func (e *early) make(context.Context, *config.Config) (models.Model, error) { return e, nil }

// TestRunsAhead: a run with prefetched examples is bit-identical to one without, interrupted or not. Every example is
// prepared before its step and in order, at most two parts at a time.
func TestRunsAhead(t *testing.T) {
	const extra = "epochs: 2\nvalidate: {every: 5}\ncheckpoint: {steps: 3}\n"
	plain := writeRun(t, 50, extra)
	p := newFake()
	train(t, plain, p)
	want := outcome(t, plain)
	path := writeRun(t, 50, extra)
	e := &early{fake: newFake()}
	if _, err := Train(t.Context(), Options{Config: load(t, path), Factory: e.make}); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(outcome(t, path), want) {
		t.Error("a run that looks ahead ends otherwise")
	}
	var seen []string
	for i := range e.seen {
		seen = append(seen, e.seen[i].Edit.ID)
	}
	if e.late > 0 || !slices.Equal(seen, e.order) || e.most > 8 { // parts of 4
		t.Errorf("%d examples were not prepared; at most %d were ready; prepared in the order of their steps: %v", e.late,
			e.most, slices.Equal(seen, e.order))
	}
	cut := writeRun(t, 50, extra)
	for stop := 3; ; stop += 4 {
		ctx, cancel := context.WithCancel(t.Context())
		e := &early{fake: newFake()}
		e.steps = func(n int) {
			if n == stop {
				cancel()
			}
		}
		_, err := Train(ctx, Options{Config: load(t, cut), Factory: e.make})
		cancel()
		if err == nil {
			break
		}
		if !strings.Contains(err.Error(), "interrupted") {
			t.Fatal(err)
		}
	}
	if !slices.Equal(outcome(t, cut), want) {
		t.Error("interrupted, it ends otherwise")
	}
}

// TestWaitingIsCounted: preparation that overlaps with a step is not counted as waiting.
func TestWaitingIsCounted(t *testing.T) {
	long.Test(t)
	share := func(step, prepare time.Duration) float64 {
		path := writeRun(t, 40, "epochs: 1\nvalidate: {every: 100}\n")
		e := &early{fake: newFake(), slow: prepare}
		e.fake.slow = step
		r, err := Train(t.Context(), Options{Config: load(t, path), Factory: e.make})
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(r.Run, records.MetricsFile))
		if err != nil {
			t.Fatal(err)
		}
		sum, n := 0.0, 0
		for i, line := range strings.Split(string(text), "\n") {
			var waited float64
			if at := strings.Index(line, `"waited":`); at >= 0 && i > 0 { // nothing overlapped with the first
				if _, err := fmt.Sscanf(line[at:], `"waited":%g`, &waited); err != nil {
					t.Fatal(err)
				}
				sum, n = sum+waited, n+1
			}
		}
		return sum / float64(max(n, 1))
	}
	long := 100 * time.Millisecond
	if hidden, shown := share(long, 0), share(0, long); hidden > shown || shown < 0.5 {
		t.Errorf("shares of waiting: %g where preparing takes no time, %g where the step takes none", hidden, shown)
	}
}
