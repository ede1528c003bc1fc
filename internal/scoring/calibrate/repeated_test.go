package calibrate

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"assay/internal/calibration"
	"assay/model"
)

// TestRepeatedRows: rows that repeat others with the same label are reported and count once, whatever their ids; the
// calibration is the same as without them. A repeat joins the scenes of both rows' values of --by.
func TestRepeatedRows(t *testing.T) {
	dir := scorerDir(t)
	table := tableOf(t, "coffee.png", 30, dir)
	rows := linesOf(t, table)
	again := func(k int, id any, photo string) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(rows[k]), &m); err != nil {
			t.Fatal(err)
		}
		m["id"], m["photo"] = id, photo
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	run := func(by string, lines ...string) (*Report, error) {
		if err := os.WriteFile(table, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
		return Run(t.Context(), Options{Scorer: dir, In: table, Method: calibration.Isotonic, Coverage: 0.5, Seed: 1,
			By: by, Out: t.TempDir(), Model: model.Options{Threads: 1}})
	}
	want, err := run("", rows...)
	if err != nil {
		t.Fatal(err)
	}
	more := append([]string{again(7, "other", "x"), rows[3]}, rows...) // the last of them has its own id twice
	got, err := run("", append(more, again(3, nil, "x"))...)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(got.Warnings, "; ")
	if got.Repeated != 3 || !strings.Contains(said, "3 rows of edits.jsonl repeat another one") {
		t.Errorf("%d repeated, want 3: %q", got.Repeated, got.Warnings)
	}
	if got.Fit.Rows+got.Interval.Rows+got.Tested.Rows != 30 || got.Fit.Rows != want.Fit.Rows {
		t.Errorf("parts of %d, %d and %d rows, want those of 30 rows: %+v", got.Fit.Rows, got.Interval.Rows, got.Tested.Rows,
			want)
	}
	again30, err := run("", append(rows, again(29, "z", "x"))...) // at the end: the parts are the same
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again30.Map, want.Map) {
		t.Errorf("with a repeated row the map is %+v, want %+v", again30.Map, want.Map)
	}
	// Three photographs, of which a repeat joins two: they cannot be split into three parts.
	var by []string
	for k := range rows {
		by = append(by, again(k, fmt.Sprint(k), fmt.Sprint(k/10)))
	}
	_, err = run("photo", append(by, again(0, "30", "1"))...)
	if err == nil || !strings.Contains(err.Error(), "30 rows of 2 scenes are too few for a map (") ||
		!strings.Contains(err.Error(), "five scenes (source pictures, or values of --by) are enough, if none has "+
			"more than a fifth of the rows") {
		t.Errorf("got %v, want an error that says how many source pictures are enough", err)
	}
}

// TestEnoughScenes: with five scenes or more, none of which has more than a fifth of the rows, every part has rows;
// with a table of tests, four of at most a quarter. The error promises this.
func TestEnoughScenes(t *testing.T) {
	for seed := range uint64(300) {
		for _, n := range []int{5, 6, 9, 40} {
			var scenes []int
			for scene := range n {
				for range 1 + int(seed)%7 {
					scenes = append(scenes, scene)
				}
			}
			for _, shares := range [][]float64{{fitShare, intervalShare}, {fitWithTest}} {
				for i, part := range split(scenes, seed, shares...) {
					if len(part) == 0 {
						t.Errorf("seed %d, %d scenes, shares %v: part %d has no row", seed, n, shares, i)
					}
				}
			}
		}
		if parts := split([]int{0, 1, 2, 3}, seed, fitWithTest); len(parts[1]) == 0 {
			t.Errorf("seed %d: four scenes leave no row for the interval", seed)
		}
	}
}

// TestLinkedScorer: a calibration is not written over a link, since a path in scorer.yaml would then start elsewhere.
func TestLinkedScorer(t *testing.T) {
	real, links := scorerDir(t), t.TempDir()
	entries, err := os.ReadDir(real)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(real, e.Name()), filepath.Join(links, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	_, err = Run(t.Context(), Options{Scorer: links, In: "none.jsonl", Out: t.TempDir()})
	if err == nil || !strings.Contains(err.Error(), model.ConfigFile+" is a symbolic link") {
		t.Errorf("got %v, want an error that says that %s is a link", err, model.ConfigFile)
	}
}

// TestAnotherTableAfterTooFewRows: the scores of a failed calibration do not get in the way of another table.
func TestAnotherTableAfterTooFewRows(t *testing.T) {
	dir := scorerDir(t)
	table := tableOf(t, "coffee.png", 30, dir)
	few := filepath.Join(filepath.Dir(table), "few.jsonl")
	if err := os.WriteFile(few, []byte(strings.Join(linesOf(t, table)[:1], "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	o := Options{Scorer: dir, In: few, Method: calibration.Isotonic, Coverage: 0.5, Seed: 1, Out: t.TempDir(),
		Model: model.Options{Threads: 1}}
	if _, err := Run(t.Context(), o); err == nil || !strings.Contains(err.Error(), "too few") {
		t.Fatalf("got %v, want too few rows", err)
	}
	o.In = table
	if _, err := Run(t.Context(), o); err != nil {
		t.Errorf("got %v, want a calibration by the other table", err)
	}
}
