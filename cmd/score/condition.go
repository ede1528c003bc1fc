package main

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/reward"
	"assay/scoring"
)

func init() { register(newConditionCommand) }

type conditionFlags struct {
	runtime                         runtimeFlags
	in, out, preset, template, span string
	layouts                         []string
	columns                         map[string]string
	copied                          bool
}

func newConditionCommand() *cobra.Command {
	var f conditionFlags
	c := &cobra.Command{
		Use:   "condition --in TABLE --scorer DIR --out DIR",
		Short: "Make reward-conditioned labels for the training of an editor",
		Long: `condition scores the edits of a table and says each score in words behind the instruction, so that an editor trained on all
of them, good and bad, learns what the words mean and can be asked for the best (HIVE; ADIEE, section 3.4). It writes the
folder DIR: images/, labels in the layouts asked for, and failed.jsonl with the rows that could not be scored.

Presets: adiee ("... . The image quality is four out of five.", cuts at 2, 4, 6, 8, 10), hive, paper (a figure, 1 to 5); or
--template with {instruction} and {word}, {level}, {level5} or {score}. Without --scorer the column score01 is used, as score
batch writes it. weight balances the levels: sample rows in proportion to it, or repeat them.`,
		Example: `  score condition --in edits.jsonl --scorer backbones/tiny-scorer --out labels
  score condition --in scores.parquet --out labels --template '{instruction} (quality {level}/5)' --layouts diffsynth,parquet`,
		RunE: func(c *cobra.Command, _ []string) error { return condition(c, &f) },
	}
	f.runtime.add(c)
	flags := c.Flags()
	flags.StringVar(&f.in, "in", "", "table with source, edit, instruction")
	flags.StringVar(&f.out, "out", "", "folder to make")
	flags.StringVar(&f.preset, "preset", "adiee", strings.Join(slices.Sorted(maps.Keys(reward.Presets)), ", "))
	flags.StringVar(&f.template, "template", "", "text instead of a preset's")
	flags.StringVar(&f.span, "range", "0,1", "score01 that become 0 and 10 before the cuts; auto: the lowest and the highest of the table")
	flags.StringSliceVar(&f.layouts, "layouts", []string{"diffsynth"}, strings.Join(reward.LayoutNames(), ", "))
	flags.BoolVar(&f.copied, "copy", false, "copy pictures instead of linking to them")
	flags.StringToStringVar(&f.columns, "columns", nil, "our column=the table's, for other names")
	return c
}

func condition(c *cobra.Command, f *conditionFlags) error {
	template, ok := reward.Presets[f.preset]
	if f.template != "" {
		template, ok = reward.Template(f.template), true
	}
	switch {
	case f.in == "" || f.out == "":
		return cli.Usagef("--in and --out are needed: a table, and a folder to make")
	case !ok:
		return cli.Usagef("--preset %q: there are %s", f.preset, strings.Join(slices.Sorted(maps.Keys(reward.Presets)), ", "))
	}
	if err := template.Check(); err != nil {
		return cli.Usage(err)
	}
	for _, l := range f.layouts {
		if reward.Layouts[l] == nil {
			return cli.Usagef("--layouts %q: there are %s", l, strings.Join(reward.LayoutNames(), ", "))
		}
	}
	t, err := data.OpenTable(f.in, data.WithColumns(f.columns))
	if err != nil {
		return err
	}
	defer t.Close()
	scores, err := rateRows(c, &f.runtime, t)
	if err != nil {
		return err
	}
	scale, err := parseRange(f.span, scores)
	if err != nil {
		return err
	}
	failed := []scoring.FailedRow{}
	var examples []reward.Example
	err = atomicfile.WriteDir(f.out, func(dir string) error {
		for i := range t.Len() {
			row, err := t.Read(i)
			if err == nil && scores[i].Error != "" {
				err = fmt.Errorf("%s", scores[i].Error)
			}
			var e reward.Example
			if err == nil {
				score := 10 * scale(scores[i].Score01)
				e = reward.Example{ID: row.ID, Instruction: row.Instruction, Score: score, Level: reward.Level(score), Prompt: template.Text(row.Instruction, score)}
				name := filepath.Join("images", fmt.Sprintf("%07d", i))
				if e.Source, err = reward.Place(row.Source, t.Folder(), dir, name+"-source", f.copied); err == nil {
					e.Edit, err = reward.Place(row.Edit, t.Folder(), dir, name+"-edit", f.copied)
				}
			}
			if err != nil {
				failed = append(failed, scoring.FailedRow{Row: i, ID: row.ID, Error: err.Error()})
				continue
			}
			examples = append(examples, e)
		}
		reward.Balance(examples)
		for _, l := range f.layouts {
			if err := reward.Layouts[l](dir, examples); err != nil {
				return err
			}
		}
		return writeLines(filepath.Join(dir, "failed.jsonl"), failed)
	})
	if err != nil {
		return err
	}
	var levels [5]int
	for _, e := range examples {
		levels[e.Level-1]++
	}
	return finishRows(c, map[string]any{"out": f.out, "rows": t.Len(), "labelled": len(examples), "failed": len(failed), "levels": levels}, len(failed), filepath.Join(f.out, "failed.jsonl"), func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d rows labelled in %s; levels one to five: %v\n", len(examples), t.Len(), f.out, levels)
	})
}

// finishRows prints a result, and ends with exit code 1 if some rows failed.
func finishRows(c *cobra.Command, v any, failed int, where string, words func(io.Writer)) error {
	if err := cli.Print(c, v, words); err != nil || failed == 0 {
		return err
	}
	return cli.Reported(fmt.Errorf("%d rows could not be used; %s says why", failed, where))
}

// parseRange returns the map from score01 to 0..1 that --range asks for.
func parseRange(text string, scores scoring.Scores) (func(float64) float64, error) {
	var lo, hi float64
	if text == "auto" {
		first := true
		for _, o := range scores {
			if o.Error == "" {
				if first {
					lo, hi, first = o.Score01, o.Score01, false
				}
				lo, hi = min(lo, o.Score01), max(hi, o.Score01)
			}
		}
		if hi <= lo {
			return nil, fmt.Errorf("--range auto: all scores are %g", lo)
		}
	} else if n, err := fmt.Sscanf(text, "%g,%g", &lo, &hi); n != 2 || err != nil || !(hi > lo) {
		return nil, cli.Usagef("--range %q: two numbers, low,high, or auto", text)
	}
	return func(x float64) float64 { return (x - lo) / (hi - lo) }, nil
}
