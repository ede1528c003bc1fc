package shards

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// few opens work of 6 rows of equal weight, in count shards.
func few(t *testing.T, count int) *Work[result] {
	t.Helper()
	each := func(int) (int64, bool) { return 9, true }
	w, err := Open[result](filepath.Join(t.TempDir(), "shards"), count, "few", 6, each)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// plain returns the results of a shard without saving progress.
func plain(_ context.Context, s Shard) (out []result, _ error) {
	for i := s.From; i < s.To; i++ {
		out = append(out, result{Row: i, Error: map[int]string{1: "<failed> & done"}[i]})
	}
	return out, nil
}

// left returns the files of work, except those whose names start with but.
func left(t *testing.T, w *Work[result], but string) (names []string) {
	t.Helper()
	files, err := os.ReadDir(w.dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name(), but) {
			names = append(names, f.Name())
		}
	}
	return names
}

// elsewhere writes a lease of this age held by a worker on another machine.
func elsewhere(t *testing.T, w *Work[result], name string, age time.Duration) {
	t.Helper()
	at := time.Now().Add(-age)
	err := os.WriteFile(w.path(name), []byte(`{"host": "there", "pid": 7, "id": "7-7", "boot": "other"}`), 0o666)
	if err := errors.Join(err, os.Chtimes(w.path(name), at, at)); err != nil {
		t.Fatal(err)
	}
}

