package exec

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"assay/internal/store"
	"assay/internal/workers"
	"assay/model/backbone"
	"assay/model/batch"
)

// visionFeatures computes a frozen vision tower's features of pictures, once for each distinct picture. Features are
// cached in memory, and in a store where they outlive the process.
type visionFeatures struct {
	sessions *Sessions
	cache    *PictureCache
	stored   func() (*store.Bucket, error) // opened when features are first needed; nil: there is no store
}

// featureKind is the name of vision features in a store, with the version of their computation.
const featureKind = "features-3"

func newVisionFeatures(
	s *Sessions, cache *PictureCache, in *store.Store, print func() (string, error),
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

// ClearCache drops all pictures in memory: for measurements.
func (f *visionFeatures) ClearCache() { f.cache.clear() }

// Fill sets every picture's features. Each distinct picture without them runs through the tower once. Only pictures of
// one layout run together: nothing is padded, and the features of a picture do not depend on the others. It returns the
// pictures that got features.
func (f *visionFeatures) Fill(ctx context.Context, samples []*batch.Sample) (filled []*backbone.Picture, err error) {
	same := map[store.Key][]*backbone.Picture{}
	var todo []*backbone.Picture
	for _, s := range samples {
		for _, p := range s.Pictures {
			switch size := p.Tokens * f.sessions.net.FeatureSize(); len(p.Features) {
			case size:
				continue
			case 0:
			default:
				return filled, fmt.Errorf("a picture has features of %d bytes, want %d: it was prepared by a scorer on a "+
					"device of another kind, where features have another type", len(p.Features), size)
			}
			filled = append(filled, p)
			if known := f.cache.Get(p.Key); known != nil {
				p.Features = known.Features
			} else if same[p.Key] = append(same[p.Key], p); len(same[p.Key]) == 1 {
				todo = append(todo, p)
			}
		}
	}
	n := f.sessions.net
	runs := batch.BatchesBy(len(todo), func(i int) (any, int) {
		return todo[i].Layout, n.Plan.Limits.Pixels / max(len(todo[i].Pixels), 1)
	})
	return filled, workers.Each(len(runs), n.Plan.Limits.Parallel, func(i int) error {
		run := batch.Pick(todo, runs[i])
		if err := f.compute(ctx, run); err != nil {
			return err
		}
		for _, p := range run {
			for _, twin := range same[p.Key][1:] {
				twin.Features = p.Features
			}
			cached := *p
			cached.Pixels = nil
			f.cache.Put(&cached)
		}
		return nil
	})
}

// compute runs the tower over pictures of one layout, without those whose features are stored.
func (f *visionFeatures) compute(ctx context.Context, pictures []*backbone.Picture) error {
	stored, err := f.stored()
	if err != nil {
		return err
	}
	n := f.sessions.net
	size := n.FeatureSize()
	var todo []*backbone.Picture
	for _, p := range pictures {
		if stored != nil {
			if raw := stored.Get(p.Key); len(raw) == p.Tokens*size {
				p.Features = raw
			}
		}
		if p.Features == nil {
			todo = append(todo, p)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	s, err := f.sessions.Session(n.VisionRecipe(todo))
	if err != nil {
		return err
	}
	feeds, done, err := f.sessions.PixelFeeds(todo)
	if err != nil {
		return err
	}
	defer done()
	first, rows := make([]int, len(todo)), 0
	for i, p := range todo {
		first[i], rows = rows, rows+p.Tokens
	}
	b := f.sessions.staging.take(rows * size)
	defer f.sessions.staging.give(b)
	all := b.Bytes()[:rows*size]
	if err := f.sessions.runInto(ctx, s, features(all, n), feeds); err != nil {
		return err
	}
	workers.Do(len(todo), func(i int) {
		p := todo[i]
		p.Features = slices.Clone(all[first[i]*size : (first[i]+p.Tokens)*size])
	})
	if stored != nil {
		for _, p := range todo {
			stored.Remember(p.Key, p.Features)
		}
	}
	return nil
}
