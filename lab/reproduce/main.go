// Command reproduce does what only the reproduction book (reproduce/) needs. It makes data of the miniature world in
// the layouts that data sets are published in, and the book's configurations in small. It takes the wording of a paper
// from the user's copy.
//
//	reproduce stand-ins --train build/a --edits build/b --exam build/c --out build/reproduce
//	reproduce small --out build/reproduce
//	reproduce conversations --in table.parquet --prompt score.jinja --out conversations.jsonl
//	reproduce wording --from paper.txt reproduce/adiee/full/classifier.yaml
package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/cli"
)

var app = cli.App{Root: func() *cobra.Command {
	return &cobra.Command{
		Use:   "reproduce",
		Short: "Parts of the reproduction book",
		Long:  "reproduce does what only the reproduction book needs; reproduce/run.sh runs it.",
	}
}}

func init() {
	app.Register(newStandIns)
	app.Register(newSmall)
	app.Register(newConversations)
	app.Register(newMeans)
	app.Register(newResults)
	app.Register(newWording)
}

func main() { app.Main() }

func newStandIns() *cobra.Command {
	var s standIns
	c := &cobra.Command{
		Use:   "stand-ins --train DIR --edits DIR --exam DIR --out DIR",
		Short: "Write sets of the miniature world in the layouts of the papers' data sets and benchmarks",
		RunE: func(c *cobra.Command, _ []string) error {
			if err := s.write(); err != nil {
				return err
			}
			return cli.Print(c, map[string]any{"out": s.out}, func(w io.Writer) { fmt.Fprintf(w, "stand-ins: %s\n", s.out) })
		},
	}
	c.Flags().
		StringVar(&s.train, "train", "", "set of outputs and chains, from which MagicBrush and SEED-Data-Edit are made")
	c.Flags().StringVar(&s.edits, "edits", "", "set of outputs, from which Emu Edit is made")
	c.Flags().StringVar(&s.exam, "exam", "", "exam, from which the benchmarks are made")
	c.Flags().StringVar(&s.out, "out", "", "folder to write into")
	for _, name := range []string{"train", "edits", "exam", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}

func newSmall() *cobra.Command {
	var s small
	c := &cobra.Command{
		Use:   "small --out DIR",
		Short: "Write the book's configurations as they run on the small backbone",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := s.write()
			if err != nil {
				return err
			}
			v := map[string]any{"out": s.out, "configurations": n}
			return cli.Print(c, v, func(w io.Writer) { fmt.Fprintf(w, "%d configurations in small: %s\n", n, s.out) })
		},
	}
	c.Flags().StringVar(&s.root, "root", ".", "the repository")
	c.Flags().StringVar(&s.out, "out", "", "folder to write into, laid out as the repository")
	c.MarkFlagRequired("out")
	return c
}

func newConversations() *cobra.Command {
	var f conversations
	c := &cobra.Command{
		Use:   "conversations --in FILE --prompt FILE --out FILE",
		Short: "Make conversations of a label table: a judge's question, and the label as its answer in words",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := f.write()
			if err != nil {
				return err
			}
			v := map[string]any{"out": f.out, "conversations": n}
			return cli.Print(c, v, func(w io.Writer) { fmt.Fprintf(w, "%d conversations: %s\n", n, f.out) })
		},
	}
	c.Flags().StringVar(&f.in, "in", "", "label table")
	c.Flags().StringVar(&f.split, "split", "", "only rows of this split")
	c.Flags().StringVar(&f.prompt, "prompt", "", "the judge's prompt, a Jinja file with {{ instruction }}")
	c.Flags().StringVar(&f.out, "out", "", "JSON lines to write, in the table's folder")
	for _, name := range []string{"in", "prompt", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}

func newMeans() *cobra.Command {
	var f means
	c := &cobra.Command{
		Use:   "means --in FILE --by COLUMN --of COLUMN,... --out FILE",
		Short: "Give the means of a table's numbers by editor, with intervals, as Markdown",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := f.write()
			if err != nil {
				return err
			}
			v := map[string]any{"out": f.out, "editors": n}
			return cli.Print(c, v, func(w io.Writer) { fmt.Fprintf(w, "means of %d: %s\n", n, f.out) })
		},
	}
	c.Flags().StringVar(&f.in, "in", "", "table")
	c.Flags().StringVar(&f.by, "by", "", "column that names the editor")
	c.Flags().StringSliceVar(&f.of, "of", nil, "columns of numbers")
	c.Flags().StringVar(&f.out, "out", "", "Markdown to write")
	for _, name := range []string{"in", "by", "of", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}

func newResults() *cobra.Command {
	var f results
	c := &cobra.Command{
		Use:   "results --runs DIR --out FILE",
		Short: "Gather what reports of score bench say into one table",
		RunE: func(c *cobra.Command, _ []string) error {
			n, err := f.write()
			if err != nil {
				return err
			}
			v := map[string]any{"out": f.out, "numbers": n}
			return cli.Print(c, v, func(w io.Writer) { fmt.Fprintf(w, "%d numbers: %s\n", n, f.out) })
		},
	}
	c.Flags().StringVar(&f.runs, "runs", "", "folder of the reports")
	c.Flags().StringVar(&f.out, "out", "", "Markdown to write")
	for _, name := range []string{"runs", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}

func newWording() *cobra.Command {
	var f wording
	c := &cobra.Command{
		Use:   "wording --from FILE CONFIG...",
		Short: "Put the questions and answers of your copy of ADIEE's paper into configurations",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, files []string) error {
			r, err := f.write(files)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				fmt.Fprintf(w, "%d questions and %d answers in %d configurations\n", r.Questions, r.Answers, len(files))
				if !r.Published {
					fmt.Fprintln(w, "warning: the wording is not that of the published paper")
				}
			})
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "the paper's text, or any that has its questions and answers in quotes")
	c.MarkFlagRequired("from")
	return c
}
