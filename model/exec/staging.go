package exec

import (
	"errors"
	"slices"
	"sync"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
	"assay/ort"
)

// staging reuses the memory in which batches are assembled from run to run. Pixels of a batch take 190 MB, features 80:
// the first touch of new memory would cost more than the copy, and pinned memory is slow to allocate.
type staging struct {
	net *Network

	mu     sync.Mutex
	free   []*ort.HostBuffer // by size
	ahead  *staged           // of the next run; nil: none
	closed bool
}

// staged is what join returns, for these pictures.
type staged struct {
	pictures []*backbone.Picture
	all      []byte
	done     func()
}

// spare is the maximum number of free buffers: pixels and features of a run of the tower. A step reuses one of them.
const spare = 2

// take returns memory for n bytes.
func (s *staging) take(n int) *ort.HostBuffer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, b := range s.free {
		if len(b.Bytes()) >= n {
			s.free = slices.Delete(s.free, i, i+1)
			return b
		}
	}
	return ort.NewHostBuffer(s.net.RunsOn(), (n+n/8+3)/4)
}

// give returns memory for reuse. If there are too many buffers, the smallest is freed.
func (s *staging) give(b *ort.HostBuffer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed { // during the run
		b.Close()
		return
	}
	at, _ := slices.BinarySearchFunc(s.free, len(b.Bytes()), func(a *ort.HostBuffer, n int) int {
		return len(a.Bytes()) - n
	})
	if s.free = slices.Insert(s.free, at, b); len(s.free) > spare {
		s.free[0].Close() // nothing is lost
		s.free = slices.Delete(s.free, 0, 1)
	}
}

// join copies bytes of each picture, one after another. done must be called after the run.
func (s *staging) join(pictures []*backbone.Picture, of func(q *backbone.Picture) []byte) (all []byte, done func()) {
	first, n := make([]int, len(pictures)), 0
	for i, q := range pictures {
		first[i], n = n, n+len(of(q))
	}
	b := s.take(n)
	all = b.Bytes()[:n]
	workers.Do(len(pictures), func(i int) { copy(all[first[i]:], of(pictures[i])) })
	return all, func() { s.give(b) }
}

// stage keeps what was joined for the next run, and gives back what was kept before; nil: nothing.
func (s *staging) stage(next *staged) {
	s.mu.Lock()
	last := s.ahead
	s.ahead = next
	s.mu.Unlock()
	if last != nil {
		last.done()
	}
}

// features joins the features of pictures, unless that was done ahead.
func (s *staging) features(pictures []*backbone.Picture) (all []byte, done func()) {
	s.mu.Lock()
	next := s.ahead
	fits := next != nil && slices.Equal(next.pictures, pictures)
	if fits {
		s.ahead = nil
	}
	s.mu.Unlock()
	if fits {
		return next.all, next.done
	}
	return s.join(pictures, featuresOf)
}

func featuresOf(q *backbone.Picture) []byte { return q.Features }

func (s *staging) close() error {
	s.stage(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, b := range s.free {
		errs = append(errs, b.Close())
	}
	s.free, s.closed = nil, true
	return errors.Join(errs...)
}

// VisionFeeds returns the feeds for a packed batch's pictures: pixels if the tower is in the graph, else features. done
// must be called after the run.
func (s *Sessions) VisionFeeds(p *batch.Inputs) (feeds map[string]*tensor.Dense, done func(), err error) {
	if s.net.VisionTrained() {
		return s.PixelFeeds(p.Pictures)
	}
	all, done := s.staging.features(p.Pictures)
	return features(all, s.net), done, nil
}

// Stage joins the features of the next batch's pictures, which VisionFeeds then returns, while another run computes. It
// does nothing if some are not known yet.
func (s *Sessions) Stage(p *batch.Inputs) {
	if slices.ContainsFunc(p.Pictures, func(q *backbone.Picture) bool { return q.Features == nil }) {
		return
	}
	next := &staged{pictures: slices.Clone(p.Pictures)}
	next.all, next.done = s.staging.join(p.Pictures, featuresOf)
	s.staging.stage(next)
}

// PixelFeeds returns the vision tower's feeds for pictures. done must be called after the run.
func (s *Sessions) PixelFeeds(pictures []*backbone.Picture) (feeds map[string]*tensor.Dense, done func(), err error) {
	all, done := s.staging.join(pictures, func(q *backbone.Picture) []byte { return ort.Bytes(q.Pixels) })
	if feeds, err = s.net.Backbone.Feeds(pictures, ort.Numbers[float32](all)); err != nil {
		done()
		return nil, nil, err
	}
	return feeds, done, nil
}

// visionShapes is VisionFeeds for a plan, which does not read values.
func (s *Sessions) visionShapes(p *batch.Inputs) (map[string]*tensor.Dense, error) {
	if s.net.VisionTrained() && len(p.Pictures) > 0 {
		return s.net.Backbone.Feeds(p.Pictures, backbone.JoinPixels(p.Pictures))
	}
	n := 0
	for _, q := range p.Pictures {
		n += len(q.Features)
	}
	return features(make([]byte, max(n, s.net.FeatureSize())), s.net), nil
}

// ShownFeeds is VisionFeeds for a batch that may have no pictures: the features are then a row of zeros.
func (s *Sessions) ShownFeeds(p *batch.Inputs) (feeds map[string]*tensor.Dense, done func(), err error) {
	if len(p.Pictures) > 0 {
		return s.VisionFeeds(p)
	}
	return features(make([]byte, s.net.FeatureSize()), s.net), func() {}, nil
}

// features are the feeds of features, which share their memory.
func features(all []byte, n *Network) map[string]*tensor.Dense {
	var values any = ort.Numbers[float32](all)
	if n.Computes() != onnx.Float {
		values = ort.Numbers[uint16](all)
	}
	rows, width := len(all)/n.FeatureSize(), n.Backbone.Decoder().FeatureWidth()
	t := tensor.New(tensor.WithShape(rows, width), tensor.WithBacking(values))
	return map[string]*tensor.Dense{nn.InFeatures: t}
}
