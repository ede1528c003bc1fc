package reward

import (
	"context"
	"crypto/sha256"
	"runtime"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/workers"
	"assay/model"

	"golang.org/x/sync/semaphore"
)

// slotBytes is the size of a memory slot: one prepared edit, or this many bytes of decoded pictures and gradients.
// There are slots for two batches, one on the device and one in preparation. Requests get slots in order of arrival.
const slotBytes = 4 << 20

// Bytes of a pixel: decoded, and as gradients of source and output plus the one that is sent.
const (
	pictureBytes  = 3
	gradientBytes = 2*12 + 12
)

// slots bound the memory of decoded and prepared edits.
type slots struct {
	*semaphore.Weighted
	n int64 // of all
}

// acquire waits for n slots, at most for all of them.
func (s *slots) acquire(ctx context.Context, edits int, bytes int64) (free func(), err error) {
	n := min(int64(edits)+bytes/slotBytes, s.n)
	if err := s.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.Release(n) }, nil
}

// engine turns items into scores and gradients.
type engine struct {
	scorers *scorerSet
	clients *clients
	decoder *decoder
	slots   slots
	queue   *queue
	metrics *metrics
	batch   int // edits of a run
}

func newEngine(o Options, scorers *scorerSet, clients *clients) *engine {
	workers := scorers.copies()
	n := int64(workers+1) * int64(o.Batch)
	e := &engine{
		scorers: scorers,
		clients: clients,
		decoder: &decoder{data.Limits{MaxPixels: o.MaxPixels, MaxBytes: o.MaxBody}, make(chan struct{}, runtime.NumCPU()),
			&estimator{pixels: true}},
		slots: slots{semaphore.NewWeighted(n), n},
		batch: o.Batch,
	}
	e.metrics = newMetrics(func() float64 { return float64(e.queue.waiting()) },
		func() float64 { return e.queue.foreseen().Seconds() })
	e.queue = newQueue(o, workers, func(n int) { e.metrics.batch.Observe(float64(n)) },
		func(d time.Duration) { e.metrics.delay.Observe(d.Seconds()) })
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
	}
	return e
}

// item is an edit on its way to a score or a gradient of one scorer.
type item struct {
	scorer         *Replicated
	source, output *encodedPicture
	instruction    string

	shared  *model.Shared // with items of other scorers; until it is prepared
	inputs  edit.Inputs   // prepared; until it is scored
	picture *data.Picture // the edit, decoded; kept for gradients alone
	result
}

// groupKey identifies a group of edits that share source and instruction, for one scorer. Sources with equal bytes are
// equal.
type groupKey struct {
	scorer      *Replicated
	source      [sha256.Size]byte
	instruction string
}

// apart is the distance of two groups: 0 for the same one, 1 for the same source, 2 otherwise.
func (k groupKey) apart(o groupKey) int {
	switch {
	case k == o:
		return 0
	case k.scorer == o.scorer && k.source == o.source:
		return 1
	}
	return 2
}

// group holds the items of a request that share source and instruction, whichever scorer they are for.
type group struct {
	source      *encodedPicture
	digest      [sha256.Size]byte // of the source
	instruction string
	edits       []*edited
	pixels      int64 // of the source
}

// edited is an edit of a group, decoded once for all items that ask about it.
type edited struct {
	items  []*item
	pixels int64
	source bool // it is the source, too: of scorers that look at one picture
}

// groupItems groups the items with valid headers; the others get their error.
func (n *engine) groupItems(items []*item) (groups []*group) {
	at := map[groupKey]*group{}
	edits := map[*group]map[*byte]*edited{} // by where their bytes lie
	digests := map[*encodedPicture][sha256.Size]byte{}
	for _, it := range items {
		if it.err != nil {
			continue
		}
		pixels, err := n.decoder.check(it.source, it.instruction)
		if err != nil {
			it.err = err
			continue
		}
		var own int64
		if own, it.err = n.decoder.size(it.output); it.err != nil {
			continue
		}
		digest, ok := digests[it.source]
		if !ok {
			digest = sha256.Sum256(it.source.raw)
			digests[it.source] = digest
		}
		k := groupKey{nil, digest, it.instruction}
		g := at[k]
		if g == nil {
			g = &group{source: it.source, digest: digest, instruction: it.instruction, pixels: pixels}
			at[k], edits[g] = g, map[*byte]*edited{}
			groups = append(groups, g)
		}
		e := edits[g][&it.output.raw[0]]
		if e == nil {
			e = &edited{pixels: own, source: &it.output.raw[0] == &g.source.raw[0]}
			edits[g][&it.output.raw[0]] = e
			g.edits = append(g.edits, e)
		}
		e.items = append(e.items, it)
	}
	return groups
}

// admit reserves time for decoding and running the groups.
func (n *engine) admit(ctx context.Context, groups []*group, kind jobKind) (*reservation, error) {
	w, edits := workload{}, 0
	for _, g := range groups {
		w[n.decoder.time] += kilopixels(g.pixels)
		for _, e := range g.edits {
			w[n.decoder.time] += kilopixels(e.pixels)
			edits += len(e.items)
			for _, it := range e.items {
				w[it.scorer.estimators[kind]]++
			}
		}
	}
	if err := n.clients.charge(ctx, edits); err != nil {
		return nil, err
	}
	return n.queue.admit(w)
}

// score admits and scores items. Errors of items are set on them; the returned error is the request's.
func (n *engine) score(ctx context.Context, items []*item) error {
	if groups := n.groupItems(items); len(groups) > 0 {
		r, err := n.admit(ctx, groups, scoreKind)
		if err != nil {
			return err
		}
		defer r.release()
		workers.Each(len(groups), len(groups), func(i int) error { // their errors are kept in their items
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
	free, err := n.slots.acquire(ctx, most*min(len(todo), n.batch), pictureBytes*g.pixels)
	if err != nil {
		fail(err)
		return
	}
	defer free()
	source, err := n.decoder.one(ctx, r, g.source, g.pixels)
	if err != nil {
		fail(prefixError("source", err))
		return
	}
	for len(todo) > 0 {
		batch := todo[:min(n.batch, len(todo))]
		n.decoder.each(ctx, r, source, batch, func(it *item, output *data.Picture) (err error) {
			it.inputs, err = it.scorer.prepare(edit.New(source, output, it.instruction), it.shared)
			it.shared = nil
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
func (e *edited) fail(err error) {
	for _, it := range e.items {
		if it.err == nil {
			it.err = err
		}
	}
}

// scoreBatch scores the prepared items of one batch, different scorers in parallel.
func (n *engine) scoreBatch(ctx context.Context, r *reservation, g *group, batch []*edited) error {
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
		j := &job{kind: scoreKind, scorer: v, of: groupKey{v, g.digest, g.instruction}}
		for _, it := range of[v] {
			j.inputs, it.inputs = append(j.inputs, it.inputs), nil
		}
		if err := r.run(ctx, j); err != nil {
			return err
		}
		for i, it := range of[v] {
			if it.result = j.results[i]; it.err == nil {
				n.metrics.observe(v.name, &it.score, v.info.Range)
			}
		}
		return nil
	})
}
