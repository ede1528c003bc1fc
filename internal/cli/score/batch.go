package score

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/scoring"
)

func init() { register(newBatchCommand) }

func newBatchCommand() *cobra.Command {
	var f scorerFlags
	var o scoring.Options
	var s cli.ShardFlags
	c := &cobra.Command{
		Use:   "batch (--scorer DIR | --judge NAME) --in FILE --out FILE",
		Short: "Score every edit of a table",
		Long: `batch scores a table (JSONL, CSV or Parquet) with the columns source, edit and instruction. It writes the same
rows in the same order into a .jsonl or .parquet file and adds score (on the scorer's range), score01 and error. A row
that cannot be scored gets an error and no number; the exit code is then 1.

Edits with several source pictures have a list, sources, instead of source (docs/judges.md); in CSV it is JSON text.

Picture paths are relative to the input's folder, and OUT rewrites them relative to its own. Results are saved in
OUT.progress: after Ctrl-C (exit code 3) or a crash the same command resumes. FILE may be s3://bucket/key, gs:// or
azblob:// in programs built with make cloud (docs/scale.md).

With --judge a VLM judge scores the edits (docs/text-judges.md). An unreadable answer is an error of its row; the result
reports their share.

--shard splits a table among workers. i/n is the i-th of n shards (1/8 to 8/8); any/n takes free shards until all are
done; auto uses the number that mpirun, srun or a SLURM array assigns to this process (auto/n: a Kubernetes indexed
job). Workers meet in OUT.shards; a lost worker's shard is taken over. When all are done, --merge writes OUT, the same
bytes as without shards.`,
		Example: `  score batch --scorer backbones/tiny-scorer --in build/demo/exam/edits.jsonl --out scores.jsonl
  score batch --scorer DIR --in edits.parquet --out scores.parquet --columns source=input_image,edit=output_image
  score batch --scorer DIR --in edits.parquet --out scores.parquet --columns sources=input_images
  score batch --scorer DIR --in edits.jsonl --out all.jsonl --shard 1/2
  score batch --scorer DIR --in edits.jsonl --out all.jsonl --shard 2/2   # on another machine
  score batch --scorer DIR --in edits.jsonl --out all.jsonl --merge
  score batch --judge viescore --url http://localhost:8000/v1 --model NAME --in edits.jsonl --out scores.jsonl`,
		RunE: func(c *cobra.Command, _ []string) error {
			return scoreTable(c, &f, o, &s)
		},
	}
	f.add(c)
	s.Add(c)
	c.Flags().StringVar(&o.In, "in", "", "table to read")
	c.Flags().StringVar(&o.Out, "out", "", "table to write (.jsonl or .parquet); replaced if it exists")
	cli.TakesStorage(c, "in", "out")
	c.Flags().StringToStringVar(&o.Columns, "columns", nil, "our column=the table's column, where the names differ")
	c.Flags().StringVar(&o.Preferences, "pairs", "",
		"also write a table of preferences: chosen and rejected edits of the same source and instruction "+
			"(with --shard only --merge writes it)")
	c.Flags().Float64Var(&o.Margin, "margin", 0, "minimum score difference of a preference, on the scorer's range")
	cli.Needs(c, "pairs", "margin")
	cli.Writes(c, nil, "out", "pairs")
	return c
}

func scoreTable(c *cobra.Command, f *scorerFlags, o scoring.Options, shard *cli.ShardFlags) error {
	if o.In == "" || o.Out == "" {
		return exit.Usagef("--in and --out are needed: a table of any format, and one ending in .jsonl or .parquet")
	}
	if !(o.Margin >= 0) || math.IsInf(o.Margin, 1) {
		return exit.Usagef("--margin must be a finite number, 0 or more, not %v", o.Margin)
	}
	if err := shard.Set(c, &o.Options); err != nil {
		return err
	}
	for _, path := range []string{o.Out, o.Preferences} {
		if path == "" {
			continue
		}
		if _, err := data.FormatOf(path); err != nil {
			return exit.Usage(err)
		}
	}
	s, err := f.open(c)
	if err != nil {
		return err
	}
	defer s.Close()
	bar := cli.Bar{Command: c, What: "scoring", Unit: "edits"}
	o.Progress, o.Warn = bar.Set, cli.Warner(c)
	if o.Shard.Count > 0 {
		r, err := scoring.Shard(c.Context(), s, o)
		bar.Close()
		return shard.Finish(c, o.Out, r, err)
	}
	r, err := scoring.Table(c.Context(), s, o)
	bar.Close()
	if err != nil {
		return capped(err, "")
	}
	err = cli.Print(c, r, func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d rows scored, written to %s\n", r.Scored, r.Rows, r.Out)
		if r.Unreadable != nil {
			printUnreadable(w, *r.Unreadable, *r.UnreadableShare)
		}
		if o.Preferences != "" {
			fmt.Fprintf(w, "%d preferences written to %s\n", r.Preferences, o.Preferences)
		}
	})
	if err != nil || r.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d of %d rows could not be scored; the column error of %s says why", r.Failed, r.Rows,
		o.Out))
}

// rateRows returns the score01 of every row of a table: by scoring the rows if there is a --scorer or --judge,
// otherwise from the column score01, which score batch writes.
func rateRows(c *cobra.Command, f *scorerFlags, t *data.Table) (scoring.Scores, error) {
	if text := t.Swapped(); text != "" {
		cli.Warner(c)(text)
	}
	if !f.given() {
		if f.dimension != "" {
			return scoring.Scores{}, exit.Usagef("--dimension requires --scorer")
		}
		scores, err := scoring.Read(t)
		if errors.Is(err, scoring.ErrNoScores) {
			err = exit.Usagef("%w: give --scorer or --judge, or score the table first with score batch", err)
		}
		return scores, err
	}
	s, err := f.open(c)
	if err != nil {
		return scoring.Scores{}, err
	}
	defer s.Close()
	scores, err := rateBy(c, s, t)
	f.unread.count(scores)
	return scores, err
}

// rateBy scores the rows of a table.
func rateBy(c *cobra.Command, s edit.Judge, t *data.Table) (scoring.Scores, error) {
	bar := cli.Bar{Command: c, What: "scoring", Unit: "edits"}
	defer bar.Close()
	return scoring.Rows(c.Context(), s, t, bar.Set)
}
