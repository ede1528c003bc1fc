package main

import (
	"fmt"
	"io"
	"path/filepath"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/stats"
)

// shuffle writes a table's rows with instructions permuted among groups: all outputs of a task keep their pictures
// and get the instruction of another task. It returns the number of tasks.
func shuffle(in, out string, seed uint64) (int, error) {
	if filepath.Dir(in) != filepath.Dir(out) {
		return 0, fmt.Errorf("%s: picture paths are relative to the table's folder: write into %s", out, filepath.Dir(in))
	}
	t, err := data.OpenTable(in, data.WithRequired("group", "instruction"), data.WithOnly("group", "instruction"))
	if err != nil {
		return 0, err
	}
	defer t.Close()
	instructions := map[string]string{}
	var groups []string
	for row, err := range t.All() {
		if err != nil {
			return 0, err
		}
		if _, ok := instructions[row.Group]; !ok {
			groups = append(groups, row.Group)
		}
		instructions[row.Group] = row.Instruction
	}
	if len(groups) < 2 {
		return 0, fmt.Errorf("%s: %d tasks: want at least two to shuffle instructions", in, len(groups))
	}
	// Sattolo's algorithm: a uniformly random cycle through all groups, so no group keeps its own instruction.
	rng := stats.NewRand(seed)
	from := stats.UpTo(len(groups))
	for i := len(from) - 1; i > 0; i-- {
		j := rng.IntN(i)
		from[i], from[j] = from[j], from[i]
	}
	other := map[string]string{}
	for i, g := range groups {
		other[g] = instructions[groups[from[i]]]
	}
	return len(groups), atomicfile.Write(out, func(w io.Writer) error {
		tw, err := t.NewWriter(w, data.FormatJSONL)
		if err != nil {
			return err
		}
		for rec, err := range t.Records() {
			if err != nil {
				return err
			}
			row, err := t.Row(rec)
			if err != nil {
				return err
			}
			rec.Set("instruction", other[row.Group])
			if err := tw.Write(rec); err != nil {
				return err
			}
		}
		return tw.Close()
	})
}
