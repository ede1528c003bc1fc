//go:build cloud

package shards

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"assay/internal/remote/s3test"
)

// TestS3Workers: workers that share object storage do every row once; a worker that stops releases its lease, and the
// next one continues.
func TestS3Workers(t *testing.T) {
	s3test.Start(t, "shards")
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const dir = "s3://shards/work/out.jsonl.shards"
	ctx, stop := context.WithCancel(context.Background())
	var made atomic.Int64
	_, err := open(t, dir, 6).Do(ctx, Ref{0, 6}, do(func(int) {
		if made.Add(1) == 100 {
			stop()
		}
	}))
	if err == nil {
		t.Fatalf("the stopped worker: got error %v, want one", err)
	}
	var wait sync.WaitGroup
	for range 4 {
		wait.Go(func() {
			if _, err := open(t, dir, 6).Do(context.Background(), Ref{0, 6}, do(func(int) { made.Add(1) })); err != nil {
				t.Error(err)
			}
		})
	}
	wait.Wait()
	if n := made.Load(); n < rows || n > rows+1 {
		t.Errorf("got %d rows done, want %d", n, rows)
	}
	w, err := Reopen[result](dir, "test", rows)
	if err != nil {
		t.Fatal(err)
	}
	merged(t, w)
}

// TestDriverWithoutClaims: storage that cannot prevent conflicting claims is refused.
func TestDriverWithoutClaims(t *testing.T) {
	_, err := Open[result]("file://"+t.TempDir(), 2, "test", rows, weigh)
	if err == nil || !strings.Contains(err.Error(), "two workers could claim one shard") {
		t.Errorf("Open: got error %v, want one with %q", err, "two workers could claim one shard")
	}
}
