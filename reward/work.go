package reward

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"assay/data"
	"assay/internal/workers"
	"assay/model"
)

// slotBytes is the size of a memory slot: room for one prepared edit, or for this many bytes of decoded pictures and
// gradients. There are slots for two batches: one on the device, and one that is prepared meanwhile. Requests wait for
// slots in the order they came.
const slotBytes = 4 << 20

// Bytes of a pixel: decoded, and as gradients of both pictures of a pair on the way to the one that is sent.
const (
	pictureBytes  = 3
	gradientBytes = 2*12 + 12
)

// acquireSlots waits for so many slots, or for all of them if there are fewer.
func (s *Server) acquireSlots(ctx context.Context, edits int, bytes int64) (free func(), err error) {
	n := min(int64(edits)+bytes/slotBytes, s.slots)
	if err := s.slotPool.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.slotPool.Release(n) }, nil
}

// item is one pair on its way to a score or a gradient.
type item struct {
	scorer       *served
	source, edit *encodedPicture
	instruction  string

	shared   *model.Shared // with items of other scorers; until it is prepared
	sample   *model.Sample // prepared; until it is scored
	scored   model.Judgement
	picture  *data.Picture         // the edit, decoded; kept for gradients alone
	gradient *model.PixelGradients // of the edit
	err      error
}

// groupKey is what the edits of a group have in common, of one scorer. Sources with equal bytes are equal.
type groupKey struct {
	scorer      *served
	source      [sha256.Size]byte
	instruction string
}

// apart tells how little two groups share: 0 for one group, 1 for the source alone, 2 for nothing.
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

// edited is an edit of a group, which is decoded once for all items that ask about it.
type edited struct {
	items  []*item
	pixels int64
	source bool // it is the source, too: of scorers that look at one picture
}

// groupItems groups the items whose headers are in order; the others get their error.
func (s *Server) groupItems(items []*item) (groups []*group) {
	at := map[groupKey]*group{}
	edits := map[*group]map[*byte]*edited{} // by where their bytes lie
	digests := map[*encodedPicture][sha256.Size]byte{}
	for _, it := range items {
		if it.err != nil {
			continue
		}
		pixels, err := s.check(it.source, it.instruction)
		if err != nil {
			it.err = err
			continue
		}
		var own int64
		if own, it.err = s.size(it.edit); it.err != nil {
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
		e := edits[g][&it.edit.raw[0]]
		if e == nil {
			e = &edited{pixels: own, source: &it.edit.raw[0] == &g.source.raw[0]}
			edits[g][&it.edit.raw[0]] = e
			g.edits = append(g.edits, e)
		}
		e.items = append(e.items, it)
	}
	return groups
}

// admit reserves the time of decoding and running the groups.
func (s *Server) admit(ctx context.Context, groups []*group, kind jobKind) (*reservation, error) {
	w, edits := workload{}, 0
	for _, g := range groups {
		w[s.decoder] += kilopixels(g.pixels)
		for _, e := range g.edits {
			w[s.decoder] += kilopixels(e.pixels)
			edits += len(e.items)
			for _, it := range e.items {
				w[it.scorer.estimators[kind]]++
			}
		}
	}
	if err := s.chargeQuota(ctx, edits); err != nil {
		return nil, err
	}
	return s.queue.admit(w)
}

// scoreItems admits and scores items. An error of one item is kept in it; the error returned is the whole request's.
func (s *Server) scoreItems(ctx context.Context, items []*item) error {
	if groups := s.groupItems(items); len(groups) > 0 {
		r, err := s.admit(ctx, groups, scoreKind)
		if err != nil {
			return err
		}
		defer r.release()
		workers.Each(len(groups), len(groups), func(i int) error { // their errors are kept in their items
			s.scoreGroup(ctx, r, groups[i])
			return nil
		})
	}
	return ctx.Err()
}

// scoreGroup scores a group. It decodes, prepares and scores a batch of pictures at a time, so that memory does not
// grow with the number of edits.
func (s *Server) scoreGroup(ctx context.Context, r *reservation, g *group) {
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
	free, err := s.acquireSlots(ctx, most*min(len(todo), s.o.Batch), pictureBytes*g.pixels)
	if err != nil {
		fail(err)
		return
	}
	defer free()
	source, err := s.decodeOne(ctx, r, g.source, g.pixels)
	if err != nil {
		fail(prefixError("source", err))
		return
	}
	for len(todo) > 0 {
		batch := todo[:min(s.o.Batch, len(todo))]
		s.decodeEach(ctx, r, source, batch, func(it *item, edit *data.Picture) (err error) {
			pair := model.Pair{Source: source, Edit: edit, Instruction: it.instruction, Shared: it.shared}
			it.sample, err = it.scorer.Prepare(pair)
			it.shared = nil
			return err
		})
		if err := s.scoreBatch(ctx, r, g, batch); err != nil {
			fail(err)
			return
		}
		todo = todo[len(batch):]
	}
}

// fail gives an error to the items that have none yet.
func (e *edited) fail(err error) {
	for _, it := range e.items {
		if it.err == nil {
			it.err = err
		}
	}
}

// scoreBatch scores the items of one batch, which are prepared: those of different scorers side by side.
func (s *Server) scoreBatch(ctx context.Context, r *reservation, g *group, batch []*edited) error {
	var scorers []*served
	of := map[*served][]*item{}
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
			j.samples, it.sample = append(j.samples, it.sample), nil
		}
		if err := r.run(ctx, j); err != nil {
			return err
		}
		for i, it := range of[v] {
			it.scored, it.err = j.scores[i], j.errs[i]
			if cfg := v.Config(); it.err == nil {
				s.metrics.observe(v.name, &it.scored, cfg.ScoreRange.Bounded())
			}
		}
		return nil
	})
}

