package shards

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
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
	w.Changed = func(r result) (bool, error) { return r.Row == w.plan.Cuts[1], nil } // the first row of a shard
	if _, err := w.merge(); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("row %d has", w.plan.Cuts[1]+1)) {
		t.Errorf("got %v, want row %d named", err, w.plan.Cuts[1]+1)
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

// TestForged: manifests of another plan or shard, and results of other rows, are refused even if the digests match.
func TestForged(t *testing.T) {
	dir := t.TempDir()
	w := open(t, dir, 3)
	if _, err := w.Do(context.Background(), Ref{Count: 3}, do(func(int) {})); err != nil {
		t.Fatal(err)
	}
	from, to := w.plan.Cuts[2], w.plan.Cuts[3]
	foreign := manifestName(3) + " does not belong to this plan"
	for name, c := range map[string]struct {
		change func(*manifest)
		drop   func(row int) bool
		want   string
	}{
		"format":           {change: func(m *manifest) { m.Format = 2 }, want: foreign},
		"shard":            {change: func(m *manifest) { m.Shard = 2 }, want: foreign},
		"number of shards": {change: func(m *manifest) { m.Of = 4 }, want: foreign},
		"plan":             {change: func(m *manifest) { m.Plan = "0123" }, want: foreign},
		"first row":        {change: func(m *manifest) { m.From-- }, want: foreign},
		"number of rows":   {change: func(m *manifest) { m.Rows++ }, want: foreign},
		"size":             {change: func(m *manifest) { m.Bytes++ }, want: "its digest does not match"},
		"digest":           {change: func(m *manifest) { m.SHA256 = "0123" }, want: "its digest does not match"},
		"no first result": {drop: func(row int) bool { return row == from },
			want: fmt.Sprintf("a result is for row %d, want %d", from+2, from+1)},
		"no last result": {drop: func(row int) bool { return row == to-1 },
			want: fmt.Sprintf("%d results for %d rows", rows-1, rows)},
		"nothing is forged": {},
	} {
		t.Run(name, func(t *testing.T) {
			var kept []result
			for i := from; i < to; i++ {
				if c.drop == nil || !c.drop(i) {
					kept = append(kept, value(i))
				}
			}
			var text bytes.Buffer
			for _, r := range kept {
				line, _ := json.Marshal(r)
				text.Write(append(line, '\n'))
			}
			sum := sha256.Sum256(text.Bytes())
			m := &manifest{Format: 1, Shard: 3, Of: 3, From: from, Rows: to - from, Bytes: text.Len(),
				SHA256: hex.EncodeToString(sum[:]), Plan: w.digest()}
			if c.change != nil {
				c.change(m)
			}
			raw, _ := json.Marshal(m)
			err := errors.Join(os.WriteFile(w.path(resultName(3)), text.Bytes(), 0o666),
				os.WriteFile(w.path(manifestName(3)), raw, 0o666))
			if err != nil {
				t.Fatal(err)
			}
			switch got, err := w.merge(); {
			case c.want == "" && (err != nil || len(got) != rows):
				t.Errorf("got %d rows, %v, want %d", len(got), err, rows)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %d rows, %v, want %q", len(got), err, c.want)
			}
		})
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
