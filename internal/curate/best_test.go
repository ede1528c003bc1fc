package curate

import (
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/exit"
	"assay/internal/scoring"
	"assay/internal/table"
)

// TestBest: of every group the best come first, with their lead over the next one.
func TestBest(t *testing.T) {
	groups := []*scoring.RankedEdits{
		{Sources: []data.Image{{Path: "a.png"}}, Instruction: "x", Range: edit.Range{0, 10}, Edits: []scoring.RankedEdit{
			{Row: 4, Edit: data.Image{Path: "good.png"}, Score: edit.Score{Value: 7.5, Score01: 0.75}},
			{Row: 0, Edit: data.Image{Path: "fair.png"}, Score: edit.Score{Value: 5, Score01: 0.5}},
			{Row: 2, Edit: data.Image{Path: "bad.png"}, Score: edit.Score{Value: 2.5, Score01: 0.25}},
		}},
		{Sources: []data.Image{{Path: "b.png"}}, Instruction: "x", Range: edit.Range{0, 10}, Edits: []scoring.RankedEdit{
			{Row: 1, Edit: data.Image{Path: "alone.png"}, Score: edit.Score{Value: 5, Score01: 0.5}},
		}},
	}
	best := Best(groups, 2, true)
	if len(best) != 3 {
		t.Fatalf("%d edits, want 3", len(best))
	}
	first, second, alone := best[0], best[1], best[2]
	if *first.Row != 4 || first.Edit != "good.png" || first.Rank != 1 || first.Of != 3 || first.Score != 7.5 ||
		*first.Margin != 2.5 {
		t.Errorf("%+v", first)
	}
	if *second.Row != 0 || second.Rank != 2 || *second.Margin != 2.5 {
		t.Errorf("%+v", second)
	}
	if alone.Source != "b.png" || alone.Margin != nil {
		t.Errorf("%+v", alone)
	}
	if Best(groups, 1, false)[0].Row != nil {
		t.Error("rows are named though there is no table")
	}
}

func TestScoreRange(t *testing.T) {
	scores := scoring.Scores{Lines: map[int]table.Line[edit.Score]{
		0: {Value: edit.Score{Score01: 0.25}}, 1: {Row: 1, Error: "missing"}, 2: {Row: 2, Value: edit.Score{Score01: 0.75}},
	}}
	if low, high, err := ScoreRange(scores); low != 0.25 || high != 0.75 || err != nil {
		t.Errorf("%g to %g (%v)", low, high, err)
	}
	delete(scores.Lines, 2)
	if _, _, err := ScoreRange(scores); err == nil || !strings.Contains(err.Error(), "all scores are 0.25") {
		t.Error(err)
	}
}

func TestCandidateTable(t *testing.T) {
	dir := t.TempDir()
	for folder, want := range map[string]string{dir: "no pictures", filepath.Join(dir, "nosuch"): "no such file"} {
		if _, _, err := CandidateTable(folder, []string{"a.png"}, "x"); exit.Code(err) != exit.Wrong ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, exit code %d, want %q, %d", folder, err, exit.Code(err), want, exit.Wrong)
		}
	}
	if err := data.NewPicture(2, 2).WritePNG(filepath.Join(dir, "b.png")); err != nil {
		t.Fatal(err)
	}
	path, remove, err := CandidateTable(dir, []string{filepath.Join(dir, "b.png")}, "x")
	if err != nil {
		t.Fatal(err)
	}
	table, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	row, err := table.Read(0)
	if err != nil || table.Len() != 1 || row.Edit.Path != filepath.Join(dir, "b.png") || row.Instruction != "x" {
		t.Errorf("%d rows, %+v (%v)", table.Len(), row, err)
	}
	table.Close()
	if err := remove(); err != nil {
		t.Error(err)
	}
}
