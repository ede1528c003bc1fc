package reward

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/jsonfile"
	"assay/scoring"
)

// BestEdit is an edit among those of its source and instruction.
type BestEdit struct {
	Row         *int     `json:"row,omitempty"` // of the table
	Source      string   `json:"source,omitempty"`
	Instruction string   `json:"instruction"`
	Edit        string   `json:"edit"`
	Rank        int      `json:"rank"` // from 1
	Of          int      `json:"of"`
	Score       float64  `json:"score"`  // on the scorer's range
	Margin      *float64 `json:"margin"` // lead over the next one, in score; null: there is no next one
}

// Best keeps the best edits of every group, so many of each. rows says whether they name their rows.
func Best(groups []*scoring.Group, keep int, rows bool) []BestEdit {
	best := []BestEdit{}
	for _, g := range groups {
		for i, edit := range g.Edits[:min(keep, len(g.Edits))] {
			b := BestEdit{
				Source:      g.Source.Path,
				Instruction: g.Instruction,
				Edit:        edit.Edit.Path,
				Rank:        i + 1,
				Of:          len(g.Edits),
				Score:       edit.Score(),
			}
			if rows {
				b.Row = &edit.Row
			}
			if i+1 < len(g.Edits) {
				lead := edit.Lead(&g.Edits[i+1])
				b.Margin = &lead
			}
			best = append(best, b)
		}
	}
	return best
}

// pictureEndings are those of the files that CandidateTable takes.
var pictureEndings = []string{".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"}

// CandidateTable writes a table of a folder's pictures as edits of one source, with absolute paths, into a temporary
// folder. remove removes it.
func CandidateTable(folder, source, instruction string) (path string, remove func() error, err error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", nil, err
	}
	from, err := filepath.Abs(folder)
	if err != nil {
		return "", nil, err
	}
	if source, err = filepath.Abs(source); err != nil {
		return "", nil, err
	}
	type candidate struct {
		Source      string `json:"source"`
		Edit        string `json:"edit"`
		Instruction string `json:"instruction"`
	}
	var rows []candidate
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(pictureEndings, strings.ToLower(filepath.Ext(e.Name()))) {
			rows = append(rows, candidate{source, filepath.Join(from, e.Name()), instruction})
		}
	}
	if len(rows) == 0 {
		return "", nil, fmt.Errorf("%s holds no pictures (%s)", folder, strings.Join(pictureEndings, ", "))
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