// TestReport: a worker counts the shards that it did, those that were already done, and failed rows; it leaves only
// results and manifests.
func TestReport(t *testing.T) {
	w := few(t, 3)
	for _, c := range []struct {
		ref  Ref
		want Report
	}{
		{Ref{2, 3}, Report{Shards: []int{2}, Rows: 2}},
		{Ref{2, 3}, Report{Shards: []int{}, Before: 1}},
		{Ref{0, 3}, Report{Shards: []int{1, 3}, Before: 1, Rows: 4, Failed: 1}},
		{Ref{0, 3}, Report{Shards: []int{}, Before: 3}},
	} {
		got, err := w.Do(t.Context(), c.ref, plain)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(&c.want, got); d != "" {
			t.Errorf("Do(%v) (-want +got):\n%s", c.ref, d)
		}
	}
	if _, err := w.Do(t.Context(), Ref{1, 4}, plain); err == nil || !strings.Contains(err.Error(),
		"1/4 of work that is split into 3") {
		t.Errorf("another number of shards: got error %v, want one", err)
	}
	want := []string{"000001.json", "000001.jsonl", "000002.json", "000002.jsonl", "000003.json", "000003.jsonl"}
	if d := cmp.Diff(want, left(t, w, "plan")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	raw, err := os.ReadFile(w.path(resultName(1)))
	if want := "{\"Row\":0,\"Value\":0}\n{\"Row\":1,\"Value\":0,\"Error\":\"<failed> & done\"}\n"; err != nil ||
		string(raw) != want {
		t.Errorf("results: got %s, %v, want %s", raw, err, want)
	}
	raw, err = os.ReadFile(w.path(manifestName(1)))
	var m manifest
	if err := errors.Join(err, json.Unmarshal(raw, &m)); err != nil {
		t.Fatal(err)
	}
	m.SHA256, m.Plan = "", ""
	if d := cmp.Diff(manifest{Format: 1, Shard: 1, Of: 3, From: 0, Rows: 2, Failed: 1, Bytes: 66}, m); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
}

// TestWrongResults: a shard whose results do not match its rows is not committed.
func TestWrongResults(t *testing.T) {
	for want, change := range map[string]func([]result) []result{
		"shard 2 has 3 rows, but 2 results":      func(r []result) []result { return r[:2] },
		"shard 2 has 3 rows, but 4 results":      func(r []result) []result { return append(r, r[0]) },
		"shard 2: result 2 is for row 6, want 5": func(r []result) []result { return []result{r[0], r[2], r[1]} },
		"shard 2: result 1 is for row 5, want 4": func(r []result) []result { return []result{r[1], r[1], r[2]} },
	} {
		t.Run(want, func(t *testing.T) {
			w := few(t, 2)
			_, err := w.Do(t.Context(), Ref{2, 2}, func(ctx context.Context, s Shard) ([]result, error) {
				out, err := plain(ctx, s)
				return change(out), err
			})
			if err == nil || err.Error() != want {
				t.Errorf("Do: got error %v, want %q", err, want)
			}
			if done, err := w.done(2); done || err != nil {
				t.Errorf("done: got %t, %v, want false", done, err)
			}
		})
	}
}

// TestTemporary: a shard with temporary failures is not done, and reports which rows failed and why. The next call
// resumes it at once from the saved progress; the other shards are done.
func TestTemporary(t *testing.T) {
	w := few(t, 2)
	server := true
	why := func(int) string { return "" }
	run := func(ctx context.Context, s Shard) ([]result, error) {
		if raw, err := os.ReadFile(s.Progress); err == nil {
			t.Logf("shard %d resumes from %s", s.Index, raw)
		} else if !server && s.Index == 1 {
			t.Errorf("shard 1 resumed: got error %v, want the saved progress", err)
		}
		if err := os.WriteFile(s.Progress, []byte("kept"), 0o666); err != nil {
			return nil, err
		}
		results, err := plain(ctx, s)
		for i := range results {
			if r := &results[i]; server && (r.Row == 1 || r.Row == 2) {
				r.Temporary, r.Error = true, why(r.Row)
			}
		}
		return results, err
	}
	const text = "shard 1 is not done: a server failed at 2 of its 3 rows, first at row 2; the same command retries"
	r, err := w.Do(t.Context(), Ref{0, 2}, run)
	var passing *TemporaryError
	if !errors.As(err, &passing) || err.Error() != text || !slices.Equal(r.Shards, []int{2}) {
		t.Errorf("got %+v, %v, want shard 2 done and %q", r, err, text)
	}
	why = func(row int) string { return fmt.Sprint("row ", row) }
	if _, err := w.Do(t.Context(), Ref{0, 2}, run); err == nil || err.Error() != text+": row 1" {
		t.Errorf("got error %v, want %q", err, text+": row 1")
	}
	server = false
	began := time.Now()
	if r, err := w.Do(t.Context(), Ref{0, 2}, run); err != nil || !slices.Equal(r.Shards, []int{1}) ||
		time.Since(began) > w.lease()/4 {
		t.Errorf("got %+v, %v after %v, want shard 1 done at once", r, err, time.Since(began))
	}
	if d := cmp.Diff([]string{"000001.json", "000001.jsonl", "000002.json", "000002.jsonl"}, left(t, w, "plan")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestTemporaryRow: one temporary failure is enough, and its row is counted from the start of the table.
func TestTemporaryRow(t *testing.T) {
	w := few(t, 2)
	r, err := w.Do(t.Context(), Ref{2, 2}, func(ctx context.Context, s Shard) ([]result, error) {
		results, err := plain(ctx, s)
		results[1].Temporary, results[1].Error = true, "busy"
		return results, err
	})
	const want = "shard 2 is not done: a server failed at 1 of its 3 rows, first at row 5; the same command retries: busy"
	if err == nil || err.Error() != want || len(r.Shards) > 0 {
		t.Errorf("got %+v, %v, want %q", r, err, want)
	}
}

// TestInherit: a worker gets the partial results of the newest worker before it that has any.
func TestInherit(t *testing.T) {
	w := few(t, 1)
	w.Lease = time.Minute
	for i, c := range []struct {
		texts map[int]string // of the workers before
		want  string
	}{
		{map[int]string{}, ""},
		{map[int]string{1: "first"}, "first"},
		{map[int]string{1: "first", 2: "second"}, "second"},
		{map[int]string{1: "first", 3: "third"}, "third"},
	} {
		for n := 1; n <= 3; n++ {
			elsewhere(t, w, leaseName(1, n), time.Hour)
			_ = os.Remove(w.path(progressName(1, n)))
			if text, ok := c.texts[n]; ok {
				if err := os.WriteFile(w.path(progressName(1, n)), []byte(text), 0o666); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, failed := "", errors.New("only looks")
		_, err := w.Do(t.Context(), Ref{0, 1}, func(_ context.Context, s Shard) ([]result, error) {
			raw, err := os.ReadFile(s.Progress)
			if got = string(raw); err != nil && !os.IsNotExist(err) {
				t.Error(err)
			}
			return nil, failed
		})
		if !errors.Is(err, failed) || got != c.want {
			t.Errorf("case %d: got %q, %v, want %q", i+1, got, err, c.want)
		}
		for _, name := range []string{leaseName(1, 4), progressName(1, 4)} {
			_ = os.Remove(w.path(name))
		}
	}
	path := w.path(progressName(1, 3))
	if err := errors.Join(os.Remove(path), os.Mkdir(path, 0o777)); err != nil { // cannot be copied
		t.Fatal(err)
	}
	if r, err := w.Do(t.Context(), Ref{0, 1}, plain); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("got %+v, %v, want an error that names the directory", r, err)
	}
}

// TestPlanDigest: it is the first half of the SHA-256 of the plan.
func TestPlanDigest(t *testing.T) {
	sum := sha256.Sum256([]byte(`{"format":1,"head":"few","rows":6,"cuts":[0,3,6]}`))
	if got, want := few(t, 2).digest(), fmt.Sprintf("%x", sum[:16]); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestBusy: a shard held by a worker on another machine is waited for, and taken over when its lease has expired.
func TestBusy(t *testing.T) {
	w := few(t, 2)
	var told []string
	ctx, stop := context.WithCancelCause(t.Context())
	enough := errors.New("enough")
	w.Told = func(text string) {
		if told = append(told, text); strings.HasPrefix(text, "waiting") {
			stop(enough)
		}
	}
	w.Lease = time.Hour
	elsewhere(t, w, leaseName(2, 1), 59*time.Minute)
	r, err := w.Do(ctx, Ref{0, 2}, plain)
	if !errors.Is(err, enough) || !slices.Equal(r.Shards, []int{1}) {
		t.Errorf("Do: got %+v, %v, want shard 1 done, then %v", r, err, enough)
	}
	if d := cmp.Diff([]string{"waiting: shard 2 is held by process 7 on there"}, told); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	_, err = w.merge()
	if want := "1 of 2 shards are not done: 2 (held by process 7 on there)"; err == nil || err.Error() != want {
		t.Errorf("Merge: got error %v, want %q", err, want)
	}
	told = nil
	elsewhere(t, w, leaseName(2, 1), time.Hour+time.Second)
	if _, err = w.merge(); err == nil || err.Error() != "1 of 2 shards are not done: 2" {
		t.Errorf("Merge with an expired lease: got error %v, want no holder named", err)
	}
	if r, err := w.Do(t.Context(), Ref{0, 2}, plain); err != nil || !slices.Equal(r.Shards, []int{2}) || r.Before != 1 {
		t.Errorf("Do with an expired lease: got %+v, %v, want shard 2", r, err)
	}
	if d := cmp.Diff([]string{"shard 2 is taken over from process 7 on there, which was lost"}, told); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	for _, name := range []string{leaseName(1, 1), progressName(1, 1)} { // left by a worker that ended before the release
		elsewhere(t, w, name, time.Hour+time.Second)
	}
	elsewhere(t, w, leaseName(1, 2), time.Hour+time.Second)
	elsewhere(t, w, leaseName(2, 1), time.Minute) // its worker may be about to release it
	if got, err := w.merge(); err != nil || len(got) != 6 {
		t.Errorf("Merge: got %d results, %v, want 6", len(got), err)
	}
	if d := cmp.Diff([]string{"000002.lease-0001"}, slices.DeleteFunc(left(t, w, "plan"), func(name string) bool {
		return strings.Contains(name, ".json")
	})); d != "" {
		t.Errorf("remaining leases (-want +got):\n%s", d)
	}
}

// TestFinishedMeanwhile: a shard that another worker finishes during the wait was not done before.
func TestFinishedMeanwhile(t *testing.T) {
	w := few(t, 2)
	other := *w
	w.Lease = 200 * time.Millisecond // the time between two looks is a quarter of it
	elsewhere(t, w, leaseName(2, 1), 0)
	w.Told = func(string) {
		results, err := plain(t.Context(), Shard{From: 3, To: 6})
		if err == nil {
			_, err = other.commit(Shard{Index: 2, From: 3, To: 6}, results)
		}
		if err != nil {
			t.Error(err)
		}
	}
	r, err := w.Do(t.Context(), Ref{0, 2}, plain)
	if err != nil || r.Before != 0 || !slices.Equal(r.Shards, []int{1}) {
		t.Errorf("got %+v, %v, want shard 1, none done before", r, err)
	}
}

// TestWait: while a shard is held, a worker says so once, and looks again after a quarter of the lease's lifetime.
func TestWait(t *testing.T) {
	w := few(t, 1)
	other := *w
	w.Lease = 2 * time.Second
	var looks []time.Time
	elsewhere(t, w, leaseName(1, 1), 0)
	w.place = &faulty{place: w.place, fails: func(call string, _ int) bool {
		if call != "has "+manifestName(1) {
			return false
		}
		elsewhere(t, &other, leaseName(1, 1), 0) // renewed
		if looks = append(looks, time.Now()); len(looks) == 3 {
			results, err := plain(t.Context(), Shard{To: 6})
			if err == nil {
				_, err = other.commit(Shard{Index: 1, To: 6}, results)
			}
			if err != nil {
				t.Error(err)
			}
		}
		return false
	}}
	var told []string
	w.Told = func(text string) { told = append(told, text) }
	if _, err := w.Do(t.Context(), Ref{0, 1}, plain); err != nil {
		t.Error(err)
	}
	if d := cmp.Diff([]string{"waiting: shard 1 is held by process 7 on there"}, told); d != "" {
		t.Errorf("told (-want +got):\n%s", d)
	}
	for i := 1; i < len(looks); i++ {
		if pause := looks[i].Sub(looks[i-1]); pause < w.Lease/4 {
			t.Errorf("look %d: got a pause of %v, want at least %v", i+1, pause, w.Lease/4)
		}
	}
}

// TestInterrupted: an interrupted worker gives its shard up at once; one whose work failed holds it until the lease
// expires, so that others do not fail as well.
func TestInterrupted(t *testing.T) {
	for _, interrupted := range []bool{true, false} {
		t.Run(fmt.Sprint(interrupted), func(t *testing.T) {
			w := few(t, 1)
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			failed := errors.New("the work failed")
			_, err := w.Do(ctx, Ref{0, 1}, func(context.Context, Shard) ([]result, error) {
				if interrupted {
					stop()
				}
				return nil, failed
			})
			if !errors.Is(err, failed) {
				t.Errorf("got error %v, want %v", err, failed)
			}
			if _, age, err := w.held(1, 1); err != nil || (age >= w.lease()) != interrupted {
				t.Errorf("got a lease of %v, %v, want it expired: %t", age, err, interrupted)
			}
		})
	}
	w := few(t, 1)
	w.place = &faulty{place: w.place, fails: func(call string, _ int) bool { return strings.HasPrefix(call, "expire ") }}
	ctx, stop := context.WithCancel(t.Context())
	_, err := w.Do(ctx, Ref{0, 1}, func(context.Context, Shard) ([]result, error) { stop(); return nil, ctx.Err() })
	if !errors.Is(err, context.Canceled) || !errors.Is(err, errFault) {
		t.Errorf("the lease could not be given up: got error %v, want %v and %v", err, context.Canceled, errFault)
	}
}

// TestClaimed: of two workers one gets a shard, and the other is told who has it; a released or lost lease is free.
func TestClaimed(t *testing.T) {
	w := few(t, 1)
	first, busy, err := w.claim(1)
	if err != nil || busy != "" || first.number != 1 || first.name != "000001.lease-0001" {
		t.Fatalf("claim: got %+v, busy %q, %v, want the first lease", first, busy, err)
	}
	if l, busy, err := w.claim(1); l != nil || busy != fmt.Sprintf("process %d on %s", worker().PID, worker().Host) ||
		err != nil {
		t.Errorf("claim again: got %+v, busy %q, %v, want this process named", l, busy, err)
	}
	if err := w.place.claim(first.name, nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("claiming an existing lease: got error %v, want %v", err, fs.ErrExist)
	}
	if err := w.place.expire(first.name); err != nil {
		t.Fatal(err)
	}
	second, busy, err := w.claim(1)
	if err != nil || busy != "" || second.number != 2 || slices.Equal(first.text, second.text) {
		t.Fatalf("claim of a released lease: got %+v, busy %q, %v, want lease 2 with its own content", second, busy, err)
	}
	for l, want := range map[*lease]bool{first: false, second: true} {
		if mine, err := w.mine(l); mine != want || err != nil {
			t.Errorf("mine of lease %d: got %t, %v, want %t", l.number, mine, err, want)
		}
	}
	stays := w.path(progressName(1, 1)) // a nonempty folder
	if err := errors.Join(os.MkdirAll(filepath.Join(stays, "x"), 0o777), w.release(second)); err == nil {
		t.Errorf("release of a file that cannot be removed: got error %v, want one", err)
	}
	if err := errors.Join(os.RemoveAll(stays), w.release(second)); err != nil {
		t.Fatal(err)
	}
	if names := left(t, w, "plan"); names != nil {
		t.Errorf("after release: got %v, want nothing", names)
	}
	if mine, err := w.mine(second); mine || err != nil {
		t.Errorf("mine of a removed lease: got %t, %v, want false", mine, err)
	}
}

// TestKeep: a lease is renewed while its shard is in progress; without the lease the work ends.
func TestKeep(t *testing.T) {
	w := few(t, 1)
	w.Lease = 40 * time.Millisecond
	l, _, err := w.claim(1)
	if err != nil {
		t.Fatal(err)
	}
	long := time.Now().Add(-time.Hour)
	if err := os.Chtimes(w.path(l.name), long, long); err != nil {
		t.Fatal(err)
	}
	kept, stop := w.keep(t.Context(), l)
	renewed := false
	for range 10_000 {
		info, err := os.Stat(w.path(l.name))
		if renewed = err == nil && info.ModTime().After(long); renewed {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !renewed || kept.Err() != nil {
		t.Errorf("in progress: got the lease renewed %t, context %v, want it renewed", renewed, kept.Err())
	}
	if err := w.place.remove(l.name); err != nil {
		t.Fatal(err)
	}
	select {
	case <-kept.Done():
	case <-time.After(10 * time.Second):
		t.Error("without a lease: got a context that has not ended, want its end")
	}
	if cause := context.Cause(kept); !errors.Is(cause, errLost) {
		t.Errorf("without a lease: got cause %v, want %v", cause, errLost)
	}
	stop()
	kept, stop = w.keep(t.Context(), l)
	stop()
	if cause := context.Cause(kept); errors.Is(cause, errLost) || cause == nil {
		t.Errorf("stopped: got cause %v, want a different one than %v", cause, errLost)
	}
}

// TestRenewals: a lease is renewed every quarter of its lifetime while it is the newest, and one renewal may fail.
// After stop there are no renewals.
func TestRenewals(t *testing.T) {
	w := few(t, 1)
	w.Lease = 1600 * time.Millisecond
	l, _, err := w.claim(1)
	if err != nil {
		t.Fatal(err)
	}
	at, start := make(chan time.Time), time.Now()
	failed := false
	w.place = &faulty{place: w.place, fails: func(call string, _ int) bool {
		if !strings.HasPrefix(call, "renew ") {
			return false
		}
		now := time.Now()
		at <- now
		fails := !failed && now.Sub(start) > w.Lease
		failed = failed || fails
		return fails
	}}
	kept, stop := w.keep(t.Context(), l)
	var last time.Time
	for n := 1; n <= 7; n++ { // the fourth or fifth one fails
		select {
		case now := <-at:
			if pause := now.Sub(last); n > 1 && pause < w.Lease/4 {
				t.Errorf("renewal %d: got a pause of %v, want at least %v", n, pause, w.Lease/4)
			}
			last = now
		case <-time.After(2 * w.Lease):
			t.Fatalf("renewal %d: got none in %v, want one every %v", n, 2*w.Lease, w.Lease/4)
		case <-kept.Done():
			t.Fatalf("renewal %d: got a lost lease, want it kept", n)
		}
	}
	<-at
	stop()
	select {
	case <-at:
		t.Error("after stop: got a renewal, want none")
	case <-time.After(w.Lease / 2):
	}
}

// TestStopWaits: stop returns after a renewal in progress has ended.
func TestStopWaits(t *testing.T) {
	w := few(t, 1)
	w.Lease = 40 * time.Millisecond
	l, _, err := w.claim(1)
	if err != nil {
		t.Fatal(err)
	}
	renewing, goOn := make(chan bool, 100), make(chan bool)
	w.place = &faulty{place: w.place, fails: func(call string, _ int) bool {
		if strings.HasPrefix(call, "renew ") {
			renewing <- true
			<-goOn
		}
		return false
	}}
	_, stop := w.keep(t.Context(), l)
	<-renewing
	stopped := make(chan bool)
	go func() { stop(); close(stopped) }()
	select {
	case <-stopped:
		t.Error("stop returned during a renewal, want it to wait")
	case <-time.After(50 * time.Millisecond):
	}
	close(goOn)
	<-stopped
}

// TestNotRenewed: a lease that is gone, or has a newer one, is not renewed.
func TestNotRenewed(t *testing.T) {
	for name, spoil := range map[string]func(w *Work[result], l *lease) error{
		"gone":         func(w *Work[result], l *lease) error { return w.place.remove(l.name) },
		"a newer one":  func(w *Work[result], _ *lease) error { return w.place.claim(leaseName(1, 2), []byte("{}")) },
		"not readable": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := few(t, 1)
			w.Lease = 40 * time.Millisecond
			l, _, err := w.claim(1)
			if err == nil && spoil != nil {
				err = spoil(w, l)
			}
			if err != nil {
				t.Fatal(err)
			}
			f := &faulty{place: w.place, fails: func(call string, _ int) bool {
				return spoil == nil && call == "has "+leaseName(1, 2)
			}}
			w.place = f
			kept, stop := w.keep(t.Context(), l)
			<-kept.Done()
			stop()
			for _, call := range f.calls {
				if strings.HasPrefix(call, "renew ") {
					t.Errorf("got calls %q, want no renewal", f.calls)
				}
			}
		})
	}
}

// contract checks what every empty place guarantees, and leaves the file a in it.
func contract(t *testing.T, p place) {
	if err := p.once("a", []byte("first")); err != nil {
		t.Fatal(err)
	}
	if err := p.once("a", []byte("second")); err != nil {
		t.Errorf("once of an existing file: got error %v, want none", err)
	}
	if raw, err := p.read("a"); string(raw) != "first" || err != nil {
		t.Errorf("once: got %q, %v, want first", raw, err)
	}
	for name, want := range map[string]bool{"a": true, "b": false} {
		if there, err := p.has(name); there != want || err != nil {
			t.Errorf("has(%s): got %t, %v, want %t", name, there, err, want)
		}
	}
	if _, err := p.read("b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("read of a missing file: got error %v, want %v", err, fs.ErrNotExist)
	}
	if age, err := p.age("b"); age != 0 || !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("age of a missing file: got %v, %v, want %v", age, err, fs.ErrNotExist)
	}
	if err := p.claim("lease", []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if err := p.claim("lease", []byte("theirs")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("claim of another's lease: got error %v, want %v", err, fs.ErrExist)
	}
	young := func(what string) { // object storage compares the server's times, which are whole seconds
		if age, err := p.age("lease"); age < 0 || age > 20*time.Second || err != nil {
			t.Errorf("age of a %s lease: got %v, %v, want seconds", what, age, err)
		}
	}
	young("new")
	if err := p.expire("lease"); err != nil {
		t.Fatal(err)
	}
	if age, err := p.age("lease"); age < 365*24*time.Hour || err != nil {
		t.Errorf("age of an expired lease: got %v, %v, want years", age, err)
	}
	if err := p.renew("lease", []byte("mine again")); err != nil {
		t.Fatal(err)
	}
	if raw, err := p.read("lease"); string(raw) != "mine again" || err != nil {
		t.Errorf("renew: got %q, %v, want mine again", raw, err)
	}
	young("renewed")
	if err := errors.Join(p.remove("lease"), p.remove("lease")); err != nil {
		t.Errorf("remove, twice: got error %v, want none", err)
	}
	if there, err := p.has("lease"); there || err != nil {
		t.Errorf("has of a removed file: got %t, %v, want false", there, err)
	}
}

// TestDisk: the guarantees of a folder as a place, and errors if it cannot keep them.
func TestDisk(t *testing.T) {
	dir := t.TempDir()
	d := disk(dir)
	contract(t, d)
	if files, err := os.ReadDir(dir); len(files) != 1 || err != nil {
		t.Errorf("files: got %v, %v, want one", files, err)
	}
	if there, err := d.has("a/b"); there || err == nil {
		t.Errorf("has below a file: got %t, %v, want an error", there, err)
	}
	if err := d.renew("b", nil); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("renew of a missing file: got error %v, want %v", err, fs.ErrNotExist)
	}
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(d.path("a"), ahead, ahead); err != nil {
		t.Fatal(err)
	}
	if age, err := d.age("a"); age != 0 || err != nil {
		t.Errorf("age of a file from the future: got %v, %v, want 0", age, err)
	}
	if info, err := os.Stat(d.path("a")); err != nil || info.ModTime().After(time.Now().Add(time.Minute)) {
		t.Errorf("a file from the future: got its time %v, %v, want now", info.ModTime(), err)
	}
	if err := d.remove("a/b"); err == nil {
		t.Errorf("remove below a file: got error %v, want one", err)
	}
	if who, age, err := (&Work[result]{place: d}).held(1, 1); who != (holder{}) || age != 0 || err != nil {
		t.Errorf("held of a missing lease: got %+v, %v, %v, want no holder", who, age, err)
	}
}

// TestReader: results are read row by row, in order; other rows are errors.
func TestReader(t *testing.T) {
	w := few(t, 3)
	if get, stop, err := w.Reader(); get != nil || stop != nil || !errors.As(err, new(*IncompleteError)) {
		t.Errorf("Reader of unfinished work: got error %v, want an IncompleteError", err)
	}
	if _, err := w.Do(t.Context(), Ref{0, 3}, plain); err != nil {
		t.Fatal(err)
	}
	get, stop, err := w.Reader()
	if err != nil {
		t.Fatal(err)
	}
	for row := range 6 {
		if r, err := get(row); r.Row != row || err != nil {
			t.Errorf("row %d: got %+v, %v, want it", row, r, err)
		}
	}
	if r, err := get(6); err == nil || err.Error() != w.dir+": row 7 has no result" {
		t.Errorf("after the last row: got %+v, %v, want an error", r, err)
	}
	stop()
	get, stop, err = w.Reader()
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if r, err := get(1); err == nil || err.Error() != w.dir+": row 2 has no result" {
		t.Errorf("out of order: got %+v, %v, want an error", r, err)
	}
}

// TestMissing: at most twenty shards are named.
func TestMissing(t *testing.T) {
	if _, err := few(t, 2).merge(); err == nil || err.Error() != "2 of 2 shards are not done: 1, 2" {
		t.Errorf("nothing was done: got error %v, want both shards named, without a holder", err)
	}
	for n, want := range map[int]string{1: "1 of 99 shards are not done: 1", 20: ", 19, 20", 21: ", 19, 20, and 1 more",
		50: ", 20, and 30 more"} {
		e := &IncompleteError{Of: 99}
		for k := range n {
			e.Missing = append(e.Missing, fmt.Sprint(k+1))
		}
		if got := e.Error(); !strings.HasSuffix(got, want) {
			t.Errorf("%d missing: got %q, want it to end with %q", n, got, want)
		}
		if last := e.Missing[n-1]; last != fmt.Sprint(n) {
			t.Errorf("%d missing: afterwards the last one is %q, want %d", n, last, n)
		}
	}
}

// TestSweep: a merge removes the only lease of a worker that ended after its manifest.
func TestSweep(t *testing.T) {
	w := few(t, 1)
	if _, err := w.Do(t.Context(), Ref{0, 1}, plain); err != nil {
		t.Fatal(err)
	}
	elsewhere(t, w, leaseName(1, 1), time.Hour)
	if got, err := w.merge(); err != nil || len(got) != 6 {
		t.Errorf("got %d results, %v, want 6", len(got), err)
	}
	if d := cmp.Diff([]string{"000001.json", "000001.jsonl"}, left(t, w, "plan")); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
}

// TestChangedRows: the error has the number or the name of the first changed row, and what to remove.
func TestChangedRows(t *testing.T) {
	w := few(t, 2)
	if _, err := w.Do(t.Context(), Ref{0, 2}, plain); err != nil {
		t.Fatal(err)
	}
	w.Changed = func(r result) (bool, error) { return r.Row >= 4, nil }
	for _, want := range []string{"row 5 has changed", "fifth has changed"} {
		_, err := w.merge()
		if err == nil || !strings.HasPrefix(err.Error(), want) ||
			!strings.Contains(err.Error(), fmt.Sprintf("remove %s and %s to redo shard 2", w.path("000002.json"),
				w.path("000002.jsonl"))) {
			t.Errorf("Merge: got error %v, want one that starts with %q", err, want)
		}
		w.Name = func(result) string { return "fifth" }
	}
}

// TestPlans: a plan with invalid cuts is refused.
func TestPlans(t *testing.T) {
	for text, want := range map[string]string{
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, 3, 6]}`:    "",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, 0, 6, 6]}`: "",
		`{"format": 2, "head": "few", "rows": 6, "cuts": [0, 6]}`:       "not a plan of shards",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0]}`:          "not a plan of shards",
		`{"format": 1, "head": "few", "rows": 0, "cuts": [0]}`:          "not a plan of shards",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [1, 6]}`:       "not a plan of shards",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, 5]}`:       "not a plan of shards",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, 4, 3, 6]}`: "not in order",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, 7, 6]}`:    "not in order",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, -1, 6]}`:   "not in order",
		`{"format": 1, "head": "few", "rows": 6, "cuts": [0, "3", 6]}`:  "cannot unmarshal string",
		`{"format": 1, "rows": 6, "cuts": [0, 3, 6]}`:                   "unexpected end of JSON",
		`{"format": 1`: "plan.json",
	} {
		t.Run(text, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, planFile), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			_, err := Reopen[result](dir, "few", 6)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("Reopen: got error %v, want %q", err, want)
			}
		})
	}
}

