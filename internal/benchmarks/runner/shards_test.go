package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"assay/edit"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/shards"
)

// sharedRun returns a run whose groups are not contiguous among its items.
func sharedRun(t *testing.T) *Run {
	t.Helper()
	r := &Run{Benchmark: "test", Dir: t.TempDir()}
	for i := range 60 {
		group := fmt.Sprint("group ", i%13)
		r.Items = append(r.Items, &edit.Edit{ID: fmt.Sprint(i % 13), Editor: fmt.Sprint("editor ", i/13), Group: group,
			Instruction: group})
	}
	return r
}

// lengths returns a scorer whose scores depend on an item's place in its group, so that a split group is noticed.
func lengths(stop int, cancel context.CancelFunc) *Judge {
	of := func(it *edit.Edit) float64 { return 0.1 + float64(len(it.ID)+len(it.Editor)) }
	f := &fake{score: of, stop: stop, cancel: cancel}
	return f.judge("lengths")
}

// TestShards: whatever the number of shards, their order and the workers that are stopped, the predictions equal
// those of a single run, byte for byte.
func TestShards(t *testing.T) {
	whole := sharedRun(t)
	path := benchtest.Must[string](t)(whole.Score(t.Context(), lengths(0, nil)))
	want := benchtest.Must[[]byte](t)(os.ReadFile(path))
	if n := bytes.Count(want, []byte("\n")); n != len(whole.Items) {
		t.Fatalf("%d predictions", n)
	}
	for _, count := range []int{1, 2, 5, 13, 40} {
		r := sharedRun(t)
		if _, err := r.Merge(lengths(0, nil)); err == nil || !strings.Contains(err.Error(), "no shards to merge") {
			t.Errorf("merging nothing: %v", err)
		}
		for _, k := range rand.Perm(count)[:count/2] { // some by number, and stopped at their first group
			ctx, cancel := context.WithCancel(t.Context())
			_, err := r.Shard(ctx, lengths(1, cancel), shards.Ref{Index: k + 1, Count: count})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			cancel()
		}
		if _, err := r.Merge(lengths(0, nil)); count > 1 && !errors.As(err, new(*shards.IncompleteError)) {
			t.Errorf("/%d merged before all is done: %v", count, err)
		}
		for _, k := range append(rand.Perm(count)[:count/3], -1) { // the last one does whatever is left
			if _, err := r.Shard(t.Context(), lengths(0, nil), shards.Ref{Index: k + 1, Count: count}); err != nil {
				t.Fatal(err)
			}
		}
		path := benchtest.Must[string](t)(r.Merge(lengths(0, nil)))
		if got := benchtest.Must[[]byte](t)(os.ReadFile(path)); !bytes.Equal(got, want) {
			t.Errorf("/%d: %s\nwant %s", count, got, want)
		}
		if _, err := r.Score(t.Context(), lengths(1, func() { t.Error("something is scored again") })); err != nil {
			t.Error(err)
		}
	}
}

// TestShardsRefuse: other items, another scorer and another number of shards are refused, and so are pictures that
// changed since.
func TestShardsRefuse(t *testing.T) {
	r := sharedRun(t)
	shared := func(count int) error {
		_, err := r.Shard(t.Context(), lengths(0, nil), shards.Ref{Count: count})
		return err
	}
	file := r.Dir + "/edit.png"
	if err := os.WriteFile(file, []byte("one"), 0o666); err != nil {
		t.Fatal(err)
	}
	old := time.Now().Add(-time.Hour)
	r.Items[7].Output = protocol.Picture{Path: file}
	if err := errors.Join(os.Chtimes(file, old, old), shared(3)); err != nil {
		t.Fatal(err)
	}
	if err := shared(4); err == nil || !strings.Contains(err.Error(), "3 shards, not 4") {
		t.Errorf("another number: %v", err)
	}
	other := lengths(0, nil)
	other.Fingerprint = "other"
	if _, err := r.Merge(other); err == nil || !strings.Contains(err.Error(), "other work") {
		t.Errorf("another scorer: %v", err)
	}
	if err := os.WriteFile(file, []byte("another"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Merge(lengths(0, nil)); err == nil || !strings.Contains(err.Error(), "7 of editor 0 has changed") {
		t.Errorf("a picture that was changed: %v", err)
	}
	r.Items[3].Instruction = "something else"
	if _, err := r.Merge(lengths(0, nil)); err == nil || !strings.Contains(err.Error(), "other work") {
		t.Errorf("another instruction: %v", err)
	}
}
