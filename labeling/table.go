package labeling

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"

	"assay/data"
	"assay/heuristics"
	"assay/internal/atomicfile"
)

// write is the second pass: it labels the rows and writes the table and the votes.
func (m *merger) write(ctx context.Context) error {
	err := data.WriteTable(filepath.Join(m.job.Config.Out, TableFile), func(yield func(data.Row, error) bool) {
		err := m.rows(ctx, func(i int, e entry) error {
			d, labelled := m.label(e.Row)
			became := state{class: stateLabelled}
			if !labelled {
				became = state{stateUnlabelled, m.labeler.Unlabelled(e.Row.candidate())}
			}
			m.became(e, became)
			if e.Row.Kind == heuristics.Output && e.Row.Chain == "" && e.Row.ClipD.Unknown() &&
				m.labeler.PromptGuided(e.Row.Editor) {
				m.report.unmeasured++
			}
			m.report.count(e, d, labelled, m.job.plan.Sources[e.source].Name, m.splits[m.outcomes[i].scene])
			if !labelled && m.job.Config.Unlabelled == "drop" {
				m.rename(e.Row.ID, "")
				return nil
			}
			row, err := m.tableRow(i, e, d, labelled)
			if err == nil && !yield(row, nil) {
				err = errStopped
			}
			return err
		})
		if err != nil && err != errStopped {
			yield(data.Row{}, err)
		}
	})
	if err != nil {
		return err
	}
	return m.preferences(ctx)
}

var errStopped = errors.New("stopped")

func (m *merger) label(r *row) (heuristics.Decision, bool) {
	if r.Chain != "" {
		c := m.job.Config.Chains
		d := heuristics.Decision{Label: r.Label, Why: r.Chain}
		switch r.Chain { // not among what parts depend on, so that they can be changed
		case heuristics.ChainForeign:
			d.Label = c.ForeignLabel
		case heuristics.ChainOverEdited:
			d.Label = c.OverEditedLabel
		}
		return d, true
	}
	return m.labeler.Label(r.candidate())
}

// candidate is the row as rules see it.
func (r *row) candidate() heuristics.Candidate {
	return heuristics.Candidate{
		Kind:   r.Kind,
		Editor: r.Editor,
		Given:  r.Given,
		ClipD:  r.ClipD,
		ClipI:  r.ClipI,
		DinoI:  r.DinoI,
	}
}

func (m *merger) tableRow(i int, e entry, d heuristics.Decision, labelled bool) (row data.Row, err error) {
	r := e.Row
	row = data.Row{
		ID:          r.ID,
		Group:       r.group(),
		Instruction: r.Instruction,
		Why:         d.Why,
		Method:      method(r),
		ClipD:       r.ClipD.Cell(),
		ClipI:       r.ClipI.Cell(),
		DinoI:       r.DinoI.Cell(),
		Split:       m.splits[m.outcomes[i].scene],
		Dataset:     m.job.plan.Sources[e.source].Name,
		Profile:     m.report.Profile,
	}
	if r.By != "" {
		row.Profile += similaritiesOf + r.By
	}
	if labelled {
		row.Label = &d.Label
	}
	if row.Source, err = m.image(r.Source); err != nil {
		return row, err
	}
	if row.Edit, err = m.image(r.Edit); err == nil && r.Target != nil {
		row.Target, err = m.image(*r.Target)
	}
	return row, err
}

// image is a picture as the table holds it.
func (m *merger) image(p picture) (data.Image, error) {
	if m.job.Config.Pictures == PicturesFiles {
		return data.Image{Path: p.Path}, nil
	}
	raw, err := os.ReadFile(filepath.Join(m.job.Config.Out, filepath.FromSlash(p.Path)))
	return data.Image{Path: filepath.Base(p.Path), Bytes: raw}, err
}

// method is the table's name for what made the edit.
func method(r *row) string {
	switch {
	case r.Chain != "":
		return "chain"
	case r.Kind == heuristics.Source:
		return "source"
	case r.Kind == heuristics.Target, r.Kind == heuristics.Foreign:
		return "target"
	}
	return r.Editor
}

// preferences writes the votes whose two rows are in the table, by their ids.
func (m *merger) preferences(ctx context.Context) error {
	path := filepath.Join(m.job.Config.Out, PreferencesFile)
	n := 0
	err := atomicfile.Write(path, func(w io.Writer) error {
		to := json.NewEncoder(w)
		for e, err := range readParts(m.job.Config.Out, m.job.plan) {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil {
				return err
			}
			if e.Prefer == nil {
				continue
			}
			p := *e.Prefer
			if p.Left, p.Right = m.standsFor(p.Left), m.standsFor(p.Right); p.Left == "" || p.Right == "" {
				continue
			}
			n++
			if err := to.Encode(p); err != nil {
				return err
			}
		}
		return nil
	})
	m.report.Preferences = n
	if err == nil && n == 0 {
		err = os.Remove(path)
	}
	return err
}

func (m *merger) standsFor(id string) string {
	for {
		other, ok := m.renamed[id]
		if !ok {
			return id
		}
		id = other
	}
}
