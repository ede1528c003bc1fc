package score

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/internal/curate"
	"assay/internal/exit"
	"assay/internal/scoring"
)

func init() { register(newBestCommand) }

type bestFlags struct {
	runtime                      scorerFlags
	sources                      []string
	instruction, folder, in, out string
	keep                         int
}

func newBestCommand() *cobra.Command {
	var f bestFlags
	c := &cobra.Command{
		Use:   "best (--scorer DIR | --judge NAME) (--source FILE --instruction TEXT --candidates DIR | --in TABLE)",
		Short: "Choose the best of several edits",
		Long: `best ranks the edits of a source by their scores (on the scorer's range) and keeps the best. The margin is the
lead over the next edit: if it is small, the scorer has no clear favourite.

With --in every group of rows with the same source and instruction is ranked. Without --scorer and --judge the column
score01 is used, as score batch writes it; all scores must be on the same range. --json and --out count rows from 0.`,
		Example: `  score best --scorer DIR --source a.png --instruction "make it brighter" --candidates outputs --keep 3
  score best --scorer DIR --source room.png --source cup.png --instruction "put image 2 into image 1" \
      --candidates outputs
  score best --scorer DIR --in candidates.jsonl --out best.jsonl`,
		RunE: func(c *cobra.Command, _ []string) error { return best(c, &f) },
	}
	f.runtime.add(c)
	cli.Needs(c, "scorer|judge", "device", "threads")
	flags := c.Flags()
	flags.StringArrayVar(&f.sources, "source", nil, "picture before the edit; may be given several times, in the "+
		"order in which the instruction numbers them")
	flags.StringVar(&f.instruction, "instruction", "", "what was asked for")
	cli.TakesText(c, "instruction")
	flags.StringVar(&f.folder, "candidates", "", "folder of edited pictures")
	flags.StringVar(&f.in, "in", "", "table with source (or sources), edit, instruction")
	flags.StringVar(&f.out, "out", "", "file to write (.jsonl); replaced if it exists")
	cli.Writes(c, []string{".jsonl", ".json", ".ndjson"}, "out")
	flags.IntVar(&f.keep, "keep", 1, "edits to keep per group")
	return c
}

// single reports whether the edits of one source are ranked, not the edits of a table.
func (f *bestFlags) single() bool { return len(f.sources) > 0 || f.folder != "" || f.instruction != "" }

func (f *bestFlags) check() error {
	switch {
	case f.single() == (f.in != ""):
		return exit.Usagef("either --source, --instruction and --candidates are needed, or --in")
	case f.single() && (len(f.sources) == 0 || f.folder == "" || strings.TrimSpace(f.instruction) == ""):
		return exit.Usagef("--source, --instruction and --candidates belong together")
	case f.keep < 1:
		return exit.Usagef("--keep must be at least 1")
	}
	return nil
}

func best(c *cobra.Command, f *bestFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	path := f.in
	if f.single() {
		table, remove, err := curate.CandidateTable(f.folder, f.sources, f.instruction)
		if err != nil {
			return err
		}
		defer remove()
		path = table
	}
	t, err := data.OpenTable(path)
	if err != nil {
		return exit.Usage(err)
	}
	defer t.Close()
	scores, err := rateRows(c, &f.runtime, t)
	if err != nil {
		return err
	}
	groups, failed := scoring.Rank(t, scores)
	list := curate.Best(groups, f.keep, !f.single())
	if f.out != "" {
		if err := curate.WriteBest(f.out, list, t); err != nil {
			return err
		}
	}
	v := f.runtime.result(map[string]any{"best": list, "failed": failed})
	err = cli.Print(c, v, func(w io.Writer) {
		printBest(w, list, failed, !f.single())
		f.runtime.printUnread(w)
	})
	if err == nil && len(failed) > 0 {
		err = exit.Reported(fmt.Errorf("%d edits could not be scored", len(failed)))
	}
	return err
}

// printBest lists the best edits. Edits of a table are listed below the source and the instruction of their group.
func printBest(w io.Writer, list []curate.BestEdit, failed []scoring.FailedRow, table bool) {
	for i, b := range list {
		if table && (i == 0 || b.Rank == 1) {
			fmt.Fprintf(w, "%s\n", strings.TrimSpace(fmt.Sprintf("%s %q", cmp.Or(b.Source, strings.Join(b.Sources, " + ")),
				b.Instruction)))
		}
		margin := "alone"
		switch {
		case b.Of > 1 && b.Margin == nil:
			margin = "last"
		case b.Margin != nil:
			margin = fmt.Sprintf("%+.4f", *b.Margin)
		}
		fmt.Fprintf(w, "%d of %d  %.4f  %s  %s\n", b.Rank, b.Of, b.Score, margin, b.Edit)
	}
	for _, u := range failed {
		switch {
		case !table:
			fmt.Fprintf(w, "not scored: %s\n", u.Error)
		case u.ID != "":
			fmt.Fprintf(w, "not scored: id %s: %s\n", u.ID, u.Error)
		default:
			fmt.Fprintf(w, "not scored: row %d (from 0): %s\n", u.Row, u.Error)
		}
	}
}
