package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/cli"
	"assay/reward"
)

func init() { register(newDriftCommand) }

func newDriftCommand() *cobra.Command {
	var f runtimeFlags
	var before, after, clip string
	c := &cobra.Command{
		Use:   "drift --before TABLE --after TABLE --scorer DIR",
		Short: "Compare two checkpoints' outputs: score, likeness to the source, and looks",
		Long: `drift compares what two checkpoints of an editor made of the same inputs: tables with source, edit and instruction. Beside the
mean score it sets CLIP-I to the source (with --clip) and plain facts of the pictures: change, brightness, contrast,
saturation, edges, grain, clipped values. A fact that leaves its place while the score rises is how reward hacking looks;
the correlation says whether, among the later outputs, the score goes with it.`,
		Example: `  score drift --before step-0.jsonl --after step-500.jsonl --scorer runs/adiee/scorer --clip clip-vit-large-patch14`,
		RunE: func(c *cobra.Command, _ []string) error {
			if before == "" || after == "" {
				return cli.Usagef("--before and --after are needed: tables of edits")
			}
			var encoder *encoders.Model
			if clip != "" {
				var err error
				if encoder, err = encoders.Open(clip, encoders.Options{Device: f.device, Threads: f.threads}); err != nil {
					return err
				}
				defer encoder.Close()
			}
			var sides [2]*side
			for i, path := range []string{before, after} {
				var err error
				if sides[i], err = look(c, &f, path, encoder); err != nil {
					return err
				}
			}
			return reportDrift(c, sides[0], sides[1])
		},
	}
	f.add(c)
	c.Flags().StringVar(&before, "before", "", "table of the earlier checkpoint's outputs")
	c.Flags().StringVar(&after, "after", "", "table of the later checkpoint's outputs")
	c.Flags().StringVar(&clip, "clip", "", "CLIP checkpoint, for CLIP-I between edit and source")
	return c
}

// side is one checkpoint's outputs: a column for each fact.
type side struct {
	names  []string // of the facts, in order
	values map[string][]float64
	failed int
}

func (s *side) add(name string, v float64) {
	if _, ok := s.values[name]; !ok {
		s.names = append(s.names, name)
	}
	s.values[name] = append(s.values[name], v)
}

// look scores and measures the rows of a table.
func look(c *cobra.Command, f *runtimeFlags, path string, encoder *encoders.Model) (*side, error) {
	t, err := data.OpenTable(path)
	if err != nil {
		return nil, err
	}
	defer t.Close()
	scores, err := rateRows(c, f, t)
	if err != nil {
		return nil, err
	}
	s := &side{values: map[string][]float64{}}
	for i := range t.Len() {
		if err := c.Context().Err(); err != nil {
			return nil, err
		}
		row, err := t.Read(i)
		if err == nil && scores[i].Error == "" {
			err = s.measure(c.Context(), t.Folder(), row, scores[i].Score01, encoder)
		}
		if err != nil || scores[i].Error != "" {
			s.failed++
		}
	}
	if len(s.names) == 0 {
		return nil, fmt.Errorf("%s: no row could be scored", path)
	}
	return s, nil
}

func (s *side) measure(ctx context.Context, folder string, row data.Row, score01 float64, encoder *encoders.Model) error {
	source, err := row.Source.Open(folder, data.Limits{})
	if err != nil {
		return err
	}
	edit, err := row.Edit.Open(folder, data.Limits{})
	if err != nil {
		return err
	}
	likeness := 0.0
	if encoder != nil {
		e, err := encoder.Images(ctx, []*data.Picture{source, edit})
		if err != nil {
			return err
		}
		likeness = heuristics.Cosine(e[0], e[1])
	}
	s.add("score", 10*score01)
	if encoder != nil {
		s.add("clip_i", likeness)
	}
	for _, fact := range reward.MeasureEdit(source, edit).Named() {
		s.add(fact.Name, fact.Value)
	}
	return nil
}

func reportDrift(c *cobra.Command, before, after *side) error {
	var all []reward.Comparison
	for _, name := range before.names {
		all = append(all, reward.Compare(name, before.values[name], after.values[name], after.values["score"]))
	}
	warnings := reward.Warnings(all[0], all[1:])
	v := map[string]any{"facts": all, "warnings": warnings, "rows_before": len(before.values["score"]), "rows_after": len(after.values["score"]),
		"failed_before": before.failed, "failed_after": after.failed}
	err := cli.Print(c, v, func(w io.Writer) {
		tw := tabwriter.NewWriter(w, 0, 4, 2, ' ', tabwriter.AlignRight)
		fmt.Fprintln(tw, "\tbefore\tafter\tdifference\tin deviations\tr with score\t")
		for _, m := range all {
			fmt.Fprintf(tw, "%s\t%.4f\t%.4f\t%+.4f\t%+.2f\t%+.2f\t\n", m.Name, m.Before, m.After, m.Difference, m.Shift, m.Correlation)
		}
		tw.Flush()
		for _, line := range warnings {
			fmt.Fprintln(w, "warning:", line)
		}
	})
	if failed := before.failed + after.failed; err == nil && failed > 0 {
		err = cli.Reported(fmt.Errorf("%d rows could not be scored or read", failed))
	}
	return err
}
