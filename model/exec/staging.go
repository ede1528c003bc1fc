package exec

import (
	"errors"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/model/batch"
	"assay/model/nn"
	"assay/ort"
)

// staging keeps the memory that batches are put together in from run to run. Features of a batch take 80 MB: the first
// touch of new memory would cost more than the copy, and page-locked memory is slow to make.
type staging struct {
	net *Network

	mu     sync.Mutex
	free   []*ort.HostBuffer // by size
	closed bool
}

// spare is the number of free buffers that are kept: runs beside each other take one each.
const spare = 2

// take returns memory for n numbers.
func (s *staging) take(n int) *ort.HostBuffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.free {
		if len(b.Values()) >= n {
			s.free = slices.Delete(s.free, i, i+1)
			return b
		}
	}
	return ort.NewHostBuffer(s.net.RunsOn(), n+n/8)
}

// give takes memory back. Of too many the smallest goes.
func (s *staging) give(b *ort.HostBuffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // while the run was going on
		b.Close()
		return
	}
	at, _ := slices.BinarySearchFunc(s.free, len(b.Values()), func(a *ort.HostBuffer, n int) int {
		return len(a.Values()) - n
	})
	if s.free = slices.Insert(s.free, at, b); len(s.free) > spare {
		s.free[0].Close() // nothing is lost
		s.free = slices.Delete(s.free, 0, 1)
	}
}

func (s *staging) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.free {
		errs = append(errs, b.Close())
	}
	s.free, s.closed = nil, true
	return errors.Join(errs...)
}

// VisionFeeds is what a packed batch feeds a graph about its pictures: pixels where the tower is in the graph, else
// features. done is to be called behind the run.
func (s *Sessions) VisionFeeds(p *batch.Inputs) (feeds map[string]*tensor.Dense, done func(), err error) {
	if s.net.VisionTrained() {
		feeds, err = s.net.Backbone.Feeds(p.Pictures)
		return feeds, func() {}, err
	}
	first, n := make([]int, len(p.Pictures)), 0
	for i, q := range p.Pictures {
		first[i], n = n, n+len(q.Features)
	}
	b := s.staging.take(n)
	all := b.Values()[:n]
	workers.Do(len(p.Pictures), func(i int) { copy(all[first[i]:], p.Pictures[i].Features) })
	return features(all, s.net), func() { s.staging.give(b) }, nil
}

// VisionShapes is VisionFeeds for a plan, which reads no values.
func (s *Sessions) VisionShapes(p *batch.Inputs) (map[string]*tensor.Dense, error) {
	if s.net.VisionTrained() && len(p.Pictures) > 0 {
		return s.net.Backbone.Feeds(p.Pictures)
	}
	n := 0
	for _, q := range p.Pictures {
		n += len(q.Features)
	}
	return features(make([]float32, max(n, s.net.Backbone.Decoder().FeatureWidth())), s.net), nil
}

// ShownFeeds is VisionFeeds of a batch that may be without pictures: it has a row of zeros then.
func (s *Sessions) ShownFeeds(p *batch.Inputs) (feeds map[string]*tensor.Dense, done func(), err error) {
	if len(p.Pictures) > 0 {
		return s.VisionFeeds(p)
	}
	return features(make([]float32, s.net.Backbone.Decoder().FeatureWidth()), s.net), func() {}, nil
}

func features(all []float32, n *Network) map[string]*tensor.Dense {
	width := n.Backbone.Decoder().FeatureWidth()
	t := tensor.New(tensor.WithShape(len(all)/width, width), tensor.WithBacking(all))
	return map[string]*tensor.Dense{nn.InFeatures: t}
}
