package reward

import (
	"context"
	"crypto/sha256"
	"fmt"
	"runtime"
	"slices"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/reward/gate"
	"assay/internal/reward/pace"
	"assay/internal/reward/pictures"
	"assay/internal/workers"
	"assay/model"

	"golang.org/x/sync/semaphore"
)

// slotBytes is the size of a memory slot: one prepared edit, or this many bytes of decoded pictures and gradients.
// There are slots for two batches, one on the device and one in preparation. Requests get slots in order of arrival.
const slotBytes = 4 << 20

// Bytes per pixel: of a decoded picture, and of the gradients of source and output plus the one that is sent.
const (
	pictureBytes  = 3
	gradientBytes = 2*12 + 12
)

// slots limit the memory of decoded and prepared edits.
type slots struct {
	*semaphore.Weighted
	n int64 // total number
}

// acquire waits for slots for edits and bytes, at most for all of them.
func (s *slots) acquire(ctx context.Context, edits int, bytes int64) (free func(), err error) {
	n := min(int64(edits)+bytes/slotBytes, s.n)
	if err := s.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.Release(n) }, nil
}

// engine turns items into scores and gradients.
type engine struct {
	scorers  *scorerSet
	clients  *clients
	decoder  *decoder
	slots    slots
	queue    *queue
	metrics  *metrics
	gate     *gate.Gate
	sleepers []sleeper // by number in the gate
	batch    int       // edits per run
}

func newEngine(o Options, scorers *scorerSet, clients *clients) *engine {
	workers := scorers.copies()
	n := int64(workers+1) * int64(o.Batch)
	e := &engine{
		scorers: scorers,
		clients: clients,
		slots:   slots{semaphore.NewWeighted(n), n},
		batch:   o.Batch,
	}
	e.metrics = newMetrics(func() float64 { return float64(e.queue.waiting()) },
		func() float64 { return e.queue.foreseen().Seconds() })
	e.decoder = &decoder{
		limits: data.Limits{MaxPixels: o.MaxPixels, MaxBytes: o.MaxBody},
		free:   make(chan struct{}, runtime.NumCPU()),
		time:   &pace.Estimator{Pixels: true},
		cache:  pictures.NewCache(o.Pictures, e.metrics.picture),
		took:   func(d time.Duration) { e.metrics.stage("decode", "", d) },
	}
	e.queue = newQueue(o, workers, e.metrics)
	e.sleepers, _ = scorers.sleepers(&o)
	e.gate = newGate(o, e.sleepers, e.metrics)
	e.metrics.gauge("assay_asleep", "Whether the weights of a scorer are off the device (1).", func() float64 {
		if e.gate.Asleep() {
			return 1
		}
		return 0
	})
	clients.edits = e.metrics.edits
	all := scorers.all()
	for _, v := range all {
		v.changed = func() { e.queue.changed(all) }
		if o.Warn != nil {
			v.warn = o.Warn
		}
		if v.open != nil {
			e.metrics.copies(v)
		}
		go e.identify(v)
	}
	return e
}

// identify computes the fingerprint of a scorer and publishes it.
func (n *engine) identify(v *Replicated) {
	print, err := v.Fingerprint()
	if err != nil {
		v.warn(fmt.Sprintf("scorer %s: fingerprint: %v", v.name, err))
		return
	}
	n.metrics.info.WithLabelValues(v.name, print, serverVersion).Set(1)
}

// item is an edit on its way to a score or a gradient of one scorer.
type item struct {
	scorer      *Replicated
	sources     []*encodedPicture
	output      *encodedPicture
	instruction string

	shared  *model.Shared // shared with items of other scorers until it is prepared
	inputs  edit.Inputs   // prepared inputs, until it is scored
	picture *data.Picture // the decoded edit; only kept for gradients
	result
}

// groupKey identifies a group of edits that share sources and instruction, for one scorer. Sources are compared by
// their bytes.
type groupKey struct {
	scorer      *Replicated
	sources     [sha256.Size]byte
	instruction string
}

// apart returns the distance of two groups: 0 for the same group, 1 for the same sources, 2 otherwise.
func (k groupKey) apart(o groupKey) int {
	switch {
	case k == o:
		return 0
	case k.scorer == o.scorer && k.sources == o.sources:
		return 1
	}
	return 2
}

// group holds the items of a request that share sources and instruction, for any scorer.
type group struct {
	sources     []*encodedPicture
	digest      [sha256.Size]byte // of the sources
	instruction string
	edits       []*groupEdit
	pixels      int64 // of the sources
}

// groupEdit is an edit of a group, decoded once for all its items.
type groupEdit struct {
	items  []*item
	pixels int64
}

// sumPictures computes the digests of all pictures of items, because several goroutines read them later.
func sumPictures(items []*item) {
	seen := map[*encodedPicture]bool{}
	var pictures []*encodedPicture
	for _, it := range items {
		for _, b := range append(slices.Clone(it.sources), it.output) {
			if b != nil && !seen[b] {
				seen[b] = true
				pictures = append(pictures, b)
			}
		}
	}
	workers.Do(len(pictures), func(i int) { pictures[i].sum() })
}