// TestCutEdges: shards may be empty, rows without bytes count, and a group is never split.
func TestCutEdges(t *testing.T) {
	for _, c := range []struct {
		name        string
		rows, count int
		weigh       func(int) (int64, bool)
		want        []int
	}{
		{"one", 4, 1, func(int) (int64, bool) { return 1, true }, []int{0, 4}},
		{"even", 4, 2, func(int) (int64, bool) { return 1, true }, []int{0, 2, 4}},
		{"no bytes", 4, 4, func(int) (int64, bool) { return 0, true }, []int{0, 1, 2, 3, 4}},
		{"unknown bytes", 4, 2, func(int) (int64, bool) { return -5, true }, []int{0, 2, 4}},
		{"more shards", 2, 4, func(int) (int64, bool) { return 1, true }, []int{0, 1, 1, 2, 2}},
		{"no rows", 0, 2, nil, []int{0, 0, 0}},
		{"one group", 3, 2, func(i int) (int64, bool) { return 1, i == 0 }, []int{0, 3, 3}},
		{"one byte more a row", 6, 2, func(i int) (int64, bool) { return int64(i / 5 * 4), true }, []int{0, 5, 6}},
		{"heavy first", 3, 3, func(i int) (int64, bool) { return int64(100 - 50*i), true }, []int{0, 1, 2, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := cut(c.rows, c.count, c.weigh); !slices.Equal(got, c.want) {
				t.Errorf("cut: got %v, want %v", got, c.want)
			}
		})
	}
}

