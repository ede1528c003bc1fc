package main

import (
	"encoding/json"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/internal/workers"
	"assay/lab/dialogue"
	"assay/model"
)

func init() { app.Register(newJudgeCommand) }

func newJudgeCommand() *cobra.Command {
	var backbone, in, out string
	c := &cobra.Command{
		Use:   "judge --backbone DIR --in TABLE --out FILE",
		Short: "Score edits by the probability that a backbone says yes, before any scorer is trained",
		Example: `  build/lab/pretrain judge --backbone backbones/tiny --in build/exam/edits.jsonl --out yes.jsonl
  build/lab/miniature evaluate --truth build/exam/truth.jsonl --scores yes.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return judgeTable(c, backbone, in, out) },
	}
	c.Flags().StringVar(&backbone, "backbone", "backbones/tiny", "checkpoint")
	c.Flags().StringVar(&in, "in", "", "table with source, edit and instruction")
	c.Flags().StringVar(&out, "out", "", "JSONL file to write: id and score01")
	c.MarkFlagRequired("in")
	c.MarkFlagRequired("out")
	return c
}

func judgeTable(c *cobra.Command, backbone, in, out string) error {
	t, err := data.OpenTable(in)
	if err != nil {
		return err
	}
	defer t.Close()
	tuner, err := dialogue.New(backbone, model.Frames, []int{64, 64}, model.Options{Threads: runtime.NumCPU()})
	if err != nil {
		return err
	}
	defer tuner.Close()
	bar := cli.NewProgress(c, "judging", int64(t.Len()), "edits")
	defer bar.Close()
	const batch = 64
	return atomicfile.Write(out, func(w io.Writer) error {
		lines := json.NewEncoder(w)
		for lo := 0; lo < t.Len(); lo += batch {
			if err := c.Context().Err(); err != nil {
				return err
			}
			rows := make([]data.Row, min(batch, t.Len()-lo))
			samples := make([]*dialogue.Sample, len(rows))
			for i := range rows {
				if rows[i], err = t.Read(lo + i); err != nil {
					return err
				}
			}
			err := workers.Each(len(rows), runtime.NumCPU(), func(i int) (err error) {
				samples[i], err = readAsked(tuner, t.Folder(), &rows[i])
				return err
			})
			if err != nil {
				return err
			}
			scores, err := judge(c.Context(), tuner, samples)
			if err != nil {
				return err
			}
			for i, s := range scores {
				if err := lines.Encode(map[string]any{"id": rows[i].ID, "score01": s}); err != nil {
					return err
				}
			}
			bar.Add(int64(len(rows)), "")
		}
		return nil
	})
}

func readAsked(t *dialogue.Tuner, folder string, row *data.Row) (*dialogue.Sample, error) {
	var pictures [2]*data.Picture
	for i, p := range []data.Image{row.Source, row.Edit} {
		var err error
		if pictures[i], err = p.Open(folder, data.Limits{}); err != nil {
			return nil, fmt.Errorf("%s: %w", row.ID, err)
		}
	}
	return t.Prepare(asked(pictures[0], pictures[1], row.Instruction))
}
