package encoders

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"assay/data"
	"assay/internal/store"
	"assay/internal/workers"
)

// Cached is a model that encodes every distinct picture and text once, across processes: embeddings are kept in a
// store.
type Cached struct {
	model          *Model
	known          *store.Bucket
	pictures       *store.Pictures
	encoded, found atomic.Int64
}

var _ Encoder = (*Cached)(nil)

// embeddingKind is the name of embeddings in a store, with the version of their computation.
const embeddingKind = "embeddings-2"

// NewCached puts a store in front of a model. The caller remains responsible for closing both.
func NewCached(m *Model, s *store.Store) (*Cached, error) {
	b, err := s.Bucket(embeddingKind, m.Fingerprint())
	if err != nil {
		return nil, err
	}
	p, err := s.Pictures()
	if err != nil {
		return nil, err
	}
	return &Cached{model: m, known: b, pictures: p}, nil
}

// HasTexts reports whether the model has a text tower.
func (c *Cached) HasTexts() bool { return c.model.HasTexts() }

// Fingerprint identifies the model.
func (c *Cached) Fingerprint() string { return c.model.Fingerprint() }

// Counts returns how many pictures and texts were encoded, and how many were cached, from an earlier run or as
// duplicates.
func (c *Cached) Counts() (encoded, found int64) { return c.encoded.Load(), c.found.Load() }

// Known returns the embedding of the picture with a digest, nil if it is not cached.
func (c *Cached) Known(pixels store.Key) []float32 { return c.known.Floats(pictureKey(pixels), 0) }

func pictureKey(pixels store.Key) store.Key { return store.KeyOf("picture", string(pixels[:])) }

// Images implements Encoder.
func (c *Cached) Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error) {
	w := c.start(len(pictures))
	return whole(w.embed(func() ([][]float32, []error, error) {
		return c.model.embed(ctx, len(pictures), func(i int) (*data.Picture, error) {
			if w.known(i, pictureKey(pictures[i].Digest())) {
				return nil, nil
			}
			return pictures[i], nil
		})
	}))
}

// byContent groups the indices of images by content, excluding those with a problem.
func byContent(contents []store.Key, problems []error) (distinct [][]int) {
	at := map[store.Key]int{}
	for i, k := range contents {
		if problems[i] != nil {
			continue
		}
		d, ok := at[k]
		if !ok {
			d = len(distinct)
			at[k], distinct = d, append(distinct, nil)
		}
		distinct[d] = append(distinct[d], i)
	}
	return distinct
}

// files embeds picture files with several models that share a store: wants(k, i) reports whether model k needs
// picture i. Each distinct picture is decoded once for all models, and not at all if all have it cached. It returns
// embeddings by model and picture.
func files(ctx context.Context, models []*Cached, images []data.File, wants func(k, i int) bool) (
	embeddings [][][]float32, problems []error, err error) {
	contents, problems := make([]store.Key, len(images)), make([]error, len(images))
	workers.Do(len(images), func(i int) { contents[i], problems[i] = store.Content(images[i].Folder, images[i].Image) })
	distinct := byContent(contents, problems)
	works := make([]*work, len(models))
	towers := make([]*Model, len(models))
	wanted := make([][]bool, len(models))
	for k, c := range models {
		works[k], towers[k], wanted[k] = c.start(len(distinct)), c.model, make([]bool, len(distinct))
		for d, same := range distinct {
			for _, i := range same {
				wanted[k][d] = wanted[k][d] || wants(k, i)
			}
		}
	}
	// unknown lists the models that need distinct picture d and have not cached it.
	unknown := func(d int, pixels store.Key) (who []int) {
		for k, w := range works {
			if wanted[k][d] && !w.known(d, pictureKey(pixels)) {
				who = append(who, k)
			}
		}
		return who
	}
	got, bad, err := embedTogether(ctx, towers, len(distinct), func(d int) (*data.Picture, []int, error) {
		first := distinct[d][0]
		shelf := models[0].pictures
		if pixels, ok := shelf.Pixels(contents[first]); ok && len(unknown(d, pixels)) == 0 {
			return nil, nil, nil
		}
		p, content, pixels, err := shelf.Open(images[first].Folder, images[first].Image)
		if err == nil && content != contents[first] {
			err = fmt.Errorf("%s: the file changed while it was read", images[first].File(images[first].Folder))
		}
		if err != nil {
			return nil, nil, err
		}
		return p, unknown(d, pixels), nil
	})
	if err != nil {
		return nil, nil, err
	}
	embeddings = make([][][]float32, len(models))
	for k, w := range works {
		embeddings[k] = make([][]float32, len(images))
		vectors := w.finish(got[k], bad, wanted[k])
		for d, same := range distinct {
			for n, i := range same {
				if problems[i] = bad[d]; bad[d] == nil && wants(k, i) {
					embeddings[k][i] = vectors[d]
					if n > 0 {
						models[k].found.Add(1)
					}
				}
			}
		}
	}
	return embeddings, problems, nil
}

