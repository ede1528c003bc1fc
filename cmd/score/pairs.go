package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/cli"
)

func writeLines[T any](path string, rows []T) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}

// group is the edits of one source by one instruction.
type group struct {
	source      data.Image
	instruction string
	members     []member // best first
}

type member struct {
	row     int
	edit    data.Image
	score01 float64
}

// groupRows gathers the scored rows of a table by source and instruction, in the order of first appearance, best edit first.
func groupRows(t *data.Table, scores map[int]outcome) (groups []*group, failed []unscored) {
	at := map[string]*group{}
	for i := range t.Len() {
		row, err := t.Read(i)
		if err == nil && scores[i].Error != "" {
			err = fmt.Errorf("%s", scores[i].Error)
		}
		if err != nil {
			failed = append(failed, unscored{i, row.ID, err.Error()})
			continue
		}
		key := row.Source.Path + "\x00" + string(row.Source.Bytes) + "\x00" + row.Instruction
		g := at[key]
		if g == nil {
			g = &group{source: row.Source, instruction: row.Instruction}
			at[key], groups = g, append(groups, g)
		}
		g.members = append(g.members, member{i, row.Edit, scores[i].Score01})
	}
	for _, g := range groups {
		slices.SortStableFunc(g.members, func(a, b member) int {
			switch {
			case a.score01 > b.score01:
				return -1
			case a.score01 < b.score01:
				return 1
			}
			return a.row - b.row
		})
	}
	return groups, failed
}

// preferenceColumns are those of TRL's preference data (prompt, chosen, rejected), with the source and the scores.
var preferenceColumns = []data.Column{{Name: "prompt", Kind: data.KindText}, {Name: "source", Kind: data.KindImage}, {Name: "chosen", Kind: data.KindImage},
	{Name: "rejected", Kind: data.KindImage}, {Name: "score_chosen", Kind: data.KindNumber}, {Name: "score_rejected", Kind: data.KindNumber}, {Name: "margin", Kind: data.KindNumber}}

// writePreferences writes pairs of edits of the same source and instruction, chosen and rejected, in TRL's columns (prompt, chosen,
// rejected; score_chosen, score_rejected, margin), with the pictures as values. Every edit is paired with the best of its
// group, if it is worse by more than margin (in score, 0 to 10). Pictures stay relative to the input's folder in JSONL; Parquet
// holds them.
func writePreferences(t *data.Table, scores map[int]outcome, out string, margin float64) (int, error) {
	format, err := data.FormatOf(out)
	if err != nil {
		return 0, cli.Usage(err)
	}
	n := 0
	groups, _ := groupRows(t, scores)
	err = atomicfile.Write(out, func(to io.Writer) error {
		w, err := data.NewWriter(to, format, preferenceColumns)
		if err != nil {
			return err
		}
		for _, g := range groups {
			best := g.members[0]
			for _, m := range g.members[1:] {
				difference := 10 * (best.score01 - m.score01)
				if difference <= margin {
					continue
				}
				var pictures [3]data.Image
				for i, p := range []data.Image{g.source, best.edit, m.edit} {
					if pictures[i], err = portable(p, t.Folder(), filepath.Dir(out), format == data.FormatParquet); err != nil {
						return err
					}
				}
				var r data.Record
				for i, v := range []any{g.instruction, pictures[0], pictures[1], pictures[2], 10 * best.score01, 10 * m.score01, difference} {
					r.Set(preferenceColumns[i].Name, v)
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

// portable makes a picture of a table in one folder good for a table in another: as bytes, or with its path put right.
func portable(m data.Image, from, to string, inside bool) (data.Image, error) {
	if len(m.Bytes) > 0 || filepath.IsAbs(m.Path) && !inside {
		return m, nil
	}
	path := m.Path
	if !filepath.IsAbs(path) {
		path = filepath.Join(from, path)
	}
	if inside {
		raw, err := os.ReadFile(path)
		return data.Image{Path: filepath.Base(path), Bytes: raw}, err
	}
	a, err := filepath.Abs(path)
	if err != nil {
		return m, err
	}
	b, err := filepath.Abs(to)
	if err != nil {
		return m, err
	}
	if path, err = filepath.Rel(b, a); err != nil {
		return m, err
	}
	return data.Image{Path: strings.ReplaceAll(path, "\\", "/")}, nil
}