// decodeOne decodes a picture once a decoder is free.
func (s *Server) decodeOne(
	ctx context.Context,
	r *reservation,
	b *encodedPicture,
	pixels int64,
) (*data.Picture, error) {
	var p *data.Picture
	err := s.timeDecoding(ctx, r, pixels, func() (err error) {
		p, err = s.decode(ctx, b)
		return err
	})
	return p, err
}

// decodeEach decodes edits of a source, several at a time, and calls use with each of their items. It keeps no picture
// itself. An error is kept in the items that it is about.
func (s *Server) decodeEach(ctx context.Context, r *reservation, source *data.Picture, edits []*edited,
	use func(it *item, edit *data.Picture) error) {
	workers.Each(len(edits), cap(s.decoding), func(i int) error {
		e := edits[i]
		err := s.timeDecoding(ctx, r, e.pixels, func() (err error) {
			edit := source
			if !e.source {
				if edit, err = s.decode(ctx, e.items[0].edit); err != nil {
					return err
				}
			}
			for _, it := range e.items {
				it.err = asBadPair(use(it, edit))
			}
			return nil
		})
		if err != nil {
			e.fail(err)
		}
		return nil
	})
}

// asBadPair says that an error, if it is not the server's, is that of the pair.
func asBadPair(err error) error {
	var f *apiError
	if err == nil || errors.As(err, &f) {
		return err
	}
	return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
}

// timeDecoding runs f once a decoder is free, and observes how long pictures of so many pixels take. A panic in a
// decoder is an error of this picture.
func (s *Server) timeDecoding(ctx context.Context, r *reservation, pixels int64, f func() error) (err error) {
	defer r.decoded(s.decoder, pixels)
	select {
	case s.decoding <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	begin := time.Now()
	defer func() {
		<-s.decoding
		if p := recover(); p != nil {
			err = fmt.Errorf("internal error, please report it: %v", p)
		}
		if err == nil {
			s.decoder.observeFastest(kilopixels(pixels), time.Since(begin)/time.Duration(cap(s.decoding)))
		}
	}()
	return f()
}
