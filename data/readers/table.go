package readers

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"

	"assay/heuristics"
)

// tableFields are the fields that a table of outputs may have.
var tableFields = map[string]string{"id": "id", "session": "session", "split": "split", "source": "source",
	"target": "target",
	"edit":   "edit", "method": "method", "instruction": "instruction", "source_caption": "source_caption",
	"target_caption": "target_caption", "label": "label", "clip_d": "clip_d", "clip_i": "clip_i", "dino_i": "dino_i",
	"undefined": "undefined", "profile": "profile"}

func init() {
	register(Layout{
		Name:   "table",
		About:  "any Parquet, JSON, CSV, TSV or arrow table with a column map; one row per output",
		Fields: tableFields,
		Needed: []string{"source", "instruction", "edit"},
		open:   openTable(openRows, "source", "instruction"),
	})
	register(Layout{
		Name:  "triplets",
		About: "benchmarks with a source, an instruction and a target, with a column map",
		Fields: map[string]string{"id": "id", "session": "session", "split": "split", "source": "source", "target": "target",
			"instruction": "instruction"},
		Needed: []string{"source", "instruction", "target"},
		open:   openTable(openRows, "source", "instruction", "target"),
	})
	register(Layout{
		Name:   "aim-bench",
		About:  "AIM-Bench: Instructions.json, and the pictures in benchmark/ or next to it",
		Fields: map[string]string{"source": "original_image", "target": "edited_image", "instruction": "edit_prompt"},
		Needed: []string{"source", "instruction", "target"},
		open: func(ctx context.Context, o Options) (Reader, error) {
			if info, err := os.Stat(o.Path); err == nil && info.IsDir() {
				o.Path = filepath.Join(o.Path, "Instructions.json")
			}
			if folder := filepath.Join(filepath.Dir(o.Path), "benchmark"); o.Pictures == "" && exists(folder) {
				o.Pictures = folder
			}
			return openTable(openRows, "source", "instruction", "target")(ctx, o)
		},
	})
	register(Layout{
		Name:  "instructpix2pix-hub",
		About: "InstructPix2Pix on the Hub: original_image, original_prompt, edit_prompt, edited_image, edited_prompt",
		Fields: map[string]string{"session": "original_prompt", "source": "original_image", "target": "edited_image",
			"instruction": "edit_prompt", "source_caption": "original_prompt", "target_caption": "edited_prompt"},
		Needed: []string{"source", "instruction", "target"},
		open:   openTable(openRows, "source", "instruction", "target"),
	})
	fields := maps.Clone(tableFields)
	fields["id"] = "__key__"
	register(Layout{
		Name: "webdataset",
		About: "webdataset tar files: <key>.source.png, .edit.png, .target.png, .instruction.txt, .json with any of " +
			"the other fields",
		Fields: fields,
		Needed: []string{"source", "instruction", "edit|target"},
		Many:   true,
		open:   openTable(openTars, "source", "instruction"),
	})
}

// table reads rows of any table with a column map. needed are the fields that every row must have.
type table struct {
	tabular
	needed []string
}

func openTable(open func(path string) (rows, error), needed ...string) func(context.Context, Options) (Reader, error) {
	return openTabular(open, func(t tabular) Reader { return &table{t, needed} })
}

func (r *table) Read(i int) (*Sample, error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return nil, err
	}
	c.need(r.needed...)
	s := &Sample{ID: fmt.Sprintf("%06d", i), Source: c.picture("source"), Target: c.picture("target"),
		Instruction: c.text("instruction")}
	for field, to := range map[string]*string{"id": &s.ID, "session": &s.Session, "split": &s.Split,
		"source_caption": &s.SourceCaption, "target_caption": &s.TargetCaption} {
		if _, ok := r.o.Columns[field]; ok {
			*to = cmp.Or(c.text(field), *to)
		}
	}
	if _, outputs := r.o.Columns["edit"]; outputs {
		out := Output{
			Picture: c.picture("edit"),
			Candidate: heuristics.Candidate{
				Editor: cmp.Or(c.text("method"), r.o.Editor),
				Given:  c.label("label", 0, 1),
				ClipD:  c.similarity("clip_d"),
				ClipI:  c.similarity("clip_i"),
				DinoI:  c.similarity("dino_i"),
			},
			Profile: cmp.Or(c.text("profile"), r.o.Profile),
		}
		if !out.Picture.IsZero() {
			s.Outputs = []Output{out}
		}
	}
	return s, c.err()
}
