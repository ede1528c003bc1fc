package curate

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

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
	Balance   bool     // repeat examples, so that all levels that occur are equally frequent
	Seed      uint64   // of the draw of examples that are repeated once more than others of their level

	// Tokens counts the tokens of a prompt, with those that begin and end it. nil: [LeastClipTokens], where a layout's
	// trainer has CLIP's text encoder.
	Tokens func(text string) (int, error)
}

// ScoreRange returns the lowest and the highest score01 of a table.
func ScoreRange(scores scoring.Scores) (low, high float64, err error) {
	first := true
	for _, line := range scores.Lines {
		if line.Error != "" {
			continue
		}
		v := line.Value.Score01
		if first {
			low, high, first = v, v, false
		}
		low, high = min(low, v), max(high, v)
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
	Reason   string // why the first of them failed
	Levels   [5]int // rows of the levels one to five
	Written  int    // examples: the labelled rows, with those that are repeated
	Cut      int    // labelled rows whose prompts have more than [ClipTokens] tokens, and lose words of the score
}

// Write makes the folder out: images/, labels in the layouts asked for, and failed.jsonl with the rows that could not
// be used. If none can be used it is not made, and the error says why the first one cannot.
func (c *Conditioning) Write(t *data.Table, scores scoring.Scores, out string) (*ConditioningResult, error) {
	r := &ConditioningResult{Rows: t.Len()}
	err := atomicfile.WriteDir(out, func(dir string) (err error) {
		var examples []Example
		failed := []scoring.FailedRow{}
		pictures := newPictures(t, dir, c.Copy)
		for i := range t.Len() {
			row, err := t.Read(i)
			var e Example
			if err == nil {
				if err = scores.Err(i); err == nil {
					e, err = c.example(pictures, i, &row, scores.Lines[i].Value.Score01)
				}
				if err != nil {
					err = t.At(i, err)
				}
			}
			if err != nil {
				failed = append(failed, scoring.FailedRow{Row: i, ID: row.ID, Error: err.Error()})
				continue
			}
			examples = append(examples, e)
			r.Levels[e.Level-1]++
		}
		r.Labelled, r.Failed = len(examples), len(failed)
		if r.Failed > 0 {
			r.Reason = failed[0].Error
		}
		if len(examples) == 0 && r.Failed > 0 {
			return fmt.Errorf("none of %d rows can be used; the first: %s", r.Rows, r.Reason)
		}
		if r.Cut, err = c.cut(examples); err != nil {
			return err
		}
		if balance(examples); c.Balance {
			examples = repeated(examples, c.Seed)
		}
		r.Written = len(examples)
		for _, l := range c.Layouts {
			if err := Layouts[l](dir, out, examples); err != nil {
				return err
			}
		}
		if err := writeCard(dir, c.Layouts); err != nil {
			return err
		}
		if slices.Equal(slices.Compact(slices.Clone(c.Layouts)), []string{"parquet"}) { // it holds the pictures
			if err := os.RemoveAll(filepath.Join(dir, "images")); err != nil {
				return err
			}
		}
		return jsonfile.WriteLines(filepath.Join(dir, "failed.jsonl"), failed)
	})
	return r, err
}

// cut counts the prompts whose end, with words of the score, does not fit into CLIP's text encoder.
func (c *Conditioning) cut(examples []Example) (n int, err error) {
	count := c.Tokens
	if count == nil {
		count = func(text string) (int, error) { return LeastClipTokens(text), nil }
		if !slices.ContainsFunc(c.Layouts, func(l string) bool { return slices.Contains(clipLayouts, l) }) {
			return 0, nil
		}
	}
	if !c.Template.ScoreLast() {
		return 0, nil
	}
	for _, e := range examples {
		tokens, err := count(e.Prompt)
		if err != nil {
			return n, fmt.Errorf("row %q: %w", e.ID, err)
		}
		if tokens > ClipTokens {
			n++
		}
	}
	return n, nil
}

// example makes the label of one row, and puts its pictures into the folder.
func (c *Conditioning) example(p *pictures, i int, row *data.Row, score01 float64) (e Example, err error) {
	score := 10 * ((score01 - c.Low) / (c.High - c.Low))
	e = Example{
		ID:          row.ID,
		Instruction: row.Instruction,
		Prompt:      c.Template.Text(row.Instruction, score),
		Score:       score,
		Level:       level(score),
	}
	name := filepath.Join("images", fmt.Sprintf("%07d", i))
	if e.Source, err = p.place(row.Source, name+"-source"); err != nil {
		return e, fmt.Errorf("source: %w", err)
	}
	if e.Edit, err = p.place(row.Edit, name+"-edit"); err != nil {
		return e, fmt.Errorf("edit: %w", err)
	}
	return e, nil
}
