package scoring

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/internal/atomicfile"
)

// RankedEdits are the edits of the same source and instruction.
type RankedEdits struct {
	Sources     []data.Image
	Instruction string
	Range       edit.Range   // of the scores
	Edits       []RankedEdit // best first
}

// RankedEdit is an edit of a row, with its score.
type RankedEdit struct {
	Row   int // of the table
	Edit  data.Image
	Score edit.Score
}

// Margin returns how much better the score of the i-th edit is than the score of the k-th.
func (g *RankedEdits) Margin(i, k int) float64 {
	return g.Range.Width() * (g.Edits[i].Score.Score01 - g.Edits[k].Score.Score01)
}

// Rank groups the scored rows of a table by source and instruction, in the order of first appearance.
func Rank(t *data.Table, scores Scores) (groups []*RankedEdits, failed []FailedRow) {
	at := map[string]*RankedEdits{}
	for i := range t.Len() {
		row, err := t.Read(i)
		if err == nil {
			err = scores.Err(i)
		}
		if err != nil {
			failed = append(failed, FailedRow{i, row.ID, err.Error()})
			continue
		}
		key := row.SourcesKey() + "\x00" + row.Instruction
		g := at[key]
		if g == nil {
			g = &RankedEdits{Sources: row.Sources(), Instruction: row.Instruction, Range: scores.Range}
			at[key], groups = g, append(groups, g)
		}
		g.Edits = append(g.Edits, RankedEdit{i, row.Edit, scores.Lines[i].Value})
	}
	for _, g := range groups {
		slices.SortStableFunc(g.Edits, func(a, b RankedEdit) int {
			return cmp.Or(cmp.Compare(b.Score.Score01, a.Score.Score01), a.Row-b.Row)
		})
	}
	return groups, failed
}

// preferenceColumns are the columns of TRL's preference data (prompt, chosen, rejected), with the source and the
// scores.
var preferenceColumns = []data.Column{
	{Name: "prompt", Kind: data.KindText},
	{Name: "source", Kind: data.KindImage},
	{Name: "chosen", Kind: data.KindImage},
	{Name: "rejected", Kind: data.KindImage},
	{Name: "score_chosen", Kind: data.KindNumber},
	{Name: "score_rejected", Kind: data.KindNumber},
	{Name: "margin", Kind: data.KindNumber},
}

// writePreferences writes pairs of edits of the same source and instruction, chosen and rejected, in TRL's columns,
// and returns their number. Every edit is paired with the best of its group, if it is worse by more than margin (in
// score, on the judge's range). JSONL contains the paths of the pictures, Parquet the pictures.
func writePreferences(t *data.Table, scores Scores, out string, margin float64) (int, error) {
	format, err := data.FormatOf(out)
	if err != nil {
		return 0, err
	}
	moving, err := data.NewMoving(t.Folder(), filepath.Dir(out))
	if err != nil {
		return 0, err
	}
	n := 0
	groups, failed := Rank(t, scores)
	if slices.ContainsFunc(failed, func(row FailedRow) bool { return row.Error == errUnordered.Error() }) {
		return 0, fmt.Errorf("%s: there are no preferences: %w", out, errUnordered)
	}
	err = atomicfile.Write(out, func(to io.Writer) error {
		columns := preferenceColumns
		if slices.ContainsFunc(groups, func(g *RankedEdits) bool { return len(g.Sources) > 1 }) {
			columns = append(slices.Clone(columns), data.Column{Name: "sources", Kind: data.KindImages})
		}
		w, err := data.NewWriter(to, format, columns)
		if err != nil {
			return err
		}
		for _, g := range groups {
			best := g.Edits[0]
			for k, m := range g.Edits[1:] {
				difference := g.Margin(0, k+1)
				if difference <= margin {
					continue
				}
				pictures := append([]data.Image{best.Edit, m.Edit}, g.Sources...)
				for i, p := range pictures {
					if pictures[i] = moving.Image(p); format != data.FormatParquet {
						continue
					}
					if pictures[i], err = inside(p, t.Folder()); err != nil {
						return err
					}
				}
				var source data.Image
				if len(g.Sources) == 1 {
					source = pictures[2]
				}
				var r data.Record
				for i, v := range []any{
					g.Instruction, source, pictures[0], pictures[1],
					best.Score.Value, m.Score.Value, difference,
				} {
					r.Set(preferenceColumns[i].Name, v)
				}
				if len(g.Sources) > 1 {
					r.Set("sources", pictures[2:])
				}
				if err := w.Write(r); err != nil {
					return err
				}
				n++
			}
		}
		return w.Close()
	})
	return n, err
}

// inside reads a picture of a table, to embed its bytes in another one.
func inside(m data.Image, folder string) (data.Image, error) {
	if m.IsZero() || len(m.Bytes) > 0 {
		return m, nil
	}
	raw, err := m.Read(folder, data.Limits{})
	return data.Image{Path: filepath.Base(m.Path), Bytes: raw}, err
}
