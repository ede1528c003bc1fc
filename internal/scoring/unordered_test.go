package scoring

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
)

// classJudge outputs only classes: it has no score.
type classJudge struct{ redJudge }

func (classJudge) Score(_ context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	scores := make([]edit.Score, len(inputs))
	for i := range scores {
		scores[i].Value, scores[i].Score01 = math.NaN(), math.NaN()
	}
	return scores, make([]error, len(inputs)), nil
}

// TestUnordered: unordered classes give neither preferences nor ranks.
func TestUnordered(t *testing.T) {
	in := writeTable(t)
	j := &classJudge{redJudge{print: "classes"}}
	o := options(in, filepath.Join(t.TempDir(), "out.jsonl"))
	if r, err := Table(t.Context(), j, o); err != nil || r.Scored != 5 {
		t.Errorf("got %+v, %v; want five rows with classes", r, err)
	}
	o.Preferences = filepath.Join(t.TempDir(), "pairs.jsonl")
	if _, err := Table(t.Context(), j, o); !errors.Is(err, errUnordered) {
		t.Errorf("preferences: got error %v, want %v", err, errUnordered)
	}
	if _, err := os.Stat(o.Preferences); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got a table of preferences, want none: %v", err)
	}
	table, err := data.OpenTable(in)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	scores, err := Rows(t.Context(), j, table, nil)
	if err != nil {
		t.Fatal(err)
	}
	if groups, failed := Rank(table, scores); len(groups) != 0 || len(failed) != 6 {
		t.Errorf("got %d groups, %d rows without a score; want none and 6", len(groups), len(failed))
	}
}
