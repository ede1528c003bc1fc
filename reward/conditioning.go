package reward

import (
	"fmt"
	"path/filepath"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/jsonfile"
	"assay/scoring"
)

// Conditioning makes labels that say the score of each edit in words.
type Conditioning struct {
	Template  Template
	Low, High float64  // score01 that become 0 and 10 before the cuts into levels
	Layouts   []string // names of [Layouts]
	Copy      bool     // copy pictures instead of linking to them
}

// ScoreRange returns the lowest and the highest score01 of a table.
func ScoreRange(scores scoring.Scores) (low, high float64, err error) {
	first := true
	for _, row := range scores {
		if row.Error != "" {
			continue
		}
		if first {
			low, high, first = row.Score01, row.Score01, false
		}
		low, high = min(low, row.Score01), max(high, row.Score01)
	}
	if high <= low {
		return 0, 0, fmt.Errorf("all scores are %g", low)
	}
	return low, high, nil
}

// ConditioningResult counts what [Conditioning.Write] did.
type ConditioningResult struct {
	Rows     int
	Labelled int
	Failed   int    // listed in failed.jsonl
	Levels   [5]int // examples of the levels one to five
}

// Write makes the folder out: images/, labels in the layouts asked for, and failed.jsonl with the rows that could not
// be used.
func (c *Conditioning) Write(t *data.Table, scores scoring.Scores, out string) (*ConditioningResult, error) {
	r := &ConditioningResult{Rows: t.Len()}
	err := atomicfile.WriteDir(out, func(dir string) error {
		var examples []Example
		failed := []scoring.FailedRow{}
		for i := range t.Len() {
			row, err := t.Read(i)
			if err == nil {
				err = scores.Err(i)
			}
			var e Example
			if err == nil {
				e, err = c.example(t, &row, scores[i], dir)
			}
			if err != nil {
				failed = append(failed, scoring.FailedRow{Row: i, ID: row.ID, Error: err.Error()})
				continue
			}
			examples = append(examples, e)
			r.Levels[e.Level-1]++
		}
		r.Labelled, r.Failed = len(examples), len(failed)
		balance(examples)
		for _, l := range c.Layouts {
			if err := Layouts[l](dir, examples); err != nil {
				return err
			}
		}
		return jsonfile.WriteLines(filepath.Join(dir, "failed.jsonl"), failed)
	})
	return r, err
}

// example makes the label of one row, and puts its pictures into the folder.
func (c *Conditioning) example(t *data.Table, row *data.Row, s scoring.Row, dir string) (e Example, err error) {
	score := 10 * ((s.Score01 - c.Low) / (c.High - c.Low))
	e = Example{
		ID:          row.ID,
		Instruction: row.Instruction,
		Prompt:      c.Template.Text(row.Instruction, score),
		Score:       score,
		Level:       Level(score),
	}
	name := filepath.Join("images", fmt.Sprintf("%07d", s.Row))
	if e.Source, err = place(row.Source, t.Folder(), dir, name+"-source", c.Copy); err != nil {
		return e, err
	}
	e.Edit, err = place(row.Edit, t.Folder(), dir, name+"-edit", c.Copy)
	return e, err
}