// sumSources returns the digest of sources; for a single source it is the digest of that picture.
func sumSources(sources []*encodedPicture) (sum [sha256.Size]byte) {
	if len(sources) == 1 {
		return sources[0].sum()
	}
	h := sha256.New()
	for _, b := range sources {
		one := b.sum()
		h.Write(one[:])
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// groupItems groups the items with valid picture headers; the others get their error.
func (n *engine) groupItems(items []*item) (groups []*group) {
	at := map[groupKey]*group{}
	edits := map[*group]map[*byte]*groupEdit{} // by the address of their bytes
	sumPictures(items)
	for _, it := range items {
		if it.err != nil {
			continue
		}
		pixels, err := n.decoder.check(it.sources, it.instruction, true)
		if err == nil {
			err = it.scorer.checkSources(len(it.sources))
		}
		if err != nil {
			it.err = err
			continue
		}
		var own int64
		if own, it.err = n.decoder.size(it.output); it.err != nil {
			continue
		}
		k := groupKey{nil, sumSources(it.sources), it.instruction}
		g := at[k]
		if g == nil {
			g = &group{sources: it.sources, digest: k.sources, instruction: it.instruction, pixels: pixels}
			at[k], edits[g] = g, map[*byte]*groupEdit{}
			groups = append(groups, g)
		}
		e := edits[g][&it.output.raw[0]]
		if e == nil {
			e = &groupEdit{pixels: own}
			edits[g][&it.output.raw[0]] = e
			g.edits = append(g.edits, e)
		}
		e.items = append(e.items, it)
	}
	return groups
}

// admit reserves time for decoding and running the groups.
func (n *engine) admit(ctx context.Context, groups []*group, kind jobKind) (*reservation, error) {
	w, edits := pace.Workload{}, 0
	for _, g := range groups {
		for _, b := range g.sources {
			w[n.decoder.time] += pace.Kilopixels(n.decoder.pixels(b))
		}
		for _, e := range g.edits {
			w[n.decoder.time] += pace.Kilopixels(e.pixels)
			edits += len(e.items)
			for _, it := range e.items {
				w[it.scorer.estimators[kind]]++
			}
		}
	}
	r, err := n.queue.admit(w)
	if err != nil { // a refused request does not use its client's quota
		return nil, err
	}
	if err = n.clients.charge(ctx, edits); err != nil {
		r.release()
	}
	return r, err
}

// score admits and scores items. Errors of items are set on them; the returned error is the request's.
func (n *engine) score(ctx context.Context, items []*item) (err error) {
	leave, err := n.enter(ctx, items)
	if err != nil {
		return err
	}
	defer leave()
	defer func() { n.metrics.judged(items, err) }()
	if groups := n.groupItems(items); len(groups) > 0 {
		r, err := n.admit(ctx, groups, scoreKind)
		if err != nil {
			return err
		}
		defer r.release()
		workers.Each(len(groups), len(groups), func(i int) error { // errors are set on the items
			n.scoreGroup(ctx, r, groups[i])
			return nil
		})
	}
	return ctx.Err()
}

// scoreGroup scores a group batch by batch, so that memory does not grow with the number of edits.
func (n *engine) scoreGroup(ctx context.Context, r *reservation, g *group) {
	todo := g.edits
	fail := func(err error) {
		for _, e := range todo {
			e.fail(err)
		}
	}
	most := 0
	for _, e := range todo {
		if most = max(most, len(e.items)); len(e.items) > 1 {
			shared := &model.Shared{}
			for _, it := range e.items {
				it.shared = shared
			}
		}
	}
	size := max(1, min(n.batch, int(n.slots.n)/most)) // edits prepared at a time, each for several scorers
	free, err := n.slots.acquire(ctx, most*min(len(todo), size), pictureBytes*g.pixels)
	if err != nil {
		fail(err)
		return
	}
	defer free()
	sources, err := n.decoder.sources(ctx, r, g)
	if err != nil {
		fail(err)
		return
	}
	for len(todo) > 0 {
		batch := todo[:min(size, len(todo))]
		n.decoder.each(ctx, r, batch, func(it *item, output *data.Picture) (err error) {
			begin := time.Now()
			e := &edit.Edit{Sources: sources, Output: it.output.keyed(output), Instruction: it.instruction}
			it.inputs, err = it.scorer.prepare(e, it.shared)
			it.shared = nil
			n.metrics.stage("prepare", it.scorer.name, time.Since(begin))
			return err
		})
		if err := n.scoreBatch(ctx, r, g, batch); err != nil {
			fail(err)
			return
		}
		todo = todo[len(batch):]
	}
}

// fail sets an error on the items that have none.
func (e *groupEdit) fail(err error) {
	for _, it := range e.items {
		if it.err == nil {
			it.err = err
		}
	}
}

// scoreBatch scores the prepared items of one batch, different scorers in parallel. An edit that is asked about several
// times has several items of one scorer, perhaps more than a batch.
func (n *engine) scoreBatch(ctx context.Context, r *reservation, g *group, batch []*groupEdit) error {
	var scorers []*Replicated
	of := map[*Replicated][]*item{}
	for _, e := range batch {
		for _, it := range e.items {
			if it.err != nil {
				continue
			}
			if of[it.scorer] == nil {
				scorers = append(scorers, it.scorer)
			}
			of[it.scorer] = append(of[it.scorer], it)
		}
	}
	return workers.Each(len(scorers), len(scorers), func(i int) error {
		v := scorers[i]
		for part := range slices.Chunk(of[v], n.batch) {
			j := &job{kind: scoreKind, scorer: v, of: groupKey{v, g.digest, g.instruction}}
			for _, it := range part {
				j.inputs, it.inputs = append(j.inputs, it.inputs), nil
			}
			if err := r.run(ctx, j); err != nil {
				return err
			}
			for i, it := range part {
				if it.result = j.results[i]; it.err == nil {
					n.metrics.observe(v.name, &it.score, v.info.Range)
				}
			}
		}
		return nil
	})
}
