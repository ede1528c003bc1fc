package model

import (
	"context"
	"sync"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/model/nn"
	"assay/store"
)

// visionFeatures computes what a frozen vision tower makes of pictures, once for each distinct one: features are kept
// in memory, and in a store where they outlive the process.
type visionFeatures struct {
	sessions *sessions
	cache    *pictureCache
	stored   func() (*store.Bucket, error) // opened when features are first wanted; nil: there is no store
}

// featureKind is what a store calls vision features, with the version of their computation.
const featureKind = "features-1"

func newVisionFeatures(
	s *sessions, cache *pictureCache, in *store.Store, print func() (string, error),
) *visionFeatures {
	return &visionFeatures{sessions: s, cache: cache, stored: sync.OnceValues(func() (*store.Bucket, error) {
		if in == nil {
			return nil, nil
		}
		what, err := print()
		if err != nil {
			return nil, err
		}
		return in.Bucket(featureKind, what)
	})}
}

// ClearCache forgets all pictures in memory: for measurements.
func (f *visionFeatures) ClearCache() { f.cache.clear() }

// fill gives every picture its features. Each distinct one that has none runs through the tower once. Only pictures of
// one layout run together: nothing is padded, and the features of a picture do not depend on the others. It returns the
// pictures that got features.
func (f *visionFeatures) fill(ctx context.Context, samples []*Sample) (filled []*Picture, err error) {
	same := map[store.Key][]*Picture{}
	var todo []*Picture
	for _, s := range samples {
		for _, p := range s.Pictures {
			if p.features != nil {
				continue
			}
			filled = append(filled, p)
			if known := f.cache.get(p.key); known != nil {
				p.features = known.features
			} else if same[p.key] = append(same[p.key], p); len(same[p.key]) == 1 {
				todo = append(todo, p)
			}
		}
	}
	n := f.sessions.net
	runs := batchesBy(len(todo), func(i int) (any, int) {
		return todo[i].Layout, n.plan.limits.pixels / max(len(todo[i].Pixels), 1)
	})
	return filled, workers.Each(len(runs), n.plan.limits.parallel, func(i int) error {
		run := pick(todo, runs[i])
		if err := f.compute(ctx, run); err != nil {
			return err
		}
		for _, p := range run {
			for _, twin := range same[p.key][1:] {
				twin.features = p.features
			}
			cached := *p
			cached.Pixels = nil
			f.cache.put(&cached)
		}
		return nil
	})
}

// compute runs the tower over pictures of one layout, without those whose features are stored.
func (f *visionFeatures) compute(ctx context.Context, pictures []*Picture) error {
	stored, err := f.stored()
	if err != nil {
		return err
	}
	n := f.sessions.net
	width := n.backbone.Decoder().FeatureWidth()
	var todo []*Picture
	for _, p := range pictures {
		if stored != nil {
			p.features = stored.Floats(p.key, p.Tokens*width)
		}
		if p.features == nil {
			todo = append(todo, p)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	s, err := f.sessions.session(n.visionRecipe(todo))
	if err != nil {
		return err
	}
	feeds, err := n.backbone.Feeds(todo)
	if err != nil {
		return err
	}
	out, err := f.sessions.run(ctx, s, feeds)
	if err != nil {
		return err
	}
	all := out[nn.InFeatures].Data().([]float32)
	for _, p := range todo {
		size := p.Tokens * width
		p.features, all = append([]float32(nil), all[:size]...), all[size:] // its own memory: the run's is freed as a whole
		if stored != nil {
			stored.Remember(p.key, store.FloatBytes(p.features))
		}
	}
	return nil
}

// visionFeeds is what a packed batch feeds the graph about its pictures: pixels where the tower is in the graph, else
// features.
func (n *network) visionFeeds(p *packed) (map[string]*tensor.Dense, error) {
	if n.visionTrained() {
		return n.backbone.Feeds(p.pictures)
	}
	var all []float32
	for _, q := range p.pictures {
		all = append(all, q.features...)
	}
	width := n.backbone.Decoder().FeatureWidth()
	features := tensor.New(tensor.WithShape(len(all)/width, width), tensor.WithBacking(all))
	return map[string]*tensor.Dense{nn.InFeatures: features}, nil
}

// shownFeeds is visionFeeds of a batch that may be without pictures: it has a row of zeros then.
func (n *network) shownFeeds(p *packed) (map[string]*tensor.Dense, error) {
	if len(p.pictures) > 0 {
		return n.visionFeeds(p)
	}
	width := n.backbone.Decoder().FeatureWidth()
	none := tensor.New(tensor.WithShape(1, width), tensor.WithBacking(make([]float32, width)))
	return map[string]*tensor.Dense{nn.InFeatures: none}, nil
}
