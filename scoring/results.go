package scoring

import "assay/model"

// results are rows that are done, by their index in the table. Scores is one; plain takes less memory.
type results interface {
	has(row int) bool
	get(row int) Row
	put(Row)
	count() int
	begin(r model.ScoreRange) // sets the range of all rows
}

func (s Scores) has(row int) bool { _, ok := s[row]; return ok }
func (s Scores) get(row int) Row  { return s[row] }
func (s Scores) put(r Row)        { s[r.Row] = r }
func (s Scores) count() int       { return len(s) }

func (s Scores) begin(r model.ScoreRange) {
	for i, row := range s {
		row.Range = r
		s[i] = row
	}
}

// plain are rows of which most are a score alone, in 9 bytes each: of a million rows the [Scores] take 300 MB. What the
// journal keeps of a row besides is not there.
type plain struct {
	scores []float64
	state  []rowState
	others Scores // rows that have more than a score
	scale  model.ScoreRange
	done   int
}

type rowState uint8

const (
	notDone rowState = iota
	bounded
	unbounded
	other
)

func newPlain(rows int) *plain {
	return &plain{scores: make([]float64, rows), state: make([]rowState, rows), others: Scores{}}
}

func (p *plain) has(row int) bool { return p.state[row] != notDone }
func (p *plain) count() int       { return p.done }

func (p *plain) get(row int) Row {
	if p.state[row] == other {
		return p.others[row]
	}
	return Row{Row: row, Score01: p.scores[row], Unbounded: p.state[row] == unbounded, Range: p.scale}
}

func (p *plain) put(r Row) {
	if p.state[r.Row] == notDone {
		p.done++
	}
	switch {
	case r.Error != "" || r.Unreadable || r.passing || r.Sigma01 != 0 || len(r.Dimensions) > 0:
		p.state[r.Row] = other
		p.others.put(r)
		return
	case r.Unbounded:
		p.state[r.Row] = unbounded
	default:
		p.state[r.Row] = bounded
	}
	p.scores[r.Row] = r.Score01
}

func (p *plain) begin(r model.ScoreRange) {
	p.scale = r
	p.others.begin(r)
}
