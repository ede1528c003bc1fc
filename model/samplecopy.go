package model

// Copy returns a sample that can be scored at the same time as this one: what scoring writes is its own, pixels are
// shared.
func (s *Sample) Copy() *Sample {
	c := *s
	c.Pictures = make([]*Picture, len(s.Pictures))
	for i, p := range s.Pictures {
		own := *p
		c.Pictures[i] = &own
	}
	c.rest, c.choices = copySamples(s.rest), copySamples(s.choices)
	return &c
}

func copySamples(all []*Sample) (out []*Sample) {
	for _, s := range all {
		out = append(out, s.Copy())
	}
	return out
}
