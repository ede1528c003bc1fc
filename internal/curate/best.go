// Package curate makes training data and reports from a table of edits and its scores.
//
// [Best] ranks the edits of each source and instruction. [Conditioning] writes reward-conditioned labels (the score
// in words after the instruction) in the layouts of several trainers. [TripletSelection] selects triplets as
// AIM-Bench and AIM-40k do. [Measure] and [CompareOutputs] compare two checkpoints of an editor, to detect reward
// hacking.
package curate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/jsonfile"
	"assay/internal/scoring"
)

// BestEdit is a ranked edit of its source and instruction.
type BestEdit struct {
	Row         *int     `json:"row,omitempty"` // of the table
	Source      string   `json:"source,omitempty"`
	Sources     []string `json:"sources,omitempty"` // instead of Source, if there are several
	Instruction string   `json:"instruction"`
	Edit        string   `json:"edit"`
	Rank        int      `json:"rank"` // from 1
	Of          int      `json:"of"`
	Score       float64  `json:"score"`  // on the scorer's range
	Margin      *float64 `json:"margin"` // lead over the next one, in score; null: it is the last one

	inside []bool // of the edit and each source: it is stored in the table, its path is only a name
}

// Best returns the keep best edits of every group. rows: with their row numbers.
func Best(groups []*scoring.RankedEdits, keep int, rows bool) []BestEdit {
	best := []BestEdit{}
	for _, g := range groups {
		for i, edit := range g.Edits[:min(keep, len(g.Edits))] {
			b := BestEdit{
				Instruction: g.Instruction,
				Edit:        edit.Edit.Path,
				Rank:        i + 1,
				Of:          len(g.Edits),
				Score:       edit.Score.Value,
				inside:      []bool{len(edit.Edit.Bytes) > 0},
			}
			for _, m := range g.Sources {
				b.Sources, b.inside = append(b.Sources, m.Path), append(b.inside, len(m.Bytes) > 0)
			}
			if len(b.Sources) == 1 {
				b.Source, b.Sources = b.Sources[0], nil
			}
			if rows {
				b.Row = &edit.Row
			}
			if i+1 < len(g.Edits) {
				margin := g.Margin(i, i+1)
				b.Margin = &margin
			}
			best = append(best, b)
		}
	}
	return best
}

// WriteBest writes the best edits of a table as JSON lines, with paths relative to the file.
func WriteBest(path string, best []BestEdit, t *data.Table) error {
	if err := t.CheckOutput(path); err != nil {
		return exit.Usage(err)
	}
	moving, err := data.NewMoving(t.Folder(), filepath.Dir(path))
	if err != nil {
		return err
	}
	best = slices.Clone(best)
	for i := range best {
		b := &best[i]
		b.Sources = slices.Clone(b.Sources)
		paths := []*string{&b.Edit}
		for k := range b.Sources {
			paths = append(paths, &b.Sources[k])
		}
		if b.Sources == nil {
			paths = append(paths, &b.Source)
		}
		for k, path := range paths {
			if k >= len(b.inside) || !b.inside[k] {
				*path = moving.Path(*path)
			}
		}
	}
	return jsonfile.WriteLines(path, best)
}

// CandidateTable writes a table of a folder's pictures as edits of the same sources, with absolute paths, into a
// temporary folder. remove removes it.
func CandidateTable(folder string, sources []string, instruction string) (path string, remove func() error, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", nil, exit.Named(err)
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", nil, err
	}
	type candidate struct {
		Source      string   `json:"source,omitempty"`
		Sources     []string `json:"sources,omitempty"` // instead of Source
		Edit        string   `json:"edit"`
		Instruction string   `json:"instruction"`
	}
	row := candidate{Instruction: instruction}
	for _, source := range sources {
		if source, err = filepath.Abs(source); err != nil {
			return "", nil, err
		}
		row.Sources = append(row.Sources, source)
	}
	if len(row.Sources) == 1 {
		row.Source, row.Sources = row.Sources[0], nil
	}
	var rows []candidate
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(data.PictureEndings, strings.ToLower(filepath.Ext(e.Name()))) {
			row.Edit = filepath.Join(from, e.Name())
			rows = append(rows, row)
		}
	}
	if len(rows) == 0 {
		return "", nil, exit.Usagef("%s contains no pictures (%s)", folder, strings.Join(data.PictureEndings, ", "))
	}
	dir, err := os.MkdirTemp("", "score-best-")
	if err != nil {
		return "", nil, err
	}
	remove = func() error { return os.RemoveAll(dir) }
	path = filepath.Join(dir, "candidates.jsonl")
	if err := jsonfile.WriteLines(path, rows); err != nil {
		remove() // err came first
		return "", nil, err
	}
	return path, remove, nil
}