// Texts implements Encoder.
func (c *Cached) Texts(ctx context.Context, texts []string) ([][]float32, error) {
	return whole(c.captions(ctx, texts))
}

// captions is Texts; problems[i] is the reason why text i has no embedding.
func (c *Cached) captions(ctx context.Context, texts []string) ([][]float32, []error, error) {
	w := c.start(len(texts))
	return w.embed(func() ([][]float32, []error, error) {
		todo := workers.Left(len(texts), func(i int) bool { return w.known(i, store.KeyOf("text", texts[i])) })
		out, problems := make([][]float32, len(texts)), make([]error, len(texts))
		part := make([]string, len(todo))
		for k, i := range todo {
			part[k] = texts[i]
		}
		got, bad, err := c.model.read(ctx, part)
		if err != nil {
			return nil, nil, err
		}
		for k, i := range todo {
			out[i], problems[i] = got[k], bad[k]
		}
		return out, problems, nil
	})
}

// work is the pictures or texts of one call: which are cached, and which are duplicates.
type work struct {
	c     *Cached
	mu    sync.Mutex
	keys  []store.Key
	out   [][]float32
	first map[store.Key]int // index of the entry to encode, for each uncached key
	same  []int             // of every entry: index of the entry encoded for it, -1 if cached
}

func (c *Cached) start(n int) *work {
	return &work{c: c, keys: make([]store.Key, n), out: make([][]float32, n), first: map[store.Key]int{},
		same: slices.Repeat([]int{-1}, n)}
}

// known records the key of entry i and reports whether its embedding is cached or will be computed for another entry.
func (w *work) known(i int, k store.Key) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.keys[i] = k
	if at, again := w.first[k]; again && at != i {
		w.same[i] = at
		return true
	}
	if w.out[i] = w.c.known.Floats(k, 0); w.out[i] != nil {
		return true
	}
	w.first[k], w.same[i] = i, i
	return false
}

// embed encodes the entries that were not known, stores the results, and returns an embedding for every entry.
func (w *work) embed(encode func() ([][]float32, []error, error)) ([][]float32, []error, error) {
	got, problems, err := encode()
	if err != nil {
		return nil, nil, err
	}
	return w.finish(got, problems, nil), problems, nil
}

// finish stores the new embeddings and returns one per wanted entry (nil: all).
func (w *work) finish(got [][]float32, problems []error, wanted []bool) [][]float32 {
	for i, at := range w.same {
		if at == i && problems[i] == nil && got[i] != nil {
			w.c.encoded.Add(1)
			w.out[i] = got[i]
			w.c.known.Remember(w.keys[i], store.FloatBytes(got[i]))
		}
	}
	for i, at := range w.same {
		if at == i || problems[i] != nil || wanted != nil && !wanted[i] {
			continue
		}
		if at >= 0 {
			w.out[i], problems[i] = w.out[at], problems[at]
		}
		w.c.found.Add(1)
	}
	return w.out
}
