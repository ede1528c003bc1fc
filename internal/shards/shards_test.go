package shards

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/long"
)

// result is the result of a row in these tests.
type result struct {
	Row   int
	Value uint64
	Error string `json:",omitempty"`

	Temporary bool `json:"-"`
}

func value(row int) result {
	h := fnv.New64a()
	fmt.Fprint(h, row)
	r := result{Row: row, Value: h.Sum64()}
	if row%17 == 5 {
		r = result{Row: row, Error: "cannot be read"}
	}
	return r
}

const rows = 400

func weigh(row int) (int64, bool) { return int64(row % 7 * 100), row%3 == 0 }

func open(t testing.TB, dir string, count int) *Work[result] {
	t.Helper()
	w, err := Open[result](dir, count, "test", rows, weigh)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (r result) Place() int { return r.Row }

func (r result) Failure() (why string, temporary bool) { return r.Error, r.Temporary }

// do computes the results of a shard one by one, and saves its progress.
func do(each func(row int)) func(ctx context.Context, s Shard) ([]result, error) {
	return func(ctx context.Context, s Shard) (out []result, err error) {
		if raw, err := os.ReadFile(s.Progress); err == nil {
			for line := range strings.Lines(string(raw)) {
				var r result
				if !strings.HasSuffix(line, "\n") || json.Unmarshal([]byte(line), &r) != nil || r.Row != s.From+len(out) {
					break
				}
				out = append(out, r)
			}
		}
		var text []byte
		for _, r := range out {
			line, _ := json.Marshal(r)
			text = append(append(text, line...), '\n')
		}
		f, err := os.Create(s.Progress)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		if _, err := f.Write(text); err != nil {
			return nil, err
		}
		for i := s.From + len(out); i < s.To; i++ {
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			each(i)
			line, _ := json.Marshal(value(i))
			if _, err := f.Write(append(line, '\n')); err != nil {
				return nil, err
			}
			out = append(out, value(i))
		}
		return out, nil
	}
}

func merged(t *testing.T, w *Work[result]) {
	t.Helper()
	got, err := w.merge()
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range got {
		if r != value(i) {
			t.Fatalf("row %d: %+v, want %+v", i, r, value(i))
		}
	}
	if len(got) != rows {
		t.Errorf("got %d results, want %d", len(got), rows)
	}
}

// TestMain makes the test binary a worker, so that it can be killed.
func TestMain(m *testing.M) {
	dir := os.Getenv("ASSAY_SHARDS_CHILD")
	if dir == "" {
		os.Exit(m.Run())
	}
	log, err := os.OpenFile(filepath.Join(dir, "..", "made"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
	if err != nil {
		panic(err)
	}
	w, err := Open[result](dir, 24, "test", rows, weigh)
	if err != nil {
		panic(err)
	}
	w.Lease = 2 * time.Second
	_, err = w.Do(context.Background(), Ref{0, 24}, do(func(i int) {
		fmt.Fprintln(log, i)
		time.Sleep(40 * time.Millisecond)
	}))
	if err != nil {
		panic(err)
	}
	os.Exit(0)
}

// TestHalfAreKilled: 64 workers, half of which are killed at random, produce every result once, and little work is
// done twice.
func TestHalfAreKilled(t *testing.T) {
	long.Test(t)
	root := t.TempDir()
	dir := filepath.Join(root, "out.shards")
	var all sync.WaitGroup
	var failed sync.Map
	for i := range 64 {
		c := exec.Command(os.Args[0], "-test.run=^$")
		c.Env = append(os.Environ(), "ASSAY_SHARDS_CHILD="+dir)
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			time.AfterFunc(time.Duration(rand.IntN(1500))*time.Millisecond, func() { c.Process.Kill() })
		}
		all.Go(func() {
			if err := c.Wait(); err != nil && i%2 == 1 {
				failed.Store(i, err)
			}
		})
	}
	all.Wait()
	failed.Range(func(i, err any) bool { t.Errorf("worker %v: got error %v, want none", i, err); return true })
	merged(t, open(t, dir, 24))
	text, err := os.ReadFile(filepath.Join(root, "made"))
	if err != nil {
		t.Fatal(err)
	}
	times := map[string]int{}
	for s := bufio.NewScanner(strings.NewReader(string(text))); s.Scan(); {
		times[s.Text()]++
	}
	again := 0
	for _, n := range times {
		again += n - 1
	}
	t.Logf("%d rows, %d of them redone after a kill", len(times), again)
	if len(times) != rows || again > 64 { // each killed worker may lose its current row
		t.Errorf("got %d rows, %d of them redone, want %d, at most 64 redone", len(times), again, rows)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*lease*"))
	if err != nil || len(left) > 0 {
		t.Errorf("leases: got %v, %v, want none left", left, err)
	}
}

// TestAnyOrder: the results are the same for every number of shards and order of workers, and so are the manifests.
func TestAnyOrder(t *testing.T) {
	long.Test(t)
	for _, n := range []int{1, 3, 100} {
		t.Run(fmt.Sprintf("%d shards", n), func(t *testing.T) {
			var before []byte
			for range 2 {
				dir := filepath.Join(t.TempDir(), "shards")
				w := open(t, dir, n)
				if _, err := w.merge(); !errors.As(err, new(*IncompleteError)) {
					t.Errorf("Merge before the shards are done: got error %v, want an IncompleteError", err)
				}
				for _, k := range rand.Perm(n) {
					r, err := w.Do(t.Context(), Ref{k + 1, n}, do(func(int) {}))
					if err != nil || !slices.Equal(r.Shards, []int{k + 1}) {
						t.Fatalf("Do(%d/%d): got %+v, %v, want this shard done", k+1, n, r, err)
					}
				}
				merged(t, w)
				raw, err := os.ReadFile(w.path(manifestName(1)))
				if err != nil || before != nil && string(raw) != string(before) {
					t.Errorf("manifest: got %s, %v, want %s", raw, err, before)
				}
				before = raw
				again, err := w.Do(t.Context(), Ref{1, n}, nil)
				if err != nil || again.Before != 1 {
					t.Errorf("Do of a finished shard: got %+v, %v, want it counted as done before", again, err)
				}
			}
		})
	}
}

// TestCuts: shards have about the same number of bytes, and start at the start of a group.
func TestCuts(t *testing.T) {
	cuts := cut(rows, 8, weigh)
	total := int64(0)
	for i := range rows {
		b, _ := weigh(i)
		total += b + 1
	}
	for k := range 8 {
		part := int64(0)
		for i := cuts[k]; i < cuts[k+1]; i++ {
			b, _ := weigh(i)
			part += b + 1
		}
		if d := part - total/8; d < -2000 || d > 2000 {
			t.Errorf("shard %d: got %d bytes, want about %d", k+1, part, total/8)
		}
		if cuts[k]%3 != 0 {
			t.Errorf("shard %d: got a start at row %d, want the first row of a group of 3", k+1, cuts[k])
		}
	}
}

// TestSlowIsLeftAlone: a worker that renews its lease is waited for; the shard of one that does not is taken over,
// and it notices.
func TestSlowIsLeftAlone(t *testing.T) {
	long.Test(t)
	dir := filepath.Join(t.TempDir(), "shards")
	slow, fast := open(t, dir, 1), open(t, dir, 1)
	slow.Lease, fast.Lease = 200*time.Millisecond, 200*time.Millisecond
	made := 0
	begun := make(chan bool)
	var all sync.WaitGroup
	all.Go(func() {
		run := do(func(i int) { made++; time.Sleep(2 * time.Millisecond) }) // in total longer than a lease
		if _, err := slow.Do(t.Context(), Ref{1, 1}, func(ctx context.Context, s Shard) ([]result, error) {
			close(begun)
			return run(ctx, s)
		}); err != nil {
			t.Error(err)
		}
	})
	<-begun
	r, err := fast.Do(t.Context(), Ref{1, 1}, do(func(int) {
		t.Error("got a row done by the second worker, want all from the first: its lease was renewed")
	}))
	all.Wait()
	if err != nil || len(r.Shards) != 0 || made != rows {
		t.Errorf("second worker: got %+v, %v, want no shards; first worker: got %d rows, want %d", r, err, made, rows)
	}
	merged(t, fast)

	other := open(t, filepath.Join(t.TempDir(), "shards"), 1)
	other.Lease = 100 * time.Millisecond
	_, err = other.Do(t.Context(), Ref{1, 1}, func(ctx context.Context, s Shard) ([]result, error) {
		if s.Progress == other.path(progressName(1, 1)) { // another worker believes that this one is lost
			if err := os.WriteFile(other.path(leaseName(1, 2)), nil, 0o666); err != nil {
				t.Error(err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), errLost) {
				t.Errorf("cause of the context's end: got %v, want %v", context.Cause(ctx), errLost)
			}
			return nil, context.Cause(ctx)
		}
		return do(func(int) {})(ctx, s)
	})
	if err != nil { // the other worker was also lost
		t.Error(err)
	}
	merged(t, other)
}

// TestSlowCommits: if a worker commits at the moment when its shard is taken over, the other worker has nothing to
// do, and its lease is removed.
func TestSlowCommits(t *testing.T) {
	long.Test(t)
	dir := filepath.Join(t.TempDir(), "shards")
	slow, fast := open(t, dir, 1), open(t, dir, 1)
	claimed, busy, err := slow.claim(1)
	if err != nil || busy != "" {
		t.Fatalf("claim: got busy %q, %v, want the lease", busy, err)
	}
	old := time.Now().Add(-time.Hour)
	if err := os.Chtimes(slow.path(claimed.name), old, old); err != nil {
		t.Fatal(err)
	}
	r, err := fast.Do(t.Context(), Ref{1, 1}, func(ctx context.Context, s Shard) ([]result, error) {
		out, err := do(func(int) {})(ctx, s)
		if err == nil {
			_, err = slow.commit(s, out)
		}
		return out, errors.Join(err, slow.release(claimed))
	})
	if err != nil || len(r.Shards) != 0 {
		t.Errorf("Do of a shard that the other worker commits: got %+v, %v, want no shards", r, err)
	}
	merged(t, fast)
	if left, err := filepath.Glob(filepath.Join(dir, "*lease*")); err != nil || len(left) > 0 {
		t.Errorf("leases: got %v, %v, want none left", left, err)
	}
}

// TestClockJumps: a lost worker's shard is taken over after one lease even if the clock was set back by a year after
// the last renewal. It is taken over at once if the clock was set forward.
func TestClockJumps(t *testing.T) {
	for what, jump := range map[string]time.Duration{"back": 365 * 24 * time.Hour, "forward": -365 * 24 * time.Hour} {
		t.Run(what, func(t *testing.T) {
			w := open(t, filepath.Join(t.TempDir(), "shards"), 1)
			w.Lease = 300 * time.Millisecond
			name := w.path(leaseName(1, 1))
			elsewhere := []byte(`{"host": "other", "pid": 1, "id": "1-1", "boot": "other"}`)
			if err := os.WriteFile(name, elsewhere, 0o666); err != nil {
				t.Fatal(err)
			}
			renewed := time.Now().Add(jump) // by the clock at that time
			if err := os.Chtimes(name, renewed, renewed); err != nil {
				t.Fatal(err)
			}
			r, err := w.Do(t.Context(), Ref{1, 1}, do(func(int) {}))
			if err != nil || len(r.Shards) != 1 {
				t.Errorf("%s: got %+v, %v, want one shard", what, r, err)
			}
			merged(t, w)
		})
	}
}

// TestElsewhere: a missing PID only proves that the worker has ended in the same PID namespace and boot.
func TestElsewhere(t *testing.T) {
	me := worker()
	if me.Boot == "" {
		t.Skip("no /proc")
	}
	ended := me
	ended.PID, ended.Worker = 1<<30, "other" // larger than any PID
	again := me
	again.Worker = "other" // this process has its PID now
	for what, change := range map[string]func(h *holder){
		"space": func(h *holder) { h.Space = "pid:[1]" },
		"boot":  func(h *holder) { h.Boot = "earlier" },
		"older": func(h *holder) { h.Boot, h.Space = "", "" },
	} {
		t.Run(what, func(t *testing.T) {
			for _, h := range []holder{ended, again} {
				if !h.gone() {
					t.Errorf("gone of %+v: got false, want true: its process has ended", h)
				}
				change(&h)
				if h.gone() {
					t.Errorf("%s: gone of %+v: got true, want false: it cannot be known here", what, h)
				}
			}
		})
	}
}

// TestMergeProves: a damaged or missing file, or one of another plan, is an error that names it.
func TestMergeProves(t *testing.T) {
	for what, damage := range map[string]func(w *Work[result]) error{
		"is damaged": func(w *Work[result]) error {
			raw, err := os.ReadFile(w.path(resultName(2)))
			raw[len(raw)/2] ^= 1
			return errors.Join(err, os.WriteFile(w.path(resultName(2)), raw, 0o666))
		},
		"is missing":                    func(w *Work[result]) error { return os.Remove(w.path(resultName(2))) },
		"1 of 4 shards are not done: 2": func(w *Work[result]) error { return os.Remove(w.path(manifestName(2))) },
		"does not belong to this plan": func(w *Work[result]) error {
			raw, err := os.ReadFile(w.path(manifestName(3)))
			return errors.Join(err, os.WriteFile(w.path(manifestName(2)), raw, 0o666))
		},
	} {
		t.Run(what, func(t *testing.T) {
			w := open(t, filepath.Join(t.TempDir(), "shards"), 4)
			if _, err := w.Do(t.Context(), Ref{0, 4}, do(func(int) {})); err != nil {
				t.Fatal(err)
			}
			if err := damage(w); err != nil {
				t.Fatal(err)
			}
			if _, err := w.merge(); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want %q", err, what)
			}
		})
	}
	dir := filepath.Join(t.TempDir(), "shards")
	open(t, dir, 4)
	for what, again := range map[string]func() error{
		"other work":         func() error { _, err := Open[result](dir, 4, "another", rows, weigh); return err },
		"is split into 4":    func() error { _, err := Open[result](dir, 5, "test", rows, weigh); return err },
		"of 400 rows":        func() error { _, err := Reopen[result](dir, "test", rows+1); return err },
		"no shards to merge": func() error { _, err := Reopen[result](dir+"x", "test", rows); return err },
	} {
		t.Run(what, func(t *testing.T) {
			if err := again(); err == nil || !strings.Contains(err.Error(), what) {
				t.Errorf("%v, want %q", err, what)
			}
		})
	}
}

func TestParse(t *testing.T) {
	tests := []struct {
		text, env string
		want      string // Ref; or "error: " and part of the error
	}{
		{"", "", "all"},
		{"3/8", "", "3/8"},
		{"any/8", "", "any/8"},
		{"0/8", "", "error: want i/n"},
		{"9/8", "", "error: want i/n"},
		{"3", "", "error: want i/n"},
		{"any", "", "error: want i/n"},
		{"x/8", "", "error: want i/n"},
		{"1/0", "", "error: with n from 1"},
		{"auto", "", "error: no launcher"},
		{"auto", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", "3/4"},
		{"auto", "PMI_RANK=0 PMI_SIZE=4", "1/4"},
		{"auto", "PMIX_RANK=3 SLURM_STEP_NUM_TASKS=4", "4/4"},
		{"auto", "SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "2/2"},
		{"auto", "SLURM_PROCID=0 SLURM_NTASKS=4", "error: no launcher"}, // the batch script itself
		{"auto", "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=8 SLURM_ARRAY_TASK_COUNT=8", "3/8"},
		{"auto", "SLURM_ARRAY_TASK_ID=0 SLURM_ARRAY_TASK_MIN=0 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=8",
			"error: want all starting at 1"},
		{"auto", "SLURM_ARRAY_TASK_ID=3 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=2",
			"error: auto/n"},
		{"auto/8", "SLURM_ARRAY_TASK_ID=7 SLURM_ARRAY_TASK_MIN=3 SLURM_ARRAY_TASK_MAX=7 SLURM_ARRAY_TASK_COUNT=2", "7/8"},
		{"auto/8", "SLURM_ARRAY_TASK_ID=9", "error: not one of 1 to 8"},
		{"auto/8", "JOB_COMPLETION_INDEX=0", "1/8"},
		{"auto/8", "JOB_COMPLETION_INDEX=8", "error: more than the 8 completions"},
		{"auto", "JOB_COMPLETION_INDEX=0", "error: use auto/n"},
		{"auto/8", "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=4", "error: 4 processes"},
		{"auto", "SLURM_ARRAY_TASK_ID=2 SLURM_ARRAY_TASK_MIN=1 SLURM_ARRAY_TASK_MAX=3 SLURM_ARRAY_TASK_COUNT=3 " +
			"SLURM_PROCID=1 SLURM_STEP_NUM_TASKS=2", "4/6"},
	}
	for _, tt := range tests {
		t.Run(tt.text+" "+tt.env, func(t *testing.T) { checkParsed(t, tt.text, tt.env, tt.want) })
	}
}

// checkParsed compares the Ref of a text, or its error, in an environment of NAME=value.
func checkParsed(t *testing.T, text, environment, want string) {
	t.Helper()
	env := map[string]string{}
	for _, kv := range strings.Fields(environment) {
		k, v, _ := strings.Cut(kv, "=")
		env[k] = v
	}
	r, err := parse(text, func(name string) string { return env[name] })
	got := r.String()
	part, fails := strings.CutPrefix(want, "error: ")
	if fails != (err != nil) || fails && !strings.Contains(err.Error(), part) || !fails && got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}
