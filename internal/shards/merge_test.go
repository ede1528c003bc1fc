package shards

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// TestChanged: rows that have changed since their shard was done are not merged, and the shard is named.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, 3)
	if _, err := w.Do(context.Background(), Ref{Count: 3}, do(func(int) {})); err != nil {
		t.Fatal(err)
	}
	of := w.plan.Cuts[1] + 2 // a row of shard 2
	w.Changed = func(r result) (bool, error) { return r.Row == of || r.Row == of+1, nil }
	want := fmt.Sprintf("row %d has changed since its shard was done", of+1)
	if _, err := w.merge(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
	unknown := errors.New("cannot be read at the moment")
	w.Changed = func(r result) (bool, error) { return true, unknown }
	if _, err := w.merge(); !errors.Is(err, unknown) {
		t.Errorf("Merge while Changed fails: got error %v, want %v", err, unknown)
	}
	w.Changed = func(result) (bool, error) { return false, nil }
	if got, err := w.merge(); err != nil || len(got) != rows {
		t.Errorf("Merge of unchanged rows: got %d rows, %v, want %d", len(got), err, rows)
	}
}

// TestMergeSaysWhatToDo: the errors for an unreadable manifest, and for one without results, say what to remove.
func TestMergeSaysWhatToDo(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, 3)
	all := func() {
		t.Helper()
		if _, err := w.Do(context.Background(), Ref{Count: 3}, do(func(int) {})); err != nil {
			t.Fatal(err)
		}
	}
	manifest, results := w.path(manifestName(2)), w.path(resultName(2))
	for what, spoil := range map[string]func() error{
		results + " is missing":  func() error { return os.Remove(results) },
		manifest + " is damaged": func() error { return os.Truncate(manifest, 50) },
	} {
		all()
		if err := spoil(); err != nil {
			t.Fatal(err)
		}
		if _, err := w.merge(); err == nil || !strings.Contains(err.Error(), what) ||
			!strings.Contains(err.Error(), "remove") {
			t.Errorf("%v, want %q", err, what)
		}
		if err := os.Remove(manifest); err != nil { // as the error says
			t.Fatal(err)
		}
		all()
		if got, err := w.merge(); err != nil || len(got) != rows {
			t.Errorf("Merge after doing it again: got %d rows, %v, want %d", len(got), err, rows)
		}
	}
}

// merge collects the results of [Work.Results].
func (w *Work[T]) merge() ([]T, error) {
	results := make([]T, 0, w.plan.Rows)
	for r, err := range w.Results() {
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}