// TestLaunchers: invalid numbers are ignored or refused, and processes within tasks are counted.
func TestLaunchers(t *testing.T) {
	array := func(id, first, last, n string) string {
		return fmt.Sprintf("SLURM_ARRAY_TASK_ID=%s SLURM_ARRAY_TASK_MIN=%s SLURM_ARRAY_TASK_MAX=%s SLURM_ARRAY_TASK_COUNT=%s",
			id,
			first, last, n)
	}
	for _, c := range []struct{ text, env, want string }{
		{"100000/100000", "", "100000/100000"},
		{"1/1", "", "1/1"},
		{"2/2", "", "2/2"},
		{"-1/2", "", "error: want i/n"},
		{"auto/1", "PMI_RANK=0 PMI_SIZE=2", "error: the launcher has 2 processes"},
		{"1/100001", "", "error: with n from 1 to 100000"},
		{"any/1", "", "any/1"},
		{"auto", "PMI_RANK=4 PMI_SIZE=4", "error: no launcher"},
		{"auto", "PMI_RANK=-1 PMI_SIZE=4", "error: no launcher"},
		{"auto", "PMI_RANK=3 PMI_SIZE=4", "4/4"},
		{"auto/4", "PMI_RANK=3 PMI_SIZE=4", "4/4"},
		{"auto", array("1", "1", "3", "3"), "1/3"},
		{"auto", array("4", "1", "3", "3"), "error: not one of 1 to 3"},
		{"auto", array("1", "1", "0", "x"), "error: want all starting at 1"},
		{"auto", array("x", "1", "3", "3"), "error: want all starting at 1"},
		{"auto", array("1", "1", "4", "3"), "error: want all starting at 1"},
		{"auto/3", "SLURM_ARRAY_TASK_ID=0", "error: not one of 1 to 3"},
		{"auto/3", "SLURM_ARRAY_TASK_ID=1", "1/3"},
		{"auto/3", "SLURM_ARRAY_TASK_ID=3", "3/3"},
		{"auto/3", "SLURM_ARRAY_TASK_ID=x", "error: task x of the SLURM array"},
		{"auto/4", "SLURM_ARRAY_TASK_ID=2 PMI_RANK=1 PMI_SIZE=2", "4/4"},
		{"auto/5", "SLURM_ARRAY_TASK_ID=2 PMI_RANK=1 PMI_SIZE=2", "error: the launcher has 4 processes"},
		{"auto/4", "JOB_COMPLETION_INDEX=1 PMI_RANK=0 PMI_SIZE=2", "3/4"},
		{"auto/4", "JOB_COMPLETION_INDEX=2 PMI_RANK=0 PMI_SIZE=2", "error: more than the 2 completions"},
		{"auto/2", "JOB_COMPLETION_INDEX=1 PMI_RANK=0 PMI_SIZE=2", "error: more than the 1 completions"},
		{"auto/5", "JOB_COMPLETION_INDEX=0 PMI_RANK=0 PMI_SIZE=2", "error: use auto/n"},
		{"auto/8", "JOB_COMPLETION_INDEX=-1", `error: JOB_COMPLETION_INDEX is "-1"`},
		{"auto/8", "JOB_COMPLETION_INDEX=x", `error: JOB_COMPLETION_INDEX is "x"`},
		{"auto/8", "JOB_COMPLETION_INDEX=7", "8/8"},
	} {
		t.Run(c.text+" "+c.env, func(t *testing.T) { checkParsed(t, c.text, c.env, c.want) })
	}
	if Folder("out.jsonl") != "out.jsonl.shards" {
		t.Errorf("Folder: got %s, want out.jsonl.shards", Folder("out.jsonl"))
	}
}

// TestHeads: work is the same if its head has the same content, however it is written, and different if any value
// differs.
func TestHeads(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "shards")
	open := func(head any, rows int) error {
		_, err := Open[result](dir, 2, head, rows, func(int) (int64, bool) { return 1, true })
		return err
	}
	head := map[string]any{"in": "a.jsonl", "list": []int{1, 2}}
	for range 2 {
		if err := open(head, 6); err != nil {
			t.Errorf("Open: got error %v, want none", err)
		}
	}
	if _, err := Reopen[result](dir, head, 6); err != nil {
		t.Errorf("Reopen: got error %v, want none", err)
	}
	if err := open(map[string]any{"in": "a.jsonl", "list": []int{1, 3}}, 6); err == nil {
		t.Errorf("Open of other work: got error %v, want one", err)
	}
	if err := open(head, 5); err == nil {
		t.Errorf("Open of fewer rows: got error %v, want one", err)
	}
}
