package labeling

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"assay/internal/filelock"
	"assay/internal/long"
)

// TestTwoPlansAtOnce: of two configurations that start in one folder at the same time, one is refused. Both used to
// find no plan and measured into each other's parts.
func TestTwoPlansAtOnce(t *testing.T) {
	for range 10 {
		out := t.TempDir()
		var errs [2]error
		var both sync.WaitGroup
		for i := range errs {
			both.Go(func() { errs[i] = keepPlan(out, &plan{Made: fmt.Sprint("configuration ", i)}) })
		}
		both.Wait()
		var refused *PlanError
		if (errs[0] == nil) == (errs[1] == nil) || !errors.As(errors.Join(errs[:]...), &refused) {
			t.Fatalf("%v, %v: want one that is refused", errs[0], errs[1])
		}
	}
}

// TestTwoMerges: a second process is refused in a folder whose table is being written.
func TestTwoMerges(t *testing.T) {
	long.Test(t) // it waits
	out := t.TempDir()
	lock, err := filelock.Take(filepath.Join(out, ".merge.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	j := &Job{Config: &Config{Out: out}, plan: &plan{}}
	if _, err := j.Merge(context.Background()); err == nil ||
		!strings.Contains(err.Error(), "another process is writing the table") {
		t.Error(err)
	}
}
