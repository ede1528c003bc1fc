package curate

import (
	"context"
	"fmt"

	"assay/data"
	"assay/heuristics"
	"assay/internal/scoring"
)

// ImageEncoder embeds pictures: CLIP, for CLIP-I between edit and source.
type ImageEncoder interface {
	Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error)
}

// Outputs are statistics of the outputs of one checkpoint: a column for each.
type Outputs struct {
	Failed int    // rows that could not be scored or read
	Reason string // why the first of them could not

	names  []string // of the facts, in order
	values map[string][]float64
	rows   []input       // of each output
	inputs map[input]int // number of outputs by input
}

// input is what an output was made from.
type input struct {
	sources     string // digests of their pixels
	instruction string
}

// Measure measures the edits of a scored table, compared with their first sources. Without an encoder there is no
// CLIP-I, and without numbers of a held-out judge (held is nil) no held_out. A row that cannot be read counts as
// failed; if all fail, the first reason is the error.
func Measure(ctx context.Context, t *data.Table, scores scoring.Scores, held *scoring.Scores, encoder ImageEncoder) (
	*Outputs, error) {
	o := &Outputs{values: map[string][]float64{}, inputs: map[input]int{}}
	for i := range t.Len() {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		row, err := t.Read(i)
		if err == nil {
			var judged []fact
			if judged, err = judgedRow(i, scores, held); err == nil {
				err = o.measure(ctx, t.Folder(), row, judged, encoder)
			}
			if err != nil {
				err = t.At(i, err)
			}
		}
		if err != nil {
			if o.Failed++; o.Failed == 1 {
				o.Reason = err.Error()
			}
		}
	}
	if t.Len() == 0 {
		return nil, fmt.Errorf("%s has no rows", t.Path())
	}
	if len(o.names) == 0 {
		return nil, fmt.Errorf("none of %d rows could be scored and read; the first: %s", t.Len(), o.Reason)
	}
	return o, nil
}

func (o *Outputs) add(name string, v float64) {
	if _, ok := o.values[name]; !ok {
		o.names = append(o.names, name)
	}
	o.values[name] = append(o.values[name], v)
}

// judgedRow returns the judges' numbers for a row.
func judgedRow(i int, scores scoring.Scores, held *scoring.Scores) ([]fact, error) {
	if err := scores.Err(i); err != nil {
		return nil, err
	}
	score := scores.Lines[i].Value
	out := []fact{{"score", score.Value}}
	if held != nil {
		if err := held.Err(i); err != nil {
			return nil, fmt.Errorf("held-out judge: %w", err)
		}
		out = append(out, fact{heldOut, held.Lines[i].Value.Value})
	}
	return out, nil
}

func (o *Outputs) measure(ctx context.Context, folder string, row data.Row, judged []fact,
	encoder ImageEncoder) error {
	source, err := row.Source.Open(folder, data.Limits{})
	if err != nil {
		return fmt.Errorf("source: %w", err)
	}
	edit, err := row.Edit.Open(folder, data.Limits{})
	if err != nil {
		return fmt.Errorf("edit: %w", err)
	}
	clipI := 0.0
	if encoder != nil {
		e, err := encoder.Images(ctx, []*data.Picture{source, edit})
		if err != nil {
			return err
		}
		clipI = heuristics.Cosine(e[0], e[1])
	}
	digest := source.Digest()
	sources := string(digest[:])
	for _, m := range row.References {
		p, err := m.Open(folder, data.Limits{})
		if err != nil {
			return fmt.Errorf("sources: %w", err)
		}
		digest := p.Digest()
		sources += string(digest[:])
	}
	in := input{sources, row.Instruction}
	o.rows = append(o.rows, in)
	o.inputs[in]++
	for _, f := range judged {
		o.add(f.name, f.value)
	}
	if encoder != nil {
		o.add("clip_i", clipI)
	}
	for _, f := range measureEdit(source, edit) {
		o.add(f.name, f.value)
	}
	return nil
}

// Drift compares the outputs of two checkpoints.
type Drift struct {
	Facts        []FactDrift `json:"facts"` // the score first
	FailedAfter  int         `json:"failed_after"`
	FailedBefore int         `json:"failed_before"`
	RowsAfter    int         `json:"rows_after"`
	RowsBefore   int         `json:"rows_before"`
	Warnings     []string    `json:"warnings"`

	Confirmation *Confirmation `json:"confirmation,omitempty"` // nil: there is no held-out judge
}

// CompareOutputs compares the outputs of two checkpoints. With a held-out judge, it raises an alarm if that judge
// gains less than the wanted share of its expected gain; without an alarm there are then no warnings about facts.
func CompareOutputs(before, after *Outputs, wanted float64) (*Drift, error) {
	d := &Drift{
		RowsBefore:   len(before.values["score"]),
		RowsAfter:    len(after.values["score"]),
		FailedBefore: before.Failed,
		FailedAfter:  after.Failed,
	}
	for _, name := range before.names {
		d.Facts = append(d.Facts, compare(name, before.values[name], after.values[name], after.values["score"]))
	}
	if own := alone(before, after) + alone(after, before); own > 0 {
		d.Warnings = append(d.Warnings, fmt.Sprintf("%d of %d outputs have a source and an instruction that the other "+
			"table does not have as often. The means are not over the same inputs", own, d.RowsBefore+d.RowsAfter))
	}
	if d.RowsBefore == 1 {
		d.Warnings = append(d.Warnings, "before there is only one output, so no standard deviation: shifts are undefined")
	}
	if before.values[heldOut] != nil {
		var err error
		if d.Confirmation, err = confirm(before, after, wanted); err != nil {
			return nil, err
		}
		if !d.Confirmation.Alarm {
			return d, nil
		}
	}
	if d.RowsBefore > 1 {
		d.Warnings = append(d.Warnings, warnings(d.Facts[0], d.Facts[1:])...)
	}
	return d, nil
}

// alone counts outputs whose inputs occur less often in other.
func alone(o, other *Outputs) (n int) {
	for in, times := range o.inputs {
		n += max(0, times-other.inputs[in])
	}
	return n
}
