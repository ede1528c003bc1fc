package score

import (
	"cmp"
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
	var before, after, clip string
	c := &cobra.Command{
		Use:   "drift --before TABLE --after TABLE (--scorer DIR | --judge NAME)",
		Short: "Compare two checkpoints of an editor, to notice reward hacking",
		Long: `drift compares what two checkpoints of an editor made of the same inputs: tables with source, edit and
instruction. It shows the mean score (both on one range), CLIP-I to the source (with --clip), and plain facts of the
pictures: change, brightness, contrast, saturation, edges, grain and clipped values. A fact that moves while the score
rises is a sign of reward hacking. "in deviations" is the difference in standard deviations of the earlier outputs; r
is the correlation with the score among the later ones (- for constants). Tables with different sources or instructions
get a warning.`,
		Example: `  score drift --before step-0.jsonl --after step-500.jsonl --scorer runs/adiee/scorer --clip ` +
			`clip-vit-large-patch14`,
		RunE: func(c *cobra.Command, _ []string) error {
			if before == "" || after == "" {
				return exit.Usagef("--before and --after are needed: tables of edits")
			}
			return drift(c, &f, before, after, clip)
		},
	}
	f.add(c)
	cli.Needs(c, "scorer|judge|clip", "device", "threads")
	c.Flags().StringVar(&before, "before", "", "table of the earlier checkpoint's outputs")
	c.Flags().StringVar(&after, "after", "", "table of the later checkpoint's outputs")
	c.Flags().StringVar(&clip, "clip", "", "CLIP checkpoint, for CLIP-I between edit and source")
	return c
}

func drift(c *cobra.Command, f *scorerFlags, before, after, clip string) error {
	var encoder curate.ImageEncoder
	if clip != "" {
		e, err := encoders.Open(clip, encoders.Options{Device: f.device, Threads: f.threads, Kind: encoders.CLIP})
		if err != nil {
			return exit.Named(err)
		}
		defer e.Close()
		encoder = e
	}
	var sides [2]*curate.Outputs
	var scores [2]scoring.Scores
	for i, path := range []string{before, after} {
		var err error
		if sides[i], scores[i], err = measureOutputs(c, f, path, encoder); err != nil {
			return err
		}
	}
	if err := scoring.OneRange([]string{before, after}, scores[:]...); err != nil {
		return err
	}
	d := curate.CompareOutputs(sides[0], sides[1])
	v := struct {
		*curate.Drift
		Unreadable *int     `json:"unreadable,omitempty"`
		Share      *float64 `json:"unreadable_share,omitempty"`
	}{Drift: d}
	if f.judge != "" {
		share := f.unread.share()
		v.Unreadable, v.Share = &f.unread.rows, &share
	}
	err := cli.Print(c, v, func(w io.Writer) {
		printDrift(w, d)
		f.printUnread(w)
	})
	if failed := d.FailedBefore + d.FailedAfter; err == nil && failed > 0 {
		err = exit.Reported(fmt.Errorf("%d rows could not be scored or read; the first: %s", failed,
			cmp.Or(sides[0].Reason, sides[1].Reason)))
	}
	return err
}

// measureOutputs scores and measures the rows of a table.
func measureOutputs(c *cobra.Command, f *scorerFlags, path string, e curate.ImageEncoder) (*curate.Outputs,
	scoring.Scores, error) {
	t, err := data.OpenTable(path)
	if err != nil {
		return nil, scoring.Scores{}, exit.Usage(err)
	}
	defer t.Close()
	scores, err := rateRows(c, f, t)
	if err != nil {
		return nil, scoring.Scores{}, err
	}
	o, err := curate.Measure(c.Context(), t, scores, e)
	return o, scores, err
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
	for _, line := range d.Warnings {
		fmt.Fprintln(w, "warning:", line)
	}
}
