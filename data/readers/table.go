package readers

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
)

func init() {
	register(Layout{
		Name:  "table",
		About: "any Parquet, JSON, CSV or arrow table with a column map; one row per output, or per source and target",
		Fields: map[string]string{"id": "id", "session": "session", "split": "split", "source": "source", "target": "target", "edit": "edit",
			"method": "method", "instruction": "instruction", "source_caption": "source_caption", "target_caption": "target_caption",
			"label": "label", "clip_d": "clip_d", "clip_i": "clip_i", "dino_i": "dino_i"},
		open: openTable("source", "instruction"),
	})
	register(Layout{
		Name:   "triplets",
		About:  "benchmarks with a source, an instruction and a target, by a column map",
		Fields: map[string]string{"id": "id", "session": "session", "split": "split", "source": "source", "target": "target", "instruction": "instruction"},
		open:   openTable("source", "instruction", "target"),
	})
	register(Layout{
		Name:   "aim-bench",
		About:  "AIM-Bench: Instructions.json beside the pictures",
		Fields: map[string]string{"source": "original_image", "target": "edited_image", "instruction": "edit_prompt"},
		open: func(ctx context.Context, o Options) (Reader, error) {
			if info, err := os.Stat(o.Path); err == nil && info.IsDir() {
				o.Path = filepath.Join(o.Path, "Instructions.json")
			}
			return openTable("source", "instruction", "target")(ctx, o)
		},
	})
}

// table reads rows of any table by a column map. Needed names the fields that no row can do without.
type table struct {
	rows   rows
	o      Options
	needed []string
}

func openTable(needed ...string) func(context.Context, Options) (Reader, error) {
	return func(_ context.Context, o Options) (Reader, error) {
		r, err := openRows(o.Path)
		if err != nil {
			return nil, err
		}
		return &table{r, o, needed}, nil
	}
}

func (r *table) Len() int     { return r.rows.len() }
func (r *table) Close() error { return r.rows.close() }

func (r *table) Read(i int) (*Sample, error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return nil, err
	}
	c.need(r.needed...)
	s := &Sample{ID: fmt.Sprintf("%06d", i), Source: c.picture("source"), Target: c.picture("target"), Instruction: c.text("instruction")}
	if _, all := r.o.Columns["id"]; all {
		s.ID, s.Session, s.Split = orElse(c.text("id"), s.ID), c.text("session"), c.text("split")
	}
	if _, outputs := r.o.Columns["edit"]; outputs {
		s.SourceCaption, s.TargetCaption = c.text("source_caption"), c.text("target_caption")
		out := Output{Editor: orElse(c.text("method"), r.o.Editor), Picture: c.picture("edit"), Label: c.label("label", 0, 1),
			ClipD: c.number("clip_d"), ClipI: c.number("clip_i"), DinoI: c.number("dino_i")}
		if !out.Picture.IsZero() {
			s.Outputs = []Output{out}
		}
	}
	return s, c.err()
}
