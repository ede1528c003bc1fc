package score

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/internal/curate"
	"assay/internal/exit"
)

func init() { register(newAIMCommand) }

func newAIMCommand() *cobra.Command {
	var f scorerFlags
	var in, out, normalise string
	var copied bool
	s := curate.TripletSelection{}
	c := &cobra.Command{
		Use:   "aim --rule aim-bench|aim-40k --in FOLDER --out DIR",
		Short: "Select triplets as AIM-Bench or AIM-40k does, and write DiffSynth-Studio's metadata",
		Long: `aim selects triplets (input, instruction and target picture) from a table, or from metadata.jsonl in a
folder, by the values in their columns. It writes a folder for DiffSynth-Studio with the score of each selected triplet
(--scorer, or a column score01), and dropped.jsonl with the reason for each dropped one.

aim-bench keeps the best edits of each input (--top) by 0.5 VIE + 0.3 CLIP-T + 0.2 aesthetic, each min-max normalised
over the edits of the input. It needs vie (or sc and pq), clip_t and aesthetic.

aim-40k keeps targets whose clip_i, between original and repainted picture, exceeds --clip-i, then the same number for
each of the eight emotions (--per-emotion), with the highest clip_i. It needs clip_i and emotion.`,
		Example: `  score aim --rule aim-bench --in triplets --scorer runs/adiee/scorer --out bench --top 5
  score aim --rule aim-40k --in triplets --scorer runs/adiee/scorer --out aim40k`,
		RunE: func(c *cobra.Command, _ []string) error {
			if in == "" || out == "" {
				return exit.Usagef("--in and --out are needed: a folder or table of triplets, and a folder to make")
			}
			if s.Top < 0 || s.PerEmotion < 0 || math.IsNaN(s.ClipI) {
				return exit.Usagef("--top and --per-emotion must be 0 or more, and --clip-i a number")
			}
			if normalise != "source" && normalise != "table" {
				return exit.Usagef("--normalise %q: want source or table", normalise)
			}
			s.OverTable = normalise == "table"
			if err := checkRule(c, s.Rule); err != nil {
				return err
			}
			return selectTriplets(c, &f, in, out, s, copied)
		},
	}
	f.add(c)
	cli.Needs(c, "scorer|judge", "device", "threads")
	flags := c.Flags()
	flags.StringVar(&s.Rule, "rule", "", "aim-bench or aim-40k (default: the filters of both, until the next version)")
	flags.StringVar(&in, "in", "", "folder with metadata.jsonl, or a table")
	flags.StringVar(&out, "out", "", "folder to make")
	cli.Makes(c, "out")
	flags.IntVar(&s.Top, "top", 5, "aim-bench: best edits of each input (0: all)")
	flags.StringVar(&normalise, "normalise", "source", "aim-bench: scope of the min-max normalisation: source, table")
	flags.Float64Var(&s.ClipI, "clip-i", 0.85, "aim-40k: clip_i must exceed this")
	flags.IntVar(&s.PerEmotion, "per-emotion", 0, "aim-40k: triplets per emotion (0: as many as the rarest has)")
	flags.BoolVar(&copied, "copy", false, "copy pictures instead of linking to them")
	cli.Needs(c, "rule", "normalise")
	return c
}

// checkRule refuses flags of the other rule.
func checkRule(c *cobra.Command, rule string) error {
	if rule == "" {
		cli.Warner(c)("without --rule the filters of aim-40k and aim-bench are applied one after the other, as in earlier " +
			"versions. The next version will require --rule")
		return nil
	}
	if !slices.Contains(curate.RuleNames(), rule) {
		return exit.Usagef("--rule %q: want one of %s", rule, strings.Join(curate.RuleNames(), ", "))
	}
	own := map[string][]string{curate.AIMBench: {"top", "normalise"}, curate.AIM40k: {"clip-i", "per-emotion"}}
	for of, flags := range own {
		for _, name := range flags {
			if of != rule && c.Flags().Changed(name) {
				return exit.Usagef("--%s requires --rule %s", name, of)
			}
		}
	}
	return nil
}

func selectTriplets(c *cobra.Command, f *scorerFlags, in, out string, s curate.TripletSelection, copied bool) error {
	if info, err := os.Stat(in); err == nil && info.IsDir() {
		in = filepath.Join(in, "metadata.jsonl")
	}
	t, err := data.OpenTable(in, data.WithColumns(curate.TripletColumns))
	if err != nil {
		return exit.Usage(err)
	}
	defer t.Close()
	scores, err := rateRows(c, f, t)
	if err != nil {
		return err
	}
	r, err := s.Write(t, scores, out, copied)
	if err != nil {
		return err
	}
	v := map[string]any{"out": out, "rows": r.Rows, "chosen": r.Chosen, "dropped": r.Dropped}
	if s.Rule != "" {
		v["rule"] = s.Rule
	}
	each := fmt.Sprintf("%d of each emotion", r.Chosen/len(curate.Emotions))
	if s.Rule == curate.AIMBench {
		over := "source"
		if s.OverTable {
			over = "table"
		}
		v["sources"], v["normalise"] = r.Sources, over
		each = fmt.Sprintf("the best of %d sources, values normalised over each %s", r.Sources, over)
	}
	return cli.Print(c, f.result(v), func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d triplets chosen, %s, in %s\n", r.Chosen, r.Rows, each, out)
		f.printUnread(w)
	})
}
