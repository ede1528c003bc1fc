package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/scoring"
)

func init() { register(newBestCommand) }

type bestFlags struct {
	runtime                              runtimeFlags
	source, instruction, folder, in, out string
	keep                                 int
}

// kept is an edit among those of its source and instruction. Margin is its lead over the next one, in score.
type kept struct {
	Row         *int     `json:"row,omitempty"` // of the table
	Source      string   `json:"source,omitempty"`
	Instruction string   `json:"instruction"`
	Edit        string   `json:"edit"`
	Rank        int      `json:"rank"`
	Of          int      `json:"of"`
	Score       float64  `json:"score"`
	Margin      *float64 `json:"margin"` // null: there is no next one
}

func newBestCommand() *cobra.Command {
	var f bestFlags
	c := &cobra.Command{
		Use:   "best --scorer DIR (--source FILE --instruction TEXT --candidates DIR | --in TABLE)",
		Short: "Choose the best of several edits",
		Long: `best ranks the edits of a source by their scores (0 to 10) and keeps the best. The margin is the lead over the next one: a
small one says that the scorer has no clear favourite. With --in every group of rows of the same source and instruction is
ranked by itself.`,
		Example: `  score best --scorer DIR --source a.png --instruction "make it brighter" --candidates outputs --keep 3
  score best --scorer DIR --in candidates.jsonl --out best.jsonl`,
		RunE: func(c *cobra.Command, _ []string) error { return best(c, &f) },
	}
	f.runtime.add(c)
	flags := c.Flags()
	flags.StringVar(&f.source, "source", "", "picture before the edit")
	flags.StringVar(&f.instruction, "instruction", "", "what was asked for")
	flags.StringVar(&f.folder, "candidates", "", "folder of edited pictures")
	flags.StringVar(&f.in, "in", "", "table with source, edit, instruction")
	flags.StringVar(&f.out, "out", "", "JSON lines to write; without it they are printed")
	flags.IntVar(&f.keep, "keep", 1, "how many of each group")
	return c
}

func best(c *cobra.Command, f *bestFlags) error {
	single := f.source != "" || f.folder != "" || f.instruction != ""
	switch {
	case single == (f.in != ""):
		return cli.Usagef("either --source, --instruction and --candidates are needed, or --in")
	case single && (f.source == "" || f.folder == "" || strings.TrimSpace(f.instruction) == ""):
		return cli.Usagef("--source, --instruction and --candidates belong together")
	case f.keep < 1:
		return cli.Usagef("--keep must be at least 1")
	}
	path := f.in
	if single {
		var err error
		if path, err = candidateTable(f); err != nil {
			return err
		}
		defer os.RemoveAll(filepath.Dir(path))
	}
	t, err := data.OpenTable(path)
	if err != nil {
		return err
	}
	defer t.Close()
	scores, err := rateRows(c, &f.runtime, t)
	if err != nil {
		return err
	}
	groups, failed := scoring.Groups(t, scores)
	list := []kept{}
	for _, g := range groups {
		for i, m := range g.Edits[:min(f.keep, len(g.Edits))] {
			k := kept{Instruction: g.Instruction, Source: g.Source.Path, Edit: m.Edit.Path, Rank: i + 1, Of: len(g.Edits), Score: 10 * m.Score01}
			if !single {
				k.Row = &m.Row
			}
			if i+1 < len(g.Edits) {
				lead := 10 * (m.Score01 - g.Edits[i+1].Score01)
				k.Margin = &lead
			}
			list = append(list, k)
		}
	}
	if f.out != "" {
		if err := writeLines(f.out, list); err != nil {
			return err
		}
	}
	err = cli.Print(c, map[string]any{"best": list, "failed": failed}, func(w io.Writer) {
		for _, k := range list {
			margin := "alone"
			if k.Margin != nil {
				margin = fmt.Sprintf("%+.4f", *k.Margin)
			}
			fmt.Fprintf(w, "%d of %d  %.4f  %s  %s\n", k.Rank, k.Of, k.Score, margin, k.Edit)
		}
		for _, u := range failed {
			fmt.Fprintf(w, "not scored: row %d: %s\n", u.Row, u.Error)
		}
	})
	if err == nil && len(failed) > 0 {
		err = cli.Reported(fmt.Errorf("%d edits could not be scored", len(failed)))
	}
	return err
}

// candidateTable writes a table of a folder's pictures, absolute paths, into a temporary folder.
func candidateTable(f *bestFlags) (string, error) {
	entries, err := os.ReadDir(f.folder)
	if err != nil {
		return "", err
	}
	folder, err := filepath.Abs(f.folder)
	if err != nil {
		return "", err
	}
	source, err := filepath.Abs(f.source)
	if err != nil {
		return "", err
	}
	type row struct {
		Source      string `json:"source"`
		Edit        string `json:"edit"`
		Instruction string `json:"instruction"`
	}
	var rows []row
	known := []string{".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"}
	for _, e := range entries {
		if !e.IsDir() && slices.Contains(known, strings.ToLower(filepath.Ext(e.Name()))) {
			rows = append(rows, row{source, filepath.Join(folder, e.Name()), f.instruction})
		}
	}
	if len(rows) == 0 {
		return "", fmt.Errorf("%s holds no pictures (%s)", f.folder, strings.Join(known, ", "))
	}
	dir, err := os.MkdirTemp("", "score-best-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "candidates.jsonl")
	return path, writeLines(path, rows)
}
