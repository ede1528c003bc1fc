package dataset

// LabelCounts counts labels 0, between, 0.5, between, 1.
func (s *Samples) LabelCounts() (n [5]int) {
	for _, r := range s.Rows {
		switch {
		case r.Bad != "" || !r.labelled():
		case r.Label == 0:
			n[0]++
		case r.Label < 0.5:
			n[1]++
		case r.Label == 0.5:
			n[2]++
		case r.Label < 1:
			n[3]++
		default:
			n[4]++
		}
	}
	return n
}
