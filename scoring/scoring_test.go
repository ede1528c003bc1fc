package scoring

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// fake scores numbers by themselves. It cannot prepare some, nor score others, nor a batch that they are in.
type fake struct {
	unprepared, failing map[int]bool

	mu      sync.Mutex
	batches [][]int
	scored  func(batch []int) // called with every batch; nil: not
}

func (f *fake) Prepare(item int) (int, error) {
	if f.unprepared[item] {
		return 0, errors.New("cannot be prepared")
	}
	time.Sleep(time.Duration(item%3) * time.Millisecond) // so that later ones overtake
	return item, nil
}

func (f *fake) Score(ctx context.Context, samples []int) ([]float64, error) {
	f.mu.Lock()
	f.batches = append(f.batches, slices.Clone(samples))
	f.mu.Unlock()
	if f.scored != nil {
		f.scored(samples)
	}
	scores := make([]float64, len(samples))
	for i, s := range samples {
		if f.failing[s] {
			return nil, errors.New("out of memory")
		}
		scores[i] = float64(s) / 10
	}
	return scores, ctx.Err()
}

// job scores the items 0 to n-1 in batches and gathers the results.
func (f *fake) job(n, batch int, results *[]Result) *Job[int, int] {
	indices := make([]int, n)
	for i := range indices {
		indices[i] = i
	}
	return &Job[int, int]{
		Scorer:  f,
		Batches: slices.Chunk(indices, batch),
		Read: func(i int) (int, error) {
			if i == 5 {
				return 0, errors.New("cannot be read")
			}
			return i, nil
		},
		Report: func(part []Result) error {
			*results = append(*results, part...)
			return nil
		},
	}
}

// TestOrderAndErrors: results come in the order of the items, each a score or its own error, wherever it arose.
func TestOrderAndErrors(t *testing.T) {
	f := &fake{unprepared: map[int]bool{7: true}, failing: map[int]bool{12: true}}
	var results []Result
	if err := f.job(40, 9, &results).Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if len(results) != 40 {
		t.Fatalf("%d results, want 40", len(results))
	}
	want := map[int]string{5: "cannot be read", 7: "cannot be prepared", 12: "out of memory"}
	for i, r := range results {
		got := fmt.Sprint(r.Err)
		if r.Index != i || want[i] == "" && (r.Err != nil || r.Score != float64(i)/10) || want[i] != "" && got != want[i] {
			t.Errorf("result %d is %+v, want the error %q", i, r, want[i])
		}
	}
	if len(f.batches[0]) != 7 { // of nine, two failed before
		t.Errorf("the first batch is %v", f.batches[0])
	}
}

// TestMaxSize: a batch is scored in parts when what is prepared becomes too large.
func TestMaxSize(t *testing.T) {
	f := &fake{}
	var results []Result
	j := f.job(5, 100, &results)
	j.Size, j.MaxSize = func(int) int { return 10 }, 1
	if err := j.Run(context.Background()); err != nil || len(results) != 5 {
		t.Fatalf("%d results, %v", len(results), err)
	}
	j = f.job(64, 64, &results)
	j.Size, j.MaxSize = func(int) int { return 10 }, 1
	before := len(f.batches)
	if err := j.Run(context.Background()); err != nil || len(f.batches)-before < 2 {
		t.Errorf("%d batches, %v", len(f.batches)-before, err)
	}
}

// TestCancel: a run that is cancelled ends with the context's error, and what was scored before has been reported.
func TestCancel(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	f := &fake{scored: func(batch []int) {
		if batch[0] == 20 {
			cancel()
		}
	}}
	var results []Result
	if err := f.job(1000, 10, &results).Run(ctx); !errors.Is(err, context.Canceled) || len(results) != 20 {
		t.Errorf("%v after %d results", err, len(results))
	}
}

// TestReportEnds: an error of Report ends the run.
func TestReportEnds(t *testing.T) {
	full := errors.New("disk full")
	var results []Result
	j := (&fake{}).job(100, 10, &results)
	j.Report = func([]Result) error { return full }
	if err := j.Run(context.Background()); err != full {
		t.Error(err)
	}
}

// TestLastItem: behind an error that ends the run nothing is read, which might take long each time.
func TestLastItem(t *testing.T) {
	f := &fake{}
	var results []Result
	j := f.job(400, 200, &results)
	var read atomic.Int64
	ended := errors.New("nobody answers")
	j.Read = func(i int) (int, error) {
		if read.Add(1); i == 10 {
			return 0, ended
		}
		return i, nil
	}
	j.Last = func(err error) bool { return errors.Is(err, ended) }
	if err := j.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	n := int(read.Load())
	if most := 11 + runtime.GOMAXPROCS(0); n > most || n != len(results) || n < 11 || results[10].Err != ended {
		t.Errorf("%d items were read, at most %d wanted, with %d results", n, most, len(results))
	}
}

// TestNothingWorks: a scorer that can do nothing is no item's fault.
func TestNothingWorks(t *testing.T) {
	f := &fake{failing: map[int]bool{}}
	for i := range 30 {
		f.failing[i] = i >= 10
	}
	var results []Result
	err := f.job(30, 10, &results).Run(context.Background())
	var batch *BatchError
	if !errors.As(err, &batch) || batch.Index != 10 || err.Error() != "out of memory" || len(results) != 10 {
		t.Errorf("%v after %d results", err, len(results))
	}
}

// TestBatch: the calls that a batch takes, and what comes of them.
func TestBatch(t *testing.T) {
	tests := []struct {
		name    string
		failing []int
		calls   int
		good    []bool
		err     bool
	}{
		{"all at once", nil, 1, []bool{true, true, true, true}, false},
		{"one fails", []int{2}, 5, []bool{true, false, true, true}, false},
		{"all fail", []int{1, 2, 3, 4}, 5, []bool{false, false, false, false}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{failing: map[int]bool{}}
			for _, i := range tt.failing {
				f.failing[i] = true
			}
			scores, errs, err := Batch(context.Background(), []int{1, 2, 3, 4}, f.Score)
			if (err != nil) != tt.err || len(f.batches) != tt.calls {
				t.Errorf("%d calls, %v", len(f.batches), err)
			}
			for i, good := range tt.good {
				if (errs[i] == nil) != good || good && scores[i] != float64(i+1)/10 {
					t.Errorf("sample %d: %v, %v", i, scores[i], errs[i])
				}
			}
		})
	}
	f := &fake{failing: map[int]bool{1: true}}
	if _, errs, err := Batch(context.Background(), []int{1}, f.Score); err != nil || errs[0] == nil ||
		len(f.batches) != 1 {
		t.Errorf("one sample alone: %v, %v, %d calls", errs, err, len(f.batches))
	}
	ctx, stop := context.WithCancel(context.Background())
	stop()
	if _, _, err := Batch(ctx, []int{1, 2}, f.Score); err == nil {
		t.Error("no error where the run is ended")
	}
	short := func(context.Context, []int) ([]float64, error) { return []float64{1}, nil }
	if _, errs, err := Batch(context.Background(), []int{1, 2}, short); err != nil || errs[0] != nil {
		t.Errorf("a scorer that answers for one only is asked one by one: %v, %v", errs, err)
	}
}
