package batch

import "assay/model/nn"

// fillSegments writes which rows attend to which, for all rows and for the selected ones. A branch attends to the rows
// of its prefix, then to its own. The prefixes come first.
func (o Packer) fillSegments(p *Inputs, spans []Span) {
	var all, selected nn.SegmentTable
	var prefixes []int // first rows
	row, query := 0, 0
	for i := range spans {
		s := &spans[i]
		n := s.rows()
		if s.IsPrefix {
			prefixes = append(prefixes, row)
		}
		if s.prefix > 0 {
			prefix := prefixes[s.prefix-1]
			all.Add(row, n, prefix, s.From, s.From)
			selected.Add(query, s.Selected, prefix, s.From, s.First)
		}
		all.Add(row, n, row, n, 0)
		selected.Add(query, s.Selected, row, n, s.First-s.From)
		row, query = row+n, query+s.Selected
	}
	p.Feeds[nn.InSegments] = all.Tensor()
	if !(o.Loss && o.All) {
		p.Feeds[nn.InSelectSegments] = selected.Tensor()
	}
}
