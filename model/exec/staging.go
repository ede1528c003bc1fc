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
	room   []*ort.Memory     // of the device, free
	lent   int               // of the device, in use
	ahead  *staged           // of the next step; nil: none
	closed bool
}

// staged are the features of these pictures: feeds, or views of the device's memory.
type staged struct {
	pictures []*backbone.Picture
	feeds    map[string]*tensor.Dense
	views    map[string]*ort.View
	done     func()
}

// spare is the maximum number of free buffers: pixels and features of a run of the tower. A step reuses one of them.
const spare = 2

// rooms is the maximum number of batches with features on the device: of the step that runs, and of the next.
const rooms = 2

// slack is the size of a buffer for n bytes, in which a somewhat larger batch fits as well.
func slack[T int | int64](n T) T { return n + n/8 }

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
	return ort.NewHostBuffer(s.net.RunsOn(), (slack(n)+3)/4)
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

// takeRoom returns device memory for n bytes; an error if there is none.
func (s *staging) takeRoom(n int64) (m *ort.Memory, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent == rooms {
		return nil, errors.New("no room")
	}
	if i := len(s.room) - 1; i >= 0 {
		m, s.room = s.room[i], s.room[:i]
	}
	if m == nil || m.Bytes() < n {
		if err := m.Close(); err != nil {
			return nil, err
		}
		if m, err = ort.NewMemory(s.net.RunsOn(), slack(n)); err != nil {
			return nil, err
		}
	}
	s.lent++
	return m, nil
}

func (s *staging) giveRoom(m *ort.Memory) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lent--; s.closed {
		m.Close()
		return
	}
	s.room = append(s.room, m)
}

// upload copies joined features to the device. The copy is on CUDA's default stream, which waits for none of the
// runtime's streams, as they are cudaStreamNonBlocking: a step that runs meanwhile goes on. done must be called after
// the run that reads the view.
func (s *staging) upload(all []byte) (v *ort.View, done func(), err error) {
	m, err := s.takeRoom(int64(len(all)))
	if err != nil {
		return nil, nil, err
	}
	if err = m.WriteBytes(0, all); err == nil {
		v, err = m.View(0, s.net.Computes(), featureShape(all, s.net)...)
	}
	if err != nil {
		s.giveRoom(m)
		return nil, nil, err
	}
	return v, func() { v.Free(); s.giveRoom(m) }, nil
}

// stage keeps what is ready for the next step, and gives back what was kept before; nil: nothing.
func (s *staging) stage(next *staged) {
	s.mu.Lock()
	last := s.ahead
	if s.ahead = next; s.closed {
		last, s.ahead = next, nil
	}
	s.mu.Unlock()
	if last != nil {
		last.done()
	}
}

// ready returns what is staged for these pictures, once; nil: nothing.
func (s *staging) ready(pictures []*backbone.Picture) *staged {
	s.mu.Lock()
	defer s.mu.Unlock()
	next := s.ahead
	if next == nil || !slices.Equal(next.pictures, pictures) {
		return nil
	}
	s.ahead = nil
	return next
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
	for _, m := range s.room {
		errs = append(errs, m.Close())
	}
	s.free, s.room, s.closed = nil, nil, true
	return errors.Join(errs...)
}

// VisionFeeds returns the feeds for a packed batch's pictures: pixels if the tower is in the graph, else features. done
// must be called after the run.
func (s *Sessions) VisionFeeds(p *batch.Inputs) (feeds map[string]*tensor.Dense, done func(), err error) {
	if s.net.VisionTrained() {
		return s.PixelFeeds(p.Pictures)
	}
	all, done := s.staging.join(p.Pictures, featuresOf)
	return features(all, s.net), done, nil
}

// StepFeeds is VisionFeeds for a step, with views of what Stage has uploaded.
func (s *Sessions) StepFeeds(p *batch.Inputs) (
	feeds map[string]*tensor.Dense, views map[string]*ort.View, done func(), err error,
) {
	if next := s.staging.ready(p.Pictures); next != nil {
		return next.feeds, next.views, next.done, nil
	}
	feeds, done, err = s.VisionFeeds(p)
	return feeds, nil, done, err
}

// Stages reports whether features of the next step are uploaded while one runs.
func (n *Network) Stages() bool { return n.Plan.Stages && n.OnCUDA() && !n.VisionTrained() }

// stagedBytes returns the memory for it, with micro-batches of that many samples.
func (n *Network) stagedBytes(s *batch.Sample, micro int) (bytes int64) {
	for _, q := range s.Sequences() {
		bytes += int64(q.ImageTokens() * n.FeatureSize() * micro)
	}
	return rooms * slack(bytes)
}

// Stage uploads the features of the next step's pictures, which StepFeeds then returns, while another step runs. If
// there is no memory for that, it joins them on the host, and the step uploads them. It does nothing if some are not
// known yet.
func (s *Sessions) Stage(p *batch.Inputs) {
	unknown := func(q *backbone.Picture) bool { return q.Features == nil }
	if len(p.Pictures) == 0 || slices.ContainsFunc(p.Pictures, unknown) {
		return
	}
	all, done := s.staging.join(p.Pictures, featuresOf)
	next := &staged{pictures: slices.Clone(p.Pictures), feeds: features(all, s.net), done: done}
	if v, free, err := s.staging.upload(all); err == nil {
		done()
		next.feeds, next.views, next.done = nil, map[string]*ort.View{nn.InFeatures: v}, free
	}
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
	shape := featureShape(all, n)
	t := tensor.New(tensor.WithShape(int(shape[0]), int(shape[1])), tensor.WithBacking(values))
	return map[string]*tensor.Dense{nn.InFeatures: t}
}

func featureShape(all []byte, n *Network) []int64 {
	return []int64{int64(len(all) / n.FeatureSize()), int64(n.Backbone.Decoder().FeatureWidth())}
}
