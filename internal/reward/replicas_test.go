package reward

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"assay/edit"
	"assay/internal/long"
	"assay/internal/reward/pace"
	"assay/model"
	"assay/model/backbone"
)

// frail is a breakable copy whose score01 is a number that Prepare took from the edit.
type frail struct {
	release chan struct{} // closed to end hanging runs

	mu     sync.Mutex
	mode   string // behaviour: "" (scores), error, panic, hang, lie, slow
	closed bool
}

func (f *frail) Info() edit.Info              { return edit.Info{Range: edit.Range{0, 10}, Sources: 1} }
func (f *frail) Fingerprint() (string, error) { return "", nil }

func (f *frail) Prepare(e *edit.Edit) (edit.Inputs, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return nil, errors.New("the scorer is closed")
	}
	return &model.Sample{Pictures: []*backbone.Picture{{Pixels: []float32{float32(red(pixels(e.Output)))}}}}, nil
}

func (f *frail) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	var reds []float64
	for _, in := range inputs {
		s := in.(*model.Sample)
		reds = append(reds, float64(s.Pictures[0].Pixels[0]))
		s.Pictures[0].Pixels = nil // scoring modifies samples
	}
	return edit.Each(ctx, reds, func(ctx context.Context, part []float64) ([]edit.Score, error) {
		scores, err := f.score(part)
		return scaled(f.Info().Range, scores), err
	})
}

func (f *frail) score(reds []float64) (out []float64, err error) {
	f.mu.Lock()
	mode, closed := f.mode, f.closed
	f.mu.Unlock()
	if closed {
		return nil, errors.New("the scorer is closed")
	}
	add := 0.0
	switch mode {
	case "error":
		return nil, errors.New("the device is lost")
	case "panic":
		panic("a bug")
	case "hang":
		<-f.release
	case "lie":
		add = 0.25
	case "slow":
		time.Sleep(5 * time.Millisecond)
	}
	for _, v := range reds {
		if v == 1 { // a white edit always fails
			return nil, errors.New("a failing picture")
		}
		out = append(out, v+add)
	}
	return out, nil
}

func (f *frail) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	return nil
}

func (f *frail) become(mode string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.mode = mode
}

// fleet opens frail copies.
type fleet struct {
	mu      sync.Mutex
	at      map[int]*frail // the last one by number
	failing error          // error of the next opens
	release chan struct{}
}

func (l *fleet) open(i int) (edit.Judge, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil {
		return nil, l.failing
	}
	l.at[i] = &frail{release: l.release}
	return l.at[i], nil
}

func (l *fleet) copy(i int) *frail {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.at[i]
}

func (l *fleet) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failing = err
}

