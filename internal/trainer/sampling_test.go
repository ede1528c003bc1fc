package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/exit"
)

// weightedRun is a run over rows with weights.
func weightedRun(t *testing.T, extra string) string {
	t.Helper()
	path := writeRun(t, 40, "epochs: 3\ncheckpoint: {steps: 4}\n"+extra)
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	var out strings.Builder
	for i, line := range strings.Split(strings.TrimSpace(mustRead(t, table)), "\n") {
		fmt.Fprintf(&out, "{\"chance\": %d, %s\n", i%4, strings.TrimPrefix(line, "{"))
	}
	if err := os.WriteFile(table, []byte(out.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(mustRead(t, path), "data: {", "data: {weight: chance, ", 1)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestWeightColumn draws rows by a column, resumes exactly, and refuses different weights.
func TestWeightColumn(t *testing.T) {
	path := weightedRun(t, "")
	f := newFake()
	train(t, path, f)
	if len(f.seen) == 0 {
		t.Fatal("nothing was seen")
	}
	for _, e := range f.seen {
		var i int
		if _, err := fmt.Sscanf(e.Edit.ID, "row%d", &i); err != nil || i%4 == 0 {
			t.Errorf("%s has weight 0", e.Edit.ID)
		}
	}
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	other := strings.Replace(mustRead(t, table), `{"chance": 1, "id": "row1"`, `{"chance": 3, "id": "row1"`, 1)
	if err := os.WriteFile(table, []byte(other), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err := Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory})
	if err == nil || !strings.Contains(err.Error(), "row row1 changed") {
		t.Errorf("another weight: %v", err)
	}
	for old, want := range map[string]string{"weight: chance": `there is no column "luck"`} {
		if err := os.WriteFile(path, []byte(strings.Replace(mustRead(t, path), old, "weight: luck", 1)), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Train(t.Context(), Options{Config: load(t, path), Factory: newFake().factory}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestWeightedRunsGoOnExactly: a run with weights that is interrupted after any step has the same result as an
// uninterrupted one.
func TestWeightedRunsGoOnExactly(t *testing.T) {
	const extra = "validate: {every: 3}\n"
	whole := weightedRun(t, extra)
	train(t, whole, newFake())
	want := outcome(t, whole)
	path := weightedRun(t, extra)
	for stop := 3; ; stop += 4 {
		done, err := trainUntil(t, path, stop)
		if err != nil {
			t.Fatal(err)
		}
		if done {
			break
		}
	}
	if got := outcome(t, path); !slices.Equal(got, want) {
		t.Error("it ended otherwise")
	}
}

// trainUntil resumes a run and interrupts it after some runs of the model; done means that it finished.
func trainUntil(t *testing.T, path string, runs int) (done bool, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	f := newFake()
	f.steps = func(n int) {
		if n == runs {
			cancel()
		}
	}
	_, err = Train(ctx, Options{Config: load(t, path), Factory: f.factory})
	if exit.Code(err) == exit.Interrupted {
		return false, nil
	}
	return true, err
}
