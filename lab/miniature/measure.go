package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/exit"
)

func newMeasure() *cobra.Command {
	var f options
	var in string
	c := &cobra.Command{
		Use:   "measure --photos DIR --in FILE [--out FILE]",
		Short: "Measure the true degree of success of any pictures",
		Long: `measure computes the true degree of success, 0 to 1, of pictures that any editor made from a data set's
sources: how far each has come from its source to the requested edit, less its changes elsewhere. It redraws the tasks
of the data set, so --photos, --seed, --held or --only, --exam, --instructions, --size and --augment must be the same
as when the data set was written. It uses no scorer.

FILE is a table with source, instruction and edit (an id is kept): the data set's own edits table, or one with other
edits. The output has a line for each row: id, family, truth. An unknown source or instruction is an error.`,
		Example: `  build/lab/miniature measure --photos examples/photos --seed 2 --only tissue,rocket --exam \
      --in outputs.jsonl --out measured.jsonl
  build/lab/miniature evaluate --truth exam/truth.jsonl --scores measured.jsonl --column truth`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.photos == "" || in == "" {
				return exit.Usagef("--photos and --in are needed: the photographs of the data set, and the table to measure")
			}
			world, err := f.world()
			if err != nil {
				return err
			}
			scales, err := world.Scales(f.set)
			if err != nil {
				return err
			}
			measure := func(w io.Writer) error { return scales.Table(c.Context(), in, w) }
			if f.out == "" {
				return measure(c.OutOrStdout())
			}
			if err := atomicfile.Write(f.out, measure); err != nil {
				return err
			}
			_, err = fmt.Fprintln(os.Stderr, f.out)
			return err
		},
	}
	f.tasks(c.Flags())
	c.Flags().StringVar(&in, "in", "", "table of edits: source, instruction, edit")
	c.Flags().StringVar(&f.out, "out", "", "JSONL file to write (default: standard output)")
	cli.Writes(c, []string{".jsonl"}, "out")
	return c
}
