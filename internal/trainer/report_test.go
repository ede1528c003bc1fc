package trainer

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/trainer/report"
)

// TestPredictions: the run directory has the predictions of the last validation, from which its metrics follow, and
// an HTML report.
func TestPredictions(t *testing.T) {
	path := writeRun(t, 30, "steps: 6\nvalidate: {every: 3}\n")
	result := train(t, path, newFake())
	out := filepath.Join(filepath.Dir(path), "out")
	r, err := report.Read(out)
	if err != nil {
		t.Fatal(err)
	}
	v := result.Validation
	if len(r.Predictions) != v.Rows || v.Rows != 6 || len(r.Validations) != 2 {
		t.Fatalf("got %d predictions of %d rows after %d validations, want 6 and 2", len(r.Predictions), v.Rows,
			len(r.Validations))
	}
	sum := 0.0
	for i, p := range r.Predictions {
		if p.Row != i || p.ID == "" || p.Label == nil {
			t.Errorf("got prediction %+v, want one of row %d with id and label", p, i)
			continue
		}
		sum += math.Abs(p.Score - *p.Label)
	}
	if got := sum / 6; !(math.Abs(got-float64(v.L1)) <= 1e-12) {
		t.Errorf("L1 of the predictions: got %v, want %v", got, v.L1)
	}
	page, err := os.ReadFile(filepath.Join(out, report.File))
	if err != nil || !strings.Contains(string(page), "Training is done.") {
		t.Errorf("%s: got %v, want a page of a finished run", report.File, err)
	}
}
