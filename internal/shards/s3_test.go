//go:build cloud

package shards

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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

// TestS3Objects: the guarantees of object storage as a place, and its errors.
func TestS3Objects(t *testing.T) {
	s3test.Start(t, "places") // a bucket of its own: package remote keeps the connection to the other one
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	const dir = "s3://places/some/place"
	o := objects(dir)
	if err := o.check(); err != nil {
		t.Fatal(err)
	}
	contract(t, o)
	if err := errors.Join(o.claim("lease", []byte("mine")), o.claim("lease", []byte("mine"))); err != nil {
		t.Errorf("claim of one's own lease, as if the first response was lost: got error %v, want none", err)
	}
	time.Sleep(2100 * time.Millisecond) // the server's times are whole seconds
	if age, err := o.age("lease"); age < time.Second || age > 20*time.Second || err != nil {
		t.Errorf("age of a lease after two seconds: got %v, %v, want at least one", age, err)
	}
	if err := o.write("short", []byte("{}")); err != nil {
		t.Fatal(err)
	}
	if age, err := o.age("short"); age > 20*time.Second || err != nil {
		t.Errorf("age of a short object that is not expired: got %v, %v, want seconds", age, err)
	}
	first, err := o.progress("p")
	if err != nil {
		t.Fatal(err)
	}
	if second, err := o.progress("q"); err != nil || second == first {
		t.Errorf("progress: got %s for p and %s, %v for q, want two files", first, second, err)
	}
	gone := objects("s3://no-such-bucket/place")
	if err := gone.check(); err == nil || errors.Is(err, fs.ErrExist) {
		t.Errorf("check of a missing bucket: got error %v, want one", err)
	}
	if err := gone.claim("lease", []byte("mine")); err == nil {
		t.Errorf("claim in a missing bucket: got no error, want one")
	}
	if err := gone.once("a", nil); err == nil {
		t.Errorf("once in a missing bucket: got no error, want one")
	}
}

// TestS3Check: storage is refused if it overwrites an object despite If-None-Match, or does not answer as it should.
func TestS3Check(t *testing.T) {
	t.Setenv("AWS_REGION", "us-east-1")
	t.Setenv("AWS_ACCESS_KEY_ID", "tester")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "testersecret")
	for bucket, c := range map[string]struct {
		answers map[string]int // by method and number of PUTs; 200 otherwise
		want    string
		puts    int
	}{
		"honours":  {map[string]int{"PUT 2": 412}, "", 2},
		"ignores":  {nil, "ignores If-None-Match", 2},
		"no-put":   {map[string]int{"PUT 1": 403}, "403", 1},
		"one-put":  {map[string]int{"PUT 2": 403}, "403", 2},
		"no-erase": {map[string]int{"PUT 2": 412, "DELETE 2": 403}, "403", 2},
	} {
		t.Run(bucket, func(t *testing.T) {
			puts := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPut {
					puts++
				}
				if code := c.answers[fmt.Sprint(r.Method, " ", puts)]; code != 0 {
					w.WriteHeader(code)
				}
			}))
			defer server.Close()
			t.Setenv("AWS_ENDPOINT_URL", server.URL)
			// Package remote keeps the connection to a bucket.
			err := objects("s3://" + bucket + strings.ToLower(rand.Text()) + "/place").check()
			if (err != nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), c.want) || puts != c.puts {
				t.Errorf("got error %v after %d writes, want %q after %d", err, puts, c.want, c.puts)
			}
		})
	}
}

// TestDriverWithoutClaims: storage that cannot prevent conflicting claims is refused.
func TestDriverWithoutClaims(t *testing.T) {
	_, err := Open[result]("file://"+t.TempDir(), 2, "test", rows, weigh)
	if err == nil || !strings.Contains(err.Error(), "two workers could claim one shard") {
		t.Errorf("Open: got error %v, want one with %q", err, "two workers could claim one shard")
	}
}
