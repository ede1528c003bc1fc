package protocol

import "slices"

// Sources are the units of resampling of data whose samples of one source are not independent.
type Sources struct {
	Samples [][]int // of each source, in the order of the data
	unit    map[string]int
}

// Add adds a sample of the source with that name; "" is a source of its own.
func (s *Sources) Add(name string, sample int) {
	u, ok := s.unit[name]
	if !ok {
		u, s.Samples = len(s.Samples), append(s.Samples, nil)
	}
	s.Samples[u] = append(s.Samples[u], sample)
	if name == "" {
		return
	}
	if s.unit == nil {
		s.unit = map[string]int{}
	}
	s.unit[name] = u
}

// Of returns the samples of sources, in the order of the data.
func (s *Sources) Of(units []int) (samples []int) {
	for _, u := range units {
		samples = append(samples, s.Samples[u]...)
	}
	slices.Sort(samples)
	return samples
}
