package labeling

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"

	"assay/data"
	"assay/heuristics"
	"assay/internal/atomicfile"
)

// write labels the rows that stay, and writes the table and the votes.
func (m *merger) write(ctx context.Context) error {
	err := data.WriteTable(filepath.Join(m.job.Config.Out, TableFile), func(yield func(data.Row, error) bool) {
		for r, err := range m.kept(ctx) {
			if err != nil {
				yield(data.Row{}, err)
				return
			}
			label, rule := m.labels.label(r)
			became := state{class: stateLabelled}
			if label == nil {
				became = state{stateUnlabelled, m.labels.Unlabelled(r.Candidate)}
			}
			m.log.became(r, became)
			drop := label == nil && m.job.Config.Unlabelled == "drop"
			split := m.splits[m.outcomes[r.number].scene]
			m.log.count(r, label, rule, drop, split)
			if r.Kind == heuristics.Output && r.Chain == "" && r.ClipD.Unknown() && m.labels.PromptGuided(r.Editor) {
				m.log.unmeasured++
			}
			if drop {
				m.votes.rename(r.ID, "")
			} else if !yield(m.tableRow(r, label, rule, split)) {
				return
			}
		}
	})
	if err != nil {
		return err
	}
	return m.preferences(ctx)
}

// allGiven is the warning that thresholds are off because every output came with a label.
const allGiven = "every output came with its label: the thresholds that are percentiles of the sources' similarities " +
	"are not needed, and are off"

// labels computes the labels of rows, after the similarities of all sources are known.
type labels struct {
	rules        heuristics.Rules
	chains       heuristics.Chains
	clipI, dinoI []float64 // of the sources shown as results
	unlabelled   int       // outputs that came without a label
	*heuristics.Labeler
	allGiven bool // every output came with its label, and a threshold that cannot be computed is off
}

// note collects the values that the thresholds are computed from.
func (l *labels) note(r *row) {
	if r.Kind == heuristics.Output && r.Given == nil {
		l.unlabelled++
	}
	if r.Kind == heuristics.Source && r.Chain == "" {
		if x, ok := r.ClipI.Value(); ok {
			l.clipI = append(l.clipI, x)
		}
		if x, ok := r.DinoI.Value(); ok {
			l.dinoI = append(l.dinoI, x)
		}
	}
}

// open computes the thresholds.
func (l *labels) open() (err error) {
	l.Labeler, err = l.rules.Labeler(l.clipI, l.dinoI)
	given, ok := l.rules.AllGiven()
	if l.allGiven = err != nil && ok && l.unlabelled == 0; l.allGiven {
		l.Labeler, err = given.Labeler(nil, nil)
	}
	return err
}

// label returns the label of a row and the rule that set it; nil if no rule applies.
func (l *labels) label(r *row) (label *float64, rule string) {
	if r.Chain == "" {
		return l.Label(r.Candidate)
	}
	x := r.Label
	switch r.Chain { // not part of the digest of parts, so that they can be changed
	case heuristics.ChainForeign:
		x = l.chains.ForeignLabel
	case heuristics.ChainOverEdited:
		x = l.chains.OverEditedLabel
	}
	return &x, r.Chain
}

func (m *merger) tableRow(r *row, label *float64, rule, split string) (row data.Row, err error) {
	row = data.Row{
		ID:          r.ID,
		Group:       r.group(),
		Instruction: r.Instruction,
		Label:       label,
		Why:         rule,
		Method:      r.method(),
		ClipD:       r.ClipD.Cell(),
		ClipI:       r.ClipI.Cell(),
		DinoI:       r.DinoI.Cell(),
		Split:       split,
		Dataset:     m.job.plan.Sources[r.source].Name,
		Profile:     m.log.report.Profile,
	}
	if r.By != "" {
		row.Profile += similaritiesOf + r.By
	}
	if row.Source, err = m.image(r.Source); err != nil {
		return row, err
	}
	if row.Edit, err = m.image(r.Edit); err == nil && r.Target != nil {
		row.Target, err = m.image(r.Target)
	}
	return row, err
}

// image returns a picture as the table stores it.
func (m *merger) image(p *picture) (data.Image, error) {
	if m.job.Config.Pictures == PicturesFiles {
		return data.Image{Path: p.Path}, nil
	}
	raw, err := os.ReadFile(filepath.Join(m.job.Config.Out, filepath.FromSlash(p.Path)))
	return data.Image{Path: filepath.Base(p.Path), Bytes: raw}, err
}

// preferences writes the votes whose two rows are in the table, by their ids.
func (m *merger) preferences(ctx context.Context) error {
	path := filepath.Join(m.job.Config.Out, PreferencesFile)
	n := 0
	err := atomicfile.Write(path, func(w io.Writer) error {
		to := json.NewEncoder(w)
		for r, err := range m.job.rows(ctx) {
			if err != nil {
				return err
			}
			if r.Vote == nil {
				continue
			}
			v := *r.Vote
			if v.Left, v.Right = m.votes.standsFor(v.Left), m.votes.standsFor(v.Right); v.Left == "" || v.Right == "" {
				continue
			}
			n++
			if err := to.Encode(v); err != nil {
				return err
			}
		}
		return nil
	})
	m.log.report.Preferences = n
	if err == nil && n == 0 {
		err = os.Remove(path)
	}
	return err
}
