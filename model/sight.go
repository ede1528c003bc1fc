package model

import (
	"context"
	"slices"

	"gorgonia.org/tensor"

	"assay/internal/workers"
	"assay/onnx"
	"assay/store"
)

// Bounds of the values of pixel_values of one run of the vision tower: 24 tiles of 336 x 336; of a small model what stays in a
// core's cache. A single picture may have more.
const (
	mostPixels  = 24 * 3 * 336 * 336
	smallPixels = 1 << 18
)

// see runs the vision tower over all pictures that have no features yet, each distinct one once, and remembers them. Only
// pictures of one layout run together: nothing is padded, and features do not depend on the company a picture is seen in. It
// returns the pictures that got features.
func (e *engine) see(ctx context.Context, samples []*Sample) (seen []*Picture, err error) {
	same := map[store.Key][]*Picture{}
	var todo []*Picture
	for _, s := range samples {
		for _, p := range s.Pictures {
			if p.features != nil {
				continue
			}
			seen = append(seen, p)
			if known := e.pictures.get(p.key); known != nil {
				p.features = known.features
			} else if same[p.key] = append(same[p.key], p); len(same[p.key]) == 1 {
				todo = append(todo, p)
			}
		}
	}
	hidden := e.backbone.Decoder().Hidden
	sortByLayout(todo)
	most := mostPixels
	if e.small() {
		most = smallPixels
	}
	var runs [][]*Picture
	for len(todo) > 0 {
		n, values := 1, len(todo[0].Pixels)
		for n < len(todo) && todo[n].Layout == todo[0].Layout && values+len(todo[n].Pixels) <= most {
			values += len(todo[n].Pixels)
			n++
		}
		runs, todo = append(runs, todo[:n]), todo[n:]
	}
	return seen, workers.Each(len(runs), e.lanes(), func(i int) error {
		if err := e.look(ctx, runs[i], hidden); err != nil {
			return err
		}
		for _, p := range runs[i] {
			for _, twin := range same[p.key][1:] {
				twin.features = p.features
			}
			e.pictures.put(&Picture{Height: p.Height, Width: p.Width, Rows: p.Rows, Tokens: p.Tokens, Layout: p.Layout, key: p.key, features: p.features})
		}
		return nil
	})
}

// sortByLayout puts pictures of one layout side by side, in the order in which layouts appear.
func sortByLayout(pictures []*Picture) {
	rank := map[any]int{}
	for _, p := range pictures {
		if _, ok := rank[p.Layout]; !ok {
			rank[p.Layout] = len(rank)
		}
	}
	slices.SortStableFunc(pictures, func(a, b *Picture) int { return rank[a.Layout] - rank[b.Layout] })
}

// look computes the features of some pictures, or finds them on disk.
func (e *engine) look(ctx context.Context, pictures []*Picture, hidden int) error {
	kept, err := e.kept()
	if err != nil {
		return err
	}
	var todo []*Picture
	for _, p := range pictures {
		if p.features = kept.load(p.key, p.Tokens*hidden); p.features == nil {
			todo = append(todo, p)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	s, err := e.session("vision", e.visionGraph)
	if err != nil {
		return err
	}
	feeds, err := e.backbone.Feeds(todo)
	if err != nil {
		return err
	}
	out, err := e.run(ctx, s, feeds)
	if err != nil {
		return err
	}
	all := out[inFeatures].Data().([]float32)
	for _, p := range todo {
		n := p.Tokens * hidden
		p.features, all = append([]float32(nil), all[:n]...), all[n:] // its own memory: the run's is freed as a whole
		kept.save(p.key, p.features)
	}
	return nil
}

// imageFeatures joins the features of a packed batch.
func (e *engine) imageFeatures(p *packed) map[string]*tensor.Dense {
	var all []float32
	for _, q := range p.pictures {
		all = append(all, q.features...)
	}
	hidden := e.backbone.Decoder().Hidden
	return map[string]*tensor.Dense{inFeatures: tensor.New(tensor.WithShape(len(all)/hidden, hidden), tensor.WithBacking(all))}
}

// sight is what a packed batch sees: pixels if the vision tower is in the graph, else features.
func (e *engine) sight(p *packed, pixels bool) (map[string]*tensor.Dense, error) {
	if pixels {
		return e.backbone.Feeds(p.pictures)
	}
	return e.imageFeatures(p), nil
}

// Forget empties the cache of pictures: for measurements.
func (e *engine) Forget() { e.pictures = newPictureCache(e.pictures.limit) }

// visionGraph is the frozen vision tower.
func (e *engine) visionGraph(g *Graph) (*built, error) {
	f := e.backbone.Vision(g)
	g.Output(inFeatures, f, onnx.Float, onnx.Dims("image_tokens", e.backbone.Decoder().Hidden))
	return &built{Model: g.M, Params: g.Params}, g.Err()
}
