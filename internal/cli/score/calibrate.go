package score

import (
	"cmp"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/calibration"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/scoring/calibrate"
)

func init() { register(newCalibrateCommand) }

func newCalibrateCommand() *cobra.Command {
	var f runtimeFlags
	var o calibrate.Options
	c := &cobra.Command{
		Use:   "calibrate --scorer DIR --in TABLE",
		Short: "Calibrate a scorer: map its scores to labels by people",
		Long: `calibrate fits an increasing map from scores to labels (0 to 1, column label; label_NAME with --dimension
NAME) on edits that the scorer was not trained on. It writes calibration.json into the scorer directory and names it in
scorer.yaml. From then on all commands return calibrated scores and gradients, and score pair --json has intervals.
Remove the line from scorer.yaml to undo it.

  isotonic  the mean label of edits with that score (isotonic regression with linear interpolation between blocks)
  platt     a logistic curve, for labels 0 and 1
  inverse   the inverse of each label's mean score: right on average for each label, but less accurate for single
            edits

The order of edits never changes. 60 % of the rows fit the map, 20 % set the intervals (split conformal), and 20 %
measure the result; --test measures on another table. Rows of one source picture, or of one value of --by, stay in one
part. Rows with pictures of the scorer's training tables are refused; its run names the tables, --trained adds others.

--out receives report.html with reliability diagrams, and report.json. After Ctrl-C (exit code 3) the same command
resumes.`,
		Example: `  score calibrate --scorer DIR --in exam/labels.jsonl
  score calibrate --scorer DIR --in exam/edits.jsonl --labels exam/truth.jsonl --columns label=degree --method inverse \
      --trained edits.jsonl --out report --json`,
		RunE: func(c *cobra.Command, _ []string) error { return runCalibrate(c, &f, &o) },
	}
	f.add(c)
	flags := c.Flags()
	flags.StringVar(&o.In, "in", "", "table of edits with labels (.jsonl, .csv or .parquet)")
	flags.StringVar(&o.Test, "test", "", "table of other edits with labels to measure on (default: a part of --in)")
	flags.StringVar(&o.Labels, "labels", "", "table of id and label, if --in has no labels")
	flags.StringVar(&o.Tests, "test-labels", "", "table of id and label, if --test has no labels")
	flags.StringToStringVar(&o.Columns, "columns", nil, "our column=the table's, for other names (label=degree)")
	flags.StringVar(&o.Split, "split", "", "only rows with this value in the column split")
	flags.StringVar(&o.By, "by", "", "column whose equal values stay in one part (such as photo)")
	flags.StringVar(&o.Method, "method", calibration.Isotonic, strings.Join(calibration.Methods(), ", "))
	flags.Float64Var(&o.Coverage, "coverage", 0.9, "share of labels inside the intervals")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the split into parts")
	cli.Needs(c, "test", "test-labels")
	cli.Own(c, "scorer") // calibration.json is written into it
	flags.StringSliceVar(&o.Trained, "trained", nil, "tables that the scorer was trained on")
	flags.BoolVar(&o.Insist, "trained-on-too", false, "also use rows that the scorer was trained on, despite the bias")
	flags.StringVar(&o.Out, "out", "", "folder of the report (default: calibration in the scorer's folder)")
	return c
}

func runCalibrate(c *cobra.Command, f *runtimeFlags, o *calibrate.Options) error {
	m, err := f.options(c)
	if err != nil {
		return err
	}
	switch {
	case o.In == "":
		return exit.Usagef("--in is needed: a table of edits with labels")
	case !slices.Contains(calibration.Methods(), o.Method):
		return exit.Usagef("--method %s: want one of %s", o.Method, strings.Join(calibration.Methods(), ", "))
	case !(o.Coverage > 0 && o.Coverage < 1):
		return exit.Usagef("--coverage must be above 0 and below 1, not %g", o.Coverage)
	}
	o.Scorer, o.Model = f.scorer, m
	o.Out = cmp.Or(o.Out, filepath.Join(f.scorer, "calibration", f.dimension))
	o.Warn = cli.Warner(c)
	bar := cli.Bar{Command: c, What: "scoring", Unit: "edits"}
	o.Progress = bar.Set
	r, err := calibrate.Run(c.Context(), *o)
	bar.Close()
	if err != nil {
		return err
	}
	if err := cli.Print(c, r, func(w io.Writer) { printCalibration(w, r, o.Out) }); err != nil || r.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d rows have no score or no label and were left out", r.Failed))
}

func printCalibration(w io.Writer, r *calibrate.Report, out string) {
	fmt.Fprintf(w, "%s, fitted on %d edits, measured on %d others (%d scenes)\n", r.Method, r.Fit.Rows, r.Tested.Rows,
		r.Tested.Scenes)
	line := func(name string, m *calibrate.Measures) {
		fmt.Fprintf(w, "%-12s expected calibration error %.4f, mean distance %.4f, mean score %.4f, mean label %.4f\n", name,
			m.Error, m.L1, m.Score, m.Label)
	}
	if r.Before != nil {
		line("before", r.Before)
	}
	line("calibrated", &r.After)
	i := r.Map.Interval
	fmt.Fprintf(w, "intervals of +-%.4f hold %.1f %% of the labels (target %.0f %%)\n", i.HalfWidth, 100*i.Measured,
		100*i.Coverage)
	fmt.Fprintf(w, "written to %s; see %s\n", filepath.Join(r.Scorer, calibration.File), filepath.Join(out, "report.html"))
}
