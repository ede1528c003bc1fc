package readers

import (
	"cmp"
	"fmt"
	"slices"

	"assay/heuristics"
)

func init() {
	register(Layout{
		Name:  "emu-edit",
		Takes: []string{"tasks"},
		About: "Emu-Edit test sets: instruction, image, task, input_caption, output_caption; generations add " +
			"edited_image, model",
		Fields: map[string]string{"id": "hash", "number": "idx", "source": "image", "edit": "edited_image", "method": "model",
			"instruction": "instruction", "task": "task", "split": "split", "source_caption": "input_caption",
			"target_caption": "output_caption"},
		Needed: []string{"source", "instruction"},
		open:   openTabular(openRows, func(t tabular) Reader { return &emuEdit{t} }),
	})
}

// emuEdit reads one row per instruction, or per instruction and model. There are no targets; CLIP-D is computed from
// the captions.
type emuEdit struct{ tabular }

func (r *emuEdit) Read(i int) (*Sample, error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return nil, err
	}
	if task := c.text("task"); len(r.o.Tasks) > 0 && !slices.Contains(r.o.Tasks, task) {
		return nil, Left("task " + task)
	}
	c.need("source", "instruction")
	s := &Sample{
		ID:            fmt.Sprintf("%s-%06d", cmp.Or(c.text("id"), c.text("number"), "row"), i),
		Split:         c.text("split"),
		Source:        c.picture("source"),
		Instruction:   c.text("instruction"),
		SourceCaption: c.text("source_caption"),
		TargetCaption: c.text("target_caption"),
	}
	if edit := c.picture("edit"); !edit.IsZero() {
		s.Outputs = []Output{{Picture: edit, Candidate: heuristics.Candidate{Editor: cmp.Or(c.text("method"), r.o.Editor)}}}
	}
	return s, c.err()
}
