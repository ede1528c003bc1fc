// Command demo has the parts that only the demonstration (lab/demo/run.sh) needs: it shuffles the instructions of
// tasks, and reports how a scorer did on an exam of the miniature world.
//
//	demo shuffle --in build/demo/exam/edits.jsonl --out build/demo/exam/shuffled.jsonl
//	demo report --data build/demo/data --labels build/demo/labels/table.parquet --exam build/demo/exam --out build/demo
package main

import (
	"fmt"
	"io"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/internal/cli"
)

var app = cli.App{Root: func() *cobra.Command {
	return &cobra.Command{Use: "demo", Short: "Parts of make demo",
		Long: "demo has the parts that only the demonstration needs; lab/demo/run.sh runs it."}
}}

func init() {
	app.Register(newShuffle)
	app.Register(newReport)
}

func main() { app.Main() }

func newShuffle() *cobra.Command {
	var in, out string
	var seed uint64
	c := &cobra.Command{
		Use:   "shuffle --in FILE --out FILE",
		Short: "Give all outputs of each task the instruction of another task",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := shuffle(in, out, seed)
			if err != nil {
				return err
			}
			v := map[string]any{"out": out, "tasks": n}
			return cli.Print(c, v, func(w io.Writer) { fmt.Fprintf(w, "the instructions of %d tasks shuffled: %s\n", n, out) })
		},
	}
	c.Flags().StringVar(&in, "in", "", "edits.jsonl of an exam")
	c.Flags().StringVar(&out, "out", "", "JSONL table to write, in the same folder")
	c.Flags().Uint64Var(&seed, "seed", 1, "seed of the permutation")
	c.MarkFlagRequired("in")
	c.MarkFlagRequired("out")
	return c
}

func newReport() *cobra.Command {
	var f files
	var out string
	c := &cobra.Command{
		Use:   "report --data DIR --labels FILE --exam DIR --out DIR",
		Short: "Write report.html, report.txt and report.json of a scored exam",
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := newExamReport(c.Context(), f)
			if err != nil {
				return err
			}
			if err := r.write(out); err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				r.text(w) // cannot fail: it was written above
				fmt.Fprintf(w, "\nreport       %s\n", filepath.Join(out, pageFile))
			})
		},
	}
	c.Flags().StringVar(&f.data, "data", "", "data set that the scorer was trained on, with its truth")
	c.Flags().StringVar(&f.labels, "labels", "", "its label table")
	c.Flags().StringVar(&f.exam, "exam", "", "exam with scores.jsonl, shuffled-scores.jsonl and similarities.jsonl")
	c.Flags().StringVar(&f.scorer, "scorer", "", "scorer directory, for the commands to try next")
	c.Flags().StringVar(&f.times, "times", "", "times of the steps: lines of name, seconds, exit code, separated by tabs")
	c.Flags().Uint64Var(&f.seed, "seed", 1, "seed of the choice of examples")
	c.Flags().
		BoolVar(&f.captions, "captions", false, "the exam has "+captionedFile+" and "+writtenFile+", written by a model")
	c.Flags().BoolVar(&f.trained, "trained", false, "show heat maps of --scorer and the loss of its training run")
	c.Flags().BoolVar(&f.short, "short", false, "note in the report that there was little data")
	c.Flags().StringVar(&out, "out", "", "folder to write into")
	for _, name := range []string{"data", "labels", "exam", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}
