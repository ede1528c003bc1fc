package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/curate"
	"assay/data"
	"assay/internal/cli"
)

func init() { register(newAIMCommand) }

func newAIMCommand() *cobra.Command {
	var f scorerFlags
	var in, out string
	var copied bool
	s := curate.Selection{}
	c := &cobra.Command{
		Use:   "aim --in FOLDER --out DIR",
		Short: "Select triplets for affective tuning, as AIM-40k does, and write DiffSynth-Studio's metadata",
		Long: `aim reads triplets from a table, or from metadata.jsonl of a folder: input, instruction, target (the
repainted picture) and emotion. The judges' values are columns: clip_i (original against repainted picture), vie (or
sc and pq), clip_t, aesthetic. It keeps those with clip_i above the threshold, and ranks them by 0.5 VIE + 0.3
CLIP-T + 0.2 aesthetic after min-max normalisation. It keeps the top of each target and balances the eight emotions.
It writes a folder for DiffSynth-Studio with the score of each triplet (--scorer, or a column score01).
dropped.jsonl says why each of the others was left out.`,
		Example: `  score aim --in triplets --scorer runs/adiee/scorer --out aim --top 5`,
		RunE: func(c *cobra.Command, _ []string) error {
			if in == "" || out == "" {
				return cli.Usagef("--in and --out are needed: a folder or table of triplets, and a folder to make")
			}
			if s.Top < 0 || s.PerEmotion < 0 || math.IsNaN(s.ClipI) {
				return cli.Usagef("--top and --per-emotion are 0 or more, and --clip-i is a number")
			}
			return selectTriplets(c, &f, in, out, s, copied)
		},
	}
	f.add(c)
	cli.Needs(c, "scorer|judge", "device", "threads")
	flags := c.Flags()
	flags.StringVar(&in, "in", "", "folder with metadata.jsonl, or a table")
	flags.StringVar(&out, "out", "", "folder to make")
	cli.Makes(c, "out")
	flags.Float64Var(&s.ClipI, "clip-i", 0.85, "clip_i must exceed this")
	flags.IntVar(&s.Top, "top", 5, "best triplets of each target (0: all)")
	flags.IntVar(&s.PerEmotion, "per-emotion", 0, "triplets of each emotion (0: as many as the rarest has)")
	flags.BoolVar(&copied, "copy", false, "copy pictures instead of linking to them")
	return c
}

func selectTriplets(c *cobra.Command, f *scorerFlags, in, out string, s curate.Selection, copied bool) error {
	if info, err := os.Stat(in); err == nil && info.IsDir() {
		in = filepath.Join(in, "metadata.jsonl")
	}
	t, err := data.OpenTable(in, data.WithColumns(curate.TripletColumns))
	if err != nil {
		return cli.Usage(err)
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
	return cli.Print(c, f.result(v), func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d triplets chosen, %d of each emotion, in %s\n", r.Chosen, r.Rows,
			r.Chosen/len(curate.Emotions), out)
		f.printUnread(w)
	})
}
