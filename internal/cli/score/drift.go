package score

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/internal/cli"
	"assay/internal/curate"
	"assay/internal/exit"
	"assay/internal/scoring"
)

func init() { register(newDriftCommand) }

func newDriftCommand() *cobra.Command {
	var f scorerFlags
	var o driftOptions
	c := &cobra.Command{
		Use:   "drift --before TABLE --after TABLE (--scorer DIR | --judge NAME) [--held-out DIR]",
		Short: "Compare two checkpoints of an editor, to notice reward hacking",
		Long: `drift compares the outputs of two checkpoints of an editor for the same inputs: tables with source, edit
and instruction. It shows the mean score (both on the same range), CLIP-I to the source (with --clip), and plain facts
of the pictures: change, brightness, contrast, saturation, edges, grain and clipped values. A fact that moves while the
score rises is a sign of reward hacking. "in deviations" is the difference in standard deviations of the earlier
outputs; r is the correlation with the score among the later ones (- for constants). Tables with different sources or
instructions get a warning.

--held-out makes it a gate. A second judge, which the editor is not trained on, also scores both tables. If the score
rose, but the held-out judge gained less than --confirmed of the gain expected from its agreement with the score among
the earlier outputs (both with 95 % confidence, over inputs), the gain is not confirmed, and the exit code is 1; --json
then has confirmation.alarm. Warnings about facts are given only in this case, since honest edits change them as well.`,
		Example: `  score drift --before step-0.jsonl --after step-500.jsonl --scorer runs/adiee/scorer --clip ` +
			`clip-vit-large-patch14
  score drift --before step-0.jsonl --after step-500.jsonl --scorer runs/adiee/scorer --held-out editreward`,
		RunE: func(c *cobra.Command, _ []string) error { return drift(c, &f, &o) },
	}
	f.add(c)
	o.add(c)
	return c
}

// driftOptions are the tables that are compared, and by what besides the score.
type driftOptions struct {
	before, after, clip string
	heldOut, column     string // a scorer directory, or a column; "": there is no held-out judge
	confirmed           float64
}

func (o *driftOptions) add(c *cobra.Command) {
	cli.Needs(c, "scorer|judge|clip|held-out", "device", "threads")
	flags := c.Flags()
	flags.StringVar(&o.before, "before", "", "table of the earlier checkpoint's outputs")
	flags.StringVar(&o.after, "after", "", "table of the later checkpoint's outputs")
	flags.StringVar(&o.clip, "clip", "", "CLIP checkpoint, for CLIP-I between edit and source")
	flags.StringVar(&o.heldOut, "held-out", "", "scorer directory of a judge that the editor is not trained on")
	flags.StringVar(&o.column, "held-out-column", "", "instead of --held-out: a column of both tables with its numbers")
	flags.Float64Var(&o.confirmed, "confirmed", 0.5, "minimum share of the expected gain that the held-out judge must see")
	cli.Needs(c, "held-out|held-out-column", "confirmed")
}

func (o *driftOptions) check() error {
	switch {
	case o.before == "" || o.after == "":
		return exit.Usagef("--before and --after are needed: tables of edits")
	case o.heldOut != "" && o.column != "":
		return exit.Usagef("--held-out and --held-out-column are two ways to name one judge: give one of them")
	case !(o.confirmed > 0 && o.confirmed <= 1):
		return exit.Usagef("--confirmed must be above 0 and at most 1, not %g", o.confirmed)
	}
	return nil
}