// startFleet serves n frail copies as "a".
func startFleet(t *testing.T, n int, o Options) (*fleet, *Server, string) {
	t.Helper()
	l := &fleet{at: map[int]*frail{}, release: make(chan struct{})}
	v, err := Replicate(n, 0, l.open)
	if err != nil {
		t.Fatal(err)
	}
	s, h := start(t, o, map[string]edit.Judge{"a": v}, "a")
	t.Cleanup(func() { v.Close() })
	t.Cleanup(func() { close(l.release) }) // runs first
	if err := s.Warm(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l, s, h.URL
}

func get(t testing.TB, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(raw)
}

// However a copy fails under load, every request gets its own score; the copy is replaced, and the metrics report it.
func TestCopiesFail(t *testing.T) {
	long.Test(t)
	for _, mode := range []string{"error", "panic", "hang"} {
		t.Run(mode, func(t *testing.T) {
			l, s, url := startFleet(t, 2, Options{Batch: 4, Stall: 3 * time.Second})
			for i := range 2 {
				l.copy(i).become("slow")
			}
			first := l.copy(0)
			var all sync.WaitGroup
			var answered atomic.Int64
			for caller := range 8 {
				all.Go(func() {
					for k := range 40 {
						red := byte(1 + (40*caller+k)%250)
						picture := png(t, red, 4, 4)
						code, _, raw := post(t, url+"/v1/score", object{"source": png(t, byte(caller), 4, 4), "instruction": "x",
							"edits": []any{picture}})
						got := decodeScores(t, raw)
						if code != 200 || *got.Results[0].Score01 != float64(float32(float64(red)/255)) {
							t.Errorf("%d %s", code, raw)
						}
						if answered.Add(1) == 60 {
							first.become(mode)
						}
					}
				})
			}
			all.Wait()
			v := s.engine.scorers.by["a"]
			eventually(t, "a new copy", func() bool { n, _ := v.up(); return n == 2 && v.restarts(0) == 1 })
			if v.restarts(1) != 0 {
				t.Error("the other copy was also replaced")
			}
			if mode != "hang" {
				eventually(t, "the old copy to be closed", func() bool {
					first.mu.Lock()
					defer first.mu.Unlock()
					return first.closed
				})
			}
			_, text := get(t, url+"/metrics")
			for _, want := range []string{`assay_replica_up{replica="0",scorer="a"} 1`,
				`assay_replica_restarts_total{replica="0",scorer="a"} 1`, "assay_queue_delay_seconds_count",
				"assay_queue_foreseen_seconds 0"} {
				if !strings.Contains(text, want) {
					t.Errorf("no line %s", want)
				}
			}
		})
	}
}

// An edit that fails on every copy does not cause a copy to be replaced. But the copy is checked.
func TestHostileEdits(t *testing.T) {
	l, s, url := startFleet(t, 2, Options{})
	white, good := png(t, 255, 4, 4), png(t, 9, 4, 4)
	ask := func() {
		t.Helper()
		code, _, raw := post(t, url+"/v1/score", object{"source": good, "instruction": "x", "edits": []any{good, white}})
		got := decodeScores(t, raw)
		if code != 200 || got.Results[0].Score01 == nil || got.Results[1].Error == nil ||
			got.Results[1].Error.Message != "a failing picture" {
			t.Fatalf("%d %s", code, raw)
		}
	}
	for range 5 {
		ask()
	}
	for i := range 2 {
		if s.engine.scorers.by["a"].restarts(i) != 0 {
			t.Errorf("copy %d was replaced", i)
		}
		l.copy(i).become("lie")
	}
	// The edits are retried once, on the other copy or a new one: if that one also returns wrong scores, none is
	// answered.
	code, _, raw := post(t, url+"/v1/score", object{"source": good, "instruction": "x", "edits": []any{good, white}})
	if got := decodeScores(t, raw); code != 200 && (code != 503 || got.Results[0].Score01 != nil) {
		t.Errorf("%d %s", code, raw)
	}
	eventually(t, "a copy with changed scores to be replaced", func() bool {
		return s.engine.scorers.by["a"].restarts(0)+s.engine.scorers.by["a"].restarts(1) > 0
	})
}

// The only copy is reopened, and its work is then done. While it cannot be reopened, requests are temporarily
// refused, the server is not ready, and after a while not alive.
func TestOnlyCopy(t *testing.T) {
	l, s, url := startFleet(t, 1, Options{})
	good := png(t, 51, 4, 4)
	body := object{"source": good, "instruction": "x", "edits": []any{good}}
	ready := func(path string, want int) func() bool {
		return func() bool { code, _ := get(t, url+path); return code == want }
	}
	l.copy(0).become("error")
	if code, _, raw := post(t, url+"/v1/score", body); code != 200 || s.engine.scorers.by["a"].restarts(0) != 1 {
		t.Fatalf("%d %s", code, raw)
	}
	if !ready("/readyz", 200)() || !ready("/livez", 200)() {
		t.Error("not ready, or not alive")
	}
	l.fail(errors.New("no memory on the device"))
	l.copy(0).become("panic")
	code, header, raw := post(t, url+"/v1/score", body)
	if code != 503 || header.Get("Retry-After") == "" || !strings.Contains(string(raw), "no memory on the device") {
		t.Errorf("%d %s", code, raw)
	}
	eventually(t, "not to be alive", ready("/livez", 503))
	if !ready("/readyz", 503)() {
		t.Error("it is ready")
	}
	if code, _, raw = post(t, url+"/v1/score", body); code != 503 {
		t.Errorf("%d %s", code, raw)
	}
	l.fail(nil)
	eventually(t, "to be ready again", ready("/readyz", 200))
	if code, _, raw = post(t, url+"/v1/score", body); code != 200 || !ready("/livez", 200)() {
		t.Errorf("%d %s", code, raw)
	}
}

// Copies that disagree are not served together.
func TestCopiesDisagree(t *testing.T) {
	l := &fleet{at: map[int]*frail{}}
	v, err := Replicate(2, 0, l.open)
	if err != nil {
		t.Fatal(err)
	}
	defer v.Close()
	l.copy(1).become("lie")
	s, _ := start(t, Options{}, map[string]edit.Judge{"a": v}, "a")
	if err := s.Warm(t.Context()); err == nil || !strings.Contains(err.Error(), "copy 1") {
		t.Errorf("%v", err)
	}
}

// Edits of a group go to the worker that has the group, others to a free worker; no worker is idle while jobs wait.
func TestLanesKeepGroups(t *testing.T) {
	v := newReplicated(&fake{}, &fake{})
	v.estimators = [2]*pace.Estimator{{}, {}}
	q := &queue{batch: 2, reservations: map[*reservation]bool{}, workers: make([]worker, 2),
		metrics: newMetrics(func() float64 { return 0 }, func() float64 { return 0 })}
	add := func(source byte) *job {
		j := &job{scorer: v, of: groupKey{scorer: v, sources: [32]byte{source}}, inputs: make([]edit.Inputs, 1),
			results: make([]result, 1), left: []int{0}, ctx: t.Context(), done: make(chan struct{}),
			reservation: &reservation{q: q, remaining: pace.Workload{}}}
		q.ready = append(q.ready, j)
		return j
	}
	take := func(k int, want ...*job) {
		t.Helper()
		var got []*job
		if r := q.next(k); r != nil {
			got = r.jobs
		}
		if !slices.Equal(got, want) {
			t.Errorf("worker %d took %d jobs, or others", k, len(got))
		}
	}
	a1, a2, a3 := add(1), add(1), add(1)
	b1 := add(2)
	take(0, a1, a2)
	take(1, b1) // a3 is for worker 0
	take(1, a3) // rather than idle
	take(0)     // nothing is left
	q.workers[0].ends, q.workers[1].ends = time.Time{}, time.Time{}
	a4, b2, c := add(1), add(2), add(3)
	take(1, b2, c) // a4 is for worker 0, which is idle
	take(0, a4)
}

// TestRetryWithoutAnotherCopy: a job that failed on one copy waits for another one while that is being reopened for the
// first time. If it cannot be reopened, the job ends with the error that it had.
func TestRetryWithoutAnotherCopy(t *testing.T) {
	v := newReplicated(&fake{}, &fake{})
	q := &queue{workers: make([]worker, 2)}
	q.wake = sync.NewCond(&q.mu)
	first := errors.New("a failing picture")
	j := &job{scorer: v, avoid: v.at[0], left: []int{0}, results: []result{{err: first}}, done: make(chan struct{})}
	q.ready = []*job{j}
	ended := func() bool {
		q.changed([]*Replicated{v})
		return len(q.ready) == 0
	}
	if ended() {
		t.Fatal("the job ended while another copy was up")
	}
	v.at[1] = nil
	if ended() {
		t.Fatal("the job ended before another copy was reopened")
	}
	v.states[1].failures = 1
	if !ended() || !errors.Is(j.results[0].err, first) {
		t.Fatalf("got %d waiting jobs and %v, want none, and %v", len(q.ready), j.results[0].err, first)
	}
	<-j.done
}
