package calibrate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/calibration"
	"assay/model"
)

// TestUnlabelledAreTold: rows without a label, and labels without a row, are counted and reported.
func TestUnlabelledAreTold(t *testing.T) {
	dir := scorerDir(t)
	table := tableOf(t, "coffee.png", 30, dir)
	rows := linesOf(t, table)
	labels := `{"id": "nobody", "label": 0.5}` + "\n"
	for i, line := range rows {
		var m map[string]any
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if i < 26 {
			labels += fmt.Sprintf(`{"id": "%v", "label": %v}`+"\n", m["id"], m["label"])
		}
		delete(m, "label")
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = string(b)
	}
	other := filepath.Join(t.TempDir(), "labels.jsonl")
	err := errors.Join(os.WriteFile(table, []byte(strings.Join(rows, "\n")), 0o666),
		os.WriteFile(other, []byte(labels), 0o666))
	if err != nil {
		t.Fatal(err)
	}
	r, err := Run(context.Background(), Options{Scorer: dir, In: table, Labels: other, Method: calibration.Isotonic,
		Coverage: 0.5, Seed: 1, Out: t.TempDir(), Model: model.Options{Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	warnings := strings.Join(r.Warnings, "; ")
	if n := r.Fit.Rows + r.Interval.Rows + r.Tested.Rows; n != 26 || r.Unlabelled != 4 || r.Failed != 0 ||
		!strings.Contains(warnings, "4 rows of edits.jsonl have no label and are left out") ||
		!strings.Contains(warnings, "1 labels have ids that no row of edits.jsonl has") {
		t.Errorf("%d rows, %d unlabelled, %d failed: %s", n, r.Unlabelled, r.Failed, warnings)
	}
}
