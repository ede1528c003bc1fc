// Command reproduce has the parts that only the reproduction book (reproduce/) needs. It writes data of the miniature
// world in the layouts of published data sets, and scales the book's configurations down. It takes the wording of a
// paper from the user's copy.
//
//	reproduce stand-ins --train build/a --edits build/b --exam build/c --out build/reproduce
//	reproduce small --out build/reproduce
//	reproduce conversations --in table.parquet --prompt score.jinja --out conversations.jsonl
//	reproduce wording --from paper.txt reproduce/adiee/full/classifier.yaml
package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/cli"
)

var app = cli.App{Root: func() *cobra.Command {
	return &cobra.Command{Use: "reproduce", Short: "Parts of the reproduction book",
		Long: "reproduce has the parts that only the reproduction book needs; reproduce/run.sh runs it."}
}}

func init() {
	var stand standIns
	register("stand-ins --train DIR --edits DIR --exam DIR --out DIR",
		"Write sets of the miniature world in the layouts of the papers' data sets and benchmarks",
		[]string{"train", "edits", "exam", "out"}, func(c *cobra.Command) {
			f := c.Flags()
			f.StringVar(&stand.train, "train", "",
				"set of outputs and chains, for MagicBrush and SEED-Data-Edit")
			f.StringVar(&stand.edits, "edits", "", "set of outputs, for Emu Edit")
			f.StringVar(&stand.exam, "exam", "", "exam, for the benchmarks")
			f.StringVar(&stand.out, "out", "", "folder to write into")
		}, func() (any, string, error) {
			return map[string]any{"out": stand.out}, "stand-ins: " + stand.out, stand.write()
		})
	var s small
	register("small --out DIR", "Write the book's configurations for the small backbone", []string{"out"},
		func(c *cobra.Command) {
			f := c.Flags()
			f.StringVar(&s.root, "root", ".", "the repository")
			f.StringVar(&s.out, "out", "", "folder to write into, with the layout of the repository")
		}, counted("configurations", "in small", &s.out, s.write))
	var talk conversations
	register("conversations --in FILE --prompt FILE --out FILE",
		"Make conversations from a label table: a judge's question, with the label as the text answer",
		[]string{"in", "prompt", "out"}, func(c *cobra.Command) {
			f := c.Flags()
			f.StringVar(&talk.in, "in", "", "label table")
			f.StringVar(&talk.split, "split", "", "only rows of this split")
			f.StringVar(&talk.prompt, "prompt", "", "the judge's prompt, a Jinja file with {{ instruction }}")
			f.StringVar(&talk.out, "out", "", "JSON lines to write, in the table's folder")
		}, counted("conversations", "", &talk.out, talk.write))
	var m means
	register("means --in FILE --by COLUMN --of COLUMN,... --out FILE",
		"Write the means of a table's numbers by editor, with intervals, as Markdown", []string{"in", "by", "of", "out"},
		func(c *cobra.Command) {
			f := c.Flags()
			f.StringVar(&m.in, "in", "", "table")
			f.StringVar(&m.by, "by", "", "column that names the editor")
			f.StringSliceVar(&m.of, "of", nil, "columns of numbers")
			f.StringVar(&m.out, "out", "", "Markdown to write")
		}, counted("editors", "with means", &m.out, m.write))
	var r results
	register("results --runs DIR --out FILE", "Collect the figures of score bench reports in one table",
		[]string{"runs", "out"}, func(c *cobra.Command) {
			f := c.Flags()
			f.StringVar(&r.runs, "runs", "", "folder of the reports")
			f.StringVar(&r.out, "out", "", "Markdown to write")
		}, counted("numbers", "", &r.out, r.write))
	app.Register(newWording)
}

func main() { app.Main() }

// register adds a subcommand that has flags, some of them required, and no arguments.
func register(use, short string, required []string, flags func(*cobra.Command), do func() (any, string, error)) {
	app.Register(func() *cobra.Command {
		c := &cobra.Command{Use: use, Short: short, Args: cobra.NoArgs, RunE: func(c *cobra.Command, _ []string) error {
			v, said, err := do()
			if err != nil {
				return err
			}
			return cli.Print(c, v, func(w io.Writer) { fmt.Fprintln(w, said) })
		}}
		flags(c)
		for _, name := range required {
			c.MarkFlagRequired(name)
		}
		return c
	})
}

// counted returns a subcommand that writes a file and prints the number of its entries.
func counted(what, how string, out *string, write func() (int, error)) func() (any, string, error) {
	return func() (any, string, error) {
		n, err := write()
		said := strings.Join(strings.Fields(fmt.Sprint(n, " ", what, " ", how)), " ") + ": " + *out
		return map[string]any{"out": *out, what: n}, said, err
	}
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
					fmt.Fprintln(w, "warning: the wording differs from the published paper")
				}
			})
		},
	}
	c.Flags().StringVar(&f.from, "from", "", "the paper's text, or any text with its questions and answers in quotes")
	c.MarkFlagRequired("from")
	return c
}
