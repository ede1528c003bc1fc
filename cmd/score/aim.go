package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/reward"
	"assay/scoring"
)

func init() { register(newAIMCommand) }

func newAIMCommand() *cobra.Command {
	var f runtimeFlags
	var in, out string
	var copied bool
	s := reward.Selection{}
	c := &cobra.Command{
		Use:   "aim --in FOLDER --out DIR",
		Short: "Select triplets for affective tuning, as AIM-40k does, and write DiffSynth-Studio's metadata",
		Long: `aim reads triplets from a table, or from metadata.jsonl of a folder: input, instruction, target (the repainted picture) and
emotion, with the judges' values as columns: clip_i (original against repainted picture), vie (or sc and pq), clip_t,
aesthetic. It keeps those with clip_i above the threshold, ranks them by 0.5 VIE + 0.3 CLIP-T + 0.2 aesthetic after min-max
normalisation, keeps the top of each target, balances the eight emotions, and writes a folder for DiffSynth-Studio with the
score of each triplet (--scorer, or a column score01). dropped.jsonl says why each of the others was left out.`,
		Example: `  score aim --in triplets --scorer runs/adiee/scorer --out aim --top 5`,
		RunE: func(c *cobra.Command, _ []string) error {
			if in == "" || out == "" {
				return cli.Usagef("--in and --out are needed: a folder or table of triplets, and a folder to make")
			}
			return selectTriplets(c, &f, in, out, s, copied)
		},
	}
	f.add(c)
	flags := c.Flags()
	flags.StringVar(&in, "in", "", "folder with metadata.jsonl, or a table")
	flags.StringVar(&out, "out", "", "folder to make")
	flags.Float64Var(&s.ClipI, "clip-i", 0.85, "clip_i must exceed this")
	flags.IntVar(&s.Top, "top", 5, "best triplets of each target (0: all)")
	flags.IntVar(&s.PerEmotion, "per-emotion", 0, "triplets of each emotion (0: as many as the rarest has)")
	flags.BoolVar(&copied, "copy", false, "copy pictures instead of linking to them")
	return c
}

// readTriplet reads the judges' values of a row.
func readTriplet(t *data.Table, i int) (data.Row, reward.Triplet, error) {
	tr := reward.Triplet{Row: i}
	rec, err := t.Record(i)
	if err != nil {
		return data.Row{}, tr, err
	}
	row, err := t.Row(rec)
	if err != nil {
		return row, tr, err
	}
	number := func(name string) (v float64, ok bool) {
		raw, _ := rec.Get(name)
		n, e := data.Number(raw)
		if e != nil && err == nil {
			err = fmt.Errorf("column %q: %w", name, e)
		}
		if n == nil {
			return 0, false
		}
		return *n, true
	}
	var ok bool
	if tr.VIE, ok = number("vie"); !ok {
		sc, a := number("sc")
		pq, b := number("pq")
		if !a || !b {
			return row, tr, fmt.Errorf("vie is missing (or sc and pq)")
		}
		tr.VIE = (sc + pq) / 2
	}
	for name, v := range map[string]*float64{"clip_i": &tr.ClipI, "clip_t": &tr.ClipT, "aesthetic": &tr.Aesthetic} {
		if *v, ok = number(name); !ok && err == nil {
			err = fmt.Errorf("%s is missing", name)
		}
	}
	if emotion, _ := rec.Get("emotion"); err == nil {
		tr.Emotion, err = data.Text(emotion)
	}
	if tr.Target = row.Edit.Path; tr.Target == "" {
		tr.Target = string(row.Edit.Bytes)
	}
	return row, tr, err
}

func selectTriplets(c *cobra.Command, f *runtimeFlags, in, out string, s reward.Selection, copied bool) error {
	if info, err := os.Stat(in); err == nil && info.IsDir() {
		in = filepath.Join(in, "metadata.jsonl")
	}
	t, err := data.OpenTable(in, data.WithColumns(map[string]string{"source": "input", "edit": "target", "target": "original"}))
	if err != nil {
		return err
	}
	defer t.Close()
	scores, err := rateRows(c, f, t)
	if err != nil {
		return err
	}
	rows := map[int]data.Row{}
	why := map[int]string{}
	var all []reward.Triplet
	for i := range t.Len() {
		row, tr, err := readTriplet(t, i)
		if err == nil && scores[i].Error != "" {
			err = fmt.Errorf("%s", scores[i].Error)
		}
		if err != nil {
			why[i] = err.Error()
			continue
		}
		rows[i], all = row, append(all, tr)
	}
	chosen, dropped, err := s.Select(all)
	if err != nil {
		return err
	}
	for i, reason := range dropped {
		why[i] = reason
	}
	var examples []reward.Example
	err = atomicfile.WriteDir(out, func(dir string) error {
		for _, tr := range chosen {
			row, score := rows[tr.Row], 10*scores[tr.Row].Score01
			e := reward.Example{ID: row.ID, Instruction: row.Instruction, Prompt: row.Instruction, Score: score, Level: reward.Level(score)}
			name := filepath.Join("images", fmt.Sprintf("%07d", tr.Row))
			if e.Source, err = reward.Place(row.Source, t.Folder(), dir, name+"-input", copied); err != nil {
				return err
			}
			if e.Edit, err = reward.Place(row.Edit, t.Folder(), dir, name+"-target", copied); err != nil {
				return err
			}
			examples = append(examples, e)
		}
		reward.Balance(examples)
		if err := reward.Layouts["diffsynth"](dir, examples); err != nil {
			return err
		}
		left := []scoring.FailedRow{}
		for i, reason := range why {
			left = append(left, scoring.FailedRow{Row: i, ID: rows[i].ID, Error: reason})
		}
		slices.SortFunc(left, func(a, b scoring.FailedRow) int { return a.Row - b.Row })
		return writeLines(filepath.Join(dir, "dropped.jsonl"), left)
	})
	if err != nil {
		return err
	}
	return cli.Print(c, map[string]any{"out": out, "rows": t.Len(), "chosen": len(chosen), "dropped": len(why)}, func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d triplets chosen, %d of each emotion, in %s\n", len(chosen), t.Len(), len(chosen)/len(reward.Emotions), out)
	})
}
