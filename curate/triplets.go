package curate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/jsonfile"
	"assay/scoring"
)

// TripletColumns are the names of a triplet's columns, for [data.WithColumns].
var TripletColumns = map[string]string{"source": "input", "edit": "target", "target": "original"}

// SelectionResult counts what [Selection.Write] did.
type SelectionResult struct {
	Rows, Chosen, Dropped int
}

// Write selects triplets of a table with the columns of [TripletColumns] and the judges' values, and makes a folder for
// DiffSynth-Studio of them. dropped.jsonl says why each of the others was left out.
func (s Selection) Write(t *data.Table, scores scoring.Scores, out string, copied bool) (*SelectionResult, error) {
	rows := map[int]data.Row{}
	why := map[int]string{}
	var all []Triplet
	for i := range t.Len() {
		row, triplet, err := readTriplet(t, i)
		if err == nil {
			err = scores.Err(i)
		}
		if err != nil {
			why[i] = err.Error()
			continue
		}
		rows[i], all = row, append(all, triplet)
	}
	chosen, dropped, err := s.Select(all)
	maps.Copy(why, dropped)
	if err != nil {
		if len(why) > 0 {
			first := slices.Min(slices.Collect(maps.Keys(why)))
			err = fmt.Errorf("%w: %d of %d rows are left out; %w", err, len(why), t.Len(), t.At(first, errors.New(why[first])))
		}
		return nil, err
	}
	left := []scoring.FailedRow{}
	for i, reason := range why {
		left = append(left, scoring.FailedRow{Row: i, ID: rows[i].ID, Error: reason})
	}
	slices.SortFunc(left, func(a, b scoring.FailedRow) int { return a.Row - b.Row })
	err = atomicfile.WriteDir(out, func(dir string) error {
		var examples []Example
		pictures := newPictures(t, dir, copied)
		for _, triplet := range chosen {
			e, err := exampleOf(pictures, rows[triplet.Row], scores[triplet.Row])
			if err != nil {
				return t.At(triplet.Row, err)
			}
			examples = append(examples, e)
		}
		balance(examples)
		if err := Layouts["diffsynth"](dir, out, examples); err != nil {
			return err
		}
		return jsonfile.WriteLines(filepath.Join(dir, "dropped.jsonl"), left)
	})
	if err != nil {
		return nil, err
	}
	return &SelectionResult{Rows: t.Len(), Chosen: len(chosen), Dropped: len(why)}, nil
}

// exampleOf makes the metadata of one triplet, and puts its pictures into the folder.
func exampleOf(p *pictures, row data.Row, s scoring.Row) (e Example, err error) {
	if s.Unbounded {
		return e, errors.New("its score has no range: levels need one")
	}
	score := 10 * s.Score01
	e = Example{ID: row.ID, Instruction: row.Instruction, Prompt: row.Instruction, Score: score, Level: Level(score)}
	name := filepath.Join("images", fmt.Sprintf("%07d", s.Row))
	if e.Source, err = p.place(row.Source, name+"-input"); err != nil {
		return e, fmt.Errorf("input: %w", err)
	}
	if e.Edit, err = p.place(row.Edit, name+"-target"); err != nil {
		return e, fmt.Errorf("target: %w", err)
	}
	return e, nil
}

// readTriplet reads a row and the judges' values in it.
func readTriplet(t *data.Table, i int) (data.Row, Triplet, error) {
	triplet := Triplet{Row: i}
	rec, err := t.Record(i)
	if err != nil {
		return data.Row{}, triplet, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return row, triplet, err
	}
	number := func(name string) (v float64, ok bool) {
		raw, _ := rec.Get(name)
		n, e := data.Finite(raw)
		if e == nil && n != nil && strings.HasPrefix(name, "clip_") && math.Abs(*n) > 1 {
			e = fmt.Errorf("%v is no cosine, which lies in -1..1", *n)
		}
		if e != nil && err == nil {
			err = fmt.Errorf("column %q: %w", name, e)
		}
		if n == nil {
			return 0, false
		}
		return *n, true
	}
	var ok bool
	if triplet.VIE, ok = number("vie"); !ok {
		sc, hasSC := number("sc")
		pq, hasPQ := number("pq")
		if !hasSC || !hasPQ {
			return row, triplet, cmp.Or(err, errors.New("vie is missing (or sc and pq)"))
		}
		triplet.VIE = (sc + pq) / 2
	}
	for _, column := range []struct {
		name string
		to   *float64
	}{
		{"clip_i", &triplet.ClipI},
		{"clip_t", &triplet.ClipT},
		{"aesthetic", &triplet.Aesthetic},
	} {
		if *column.to, ok = number(column.name); !ok && err == nil {
			err = fmt.Errorf("%s is missing", column.name)
		}
	}
	if emotion, _ := rec.Get("emotion"); err == nil {
		triplet.Emotion, err = data.Text(emotion)
	}
	if triplet.Target = row.Edit.Path; triplet.Target == "" {
		triplet.Target = string(row.Edit.Bytes)
	}
	return row, triplet, err
}