func drift(c *cobra.Command, f *scorerFlags, o *driftOptions) error {
	if err := o.check(); err != nil {
		return err
	}
	var encoder curate.ImageEncoder
	if o.clip != "" {
		e, err := encoders.Open(o.clip, encoders.Options{Device: f.device, Threads: f.threads, Kind: encoders.CLIP})
		if err != nil {
			return exit.Named(err)
		}
		defer e.Close()
		encoder = e
	}
	var sides [2]*curate.Outputs
	var scores, held [2]scoring.Scores
	for i, path := range []string{o.before, o.after} {
		var err error
		if sides[i], scores[i], held[i], err = measureOutputs(c, f, o, path, encoder); err != nil {
			return err
		}
	}
	for _, both := range [][2]scoring.Scores{scores, held} {
		if err := scoring.OneRange([]string{o.before, o.after}, both[:]...); err != nil {
			return err
		}
	}
	d, err := curate.CompareOutputs(sides[0], sides[1], o.confirmed)
	if err != nil {
		return err
	}
	v := struct {
		*curate.Drift
		Unreadable *int     `json:"unreadable,omitempty"`
		Share      *float64 `json:"unreadable_share,omitempty"`
	}{Drift: d}
	if f.judge != "" {
		share := f.unread.share()
		v.Unreadable, v.Share = &f.unread.rows, &share
	}
	err = cli.Print(c, v, func(w io.Writer) {
		printDrift(w, d)
		f.printUnread(w)
	})
	switch failed := d.FailedBefore + d.FailedAfter; {
	case err != nil:
	case failed > 0:
		err = exit.Reported(fmt.Errorf("%d rows could not be scored or read; the first: %s", failed,
			cmp.Or(sides[0].Reason, sides[1].Reason)))
	case d.Confirmation != nil && d.Confirmation.Alarm:
		err = exit.Reported(errors.New("the held-out judge does not confirm the gain: look at the pictures"))
	}
	return err
}

// measureOutputs scores and measures the rows of a table.
func measureOutputs(c *cobra.Command, f *scorerFlags, o *driftOptions, path string, e curate.ImageEncoder) (
	out *curate.Outputs, scores, held scoring.Scores, err error) {
	t, err := data.OpenTable(path)
	if err != nil {
		return nil, scores, held, exit.Usage(err)
	}
	defer t.Close()
	if scores, err = rateRows(c, f, t); err != nil {
		return nil, scores, held, err
	}
	other, err := o.judge(c, f, t)
	if err != nil {
		return nil, scores, held, err
	}
	if other != nil {
		held = *other
	}
	out, err = curate.Measure(c.Context(), t, scores, other, e)
	return out, scores, held, err
}

// judge returns the scores of the held-out judge for a table's rows; nil: there is no such judge.
func (o *driftOptions) judge(c *cobra.Command, f *scorerFlags, t *data.Table) (*scoring.Scores, error) {
	var scores scoring.Scores
	var err error
	switch {
	case o.heldOut != "":
		second := runtimeFlags{scorer: o.heldOut, device: f.device, threads: f.threads}
		s, failed := second.open(c)
		if failed != nil {
			return nil, failed
		}
		defer s.Close()
		scores, err = rateBy(c, s, t)
	case o.column != "":
		scores, err = scoring.Column(t, o.column)
	default:
		return nil, nil
	}
	return &scores, err
}

func printDrift(w io.Writer, d *curate.Drift) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "\tbefore\tafter\tdifference\tin deviations\tr with score\t")
	known := func(v *float64) string {
		if v == nil {
			return "-"
		}
		return fmt.Sprintf("%+.2f", *v)
	}
	for _, m := range d.Facts {
		fmt.Fprintf(tw, "%s\t%.4f\t%.4f\t%+.4f\t%s\t%s\t\n",
			m.Name, m.Before, m.After, m.Difference, known(m.Shift), known(m.Correlation))
	}
	tw.Flush()
	if v := d.Confirmation; v != nil {
		printConfirmation(w, v)
	}
	for _, line := range d.Warnings {
		fmt.Fprintln(w, "warning:", line)
	}
}

func printConfirmation(w io.Writer, v *curate.Confirmation) {
	tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(tw, "gain over %d inputs\t\t95 %%\t\n", v.Inputs)
	for _, row := range []struct {
		name string
		of   curate.Estimate
	}{{"score", v.Gain}, {"held-out judge", v.HeldOut}, {"expected of it", v.Expected}} {
		fmt.Fprintf(tw, "%s\t%+.4f\t%+.4f to %+.4f\t\n", row.name, row.of.Value, row.of.Low, row.of.High)
	}
	tw.Flush()
	agreement := func(r *float64) string {
		if r == nil {
			return "-"
		}
		return fmt.Sprintf("%.2f", *r)
	}
	fmt.Fprintf(w, "rank correlation of both judges: %s before, %s after\n", agreement(v.AgreementBefore),
		agreement(v.AgreementAfter))
	switch {
	case v.Alarm:
		fmt.Fprintf(w, "alarm: the held-out judge gained less than %g of its expected gain\n", v.Wanted)
	case v.Gain.Low <= 0:
		fmt.Fprintln(w, "no alarm: the score did not rise significantly")
	default:
		fmt.Fprintln(w, "no alarm")
	}
}
