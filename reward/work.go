package reward

import (
	"context"
	"crypto/sha256"
	"fmt"
	"net/http"
	"sync"
	"time"

	"assay/data"
	"assay/model"
)

// A place is room for one prepared edit, or for this many bytes of decoded pictures and gradients. There are enough for two
// batches: one on the device, one that is prepared meanwhile. Requests wait for places in the order they came.
const slotBytes = 4 << 20

// Bytes a pixel takes: decoded, and as gradients of both pictures of a pair on the way to one that is sent.
const (
	pictureBytes = 3
	gradientBytes   = 2*12 + 12
)

// occupy waits for so many places, all of them if there are not as many.
func (s *Server) acquireSlots(ctx context.Context, edits int, bytes int64) (free func(), err error) {
	n := min(int64(edits)+bytes/slotBytes, s.slots)
	if err := s.slotPool.Acquire(ctx, n); err != nil {
		return nil, context.Cause(ctx)
	}
	return func() { s.slotPool.Release(n) }, nil
}

// group are the items of a request that share scorer, source and instruction.
type group struct {
	scorer *served
	items  []*item
	pixels int64 // of the source
}

// measure groups items whose headers are in order; the others get their error. Sources are alike if their bytes are.
func (s *Server) groupItems(items []*item, scorer func(*item) *served) (groups []*group) {
	type key struct {
		scorer      *served
		source      [sha256.Size]byte
		instruction string
	}
	at := map[key]*group{}
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
		if it.pixels, it.err = s.size(it.edit); it.err != nil {
			continue
		}
		digest, ok := digests[it.source]
		if !ok {
			digest = sha256.Sum256(it.source.raw)
			digests[it.source] = digest
		}
		k := key{scorer(it), digest, it.instruction}
		if at[k] == nil {
			at[k] = &group{scorer: k.scorer, pixels: pixels}
			groups = append(groups, at[k])
		}
		at[k].items = append(at[k].items, it)
	}
	return groups
}

// admit takes groups in: the time of decoding and of running them is foreseen.
func (s *Server) admit(ctx context.Context, groups []*group, k jobKind) (*reservation, error) {
	d, edits := workload{}, 0
	for _, g := range groups {
		d[g.scorer.estimators[k]] += len(g.items)
		d[s.decoder] += kilopixels(g.pixels)
		edits += len(g.items)
		for _, it := range g.items {
			d[s.decoder] += kilopixels(it.pixels)
		}
	}
	if err := s.chargeQuota(ctx, edits); err != nil {
		return nil, err
	}
	return s.queue.admit(d)
}

// score scores a group. A batch of pictures at a time is decoded, prepared and scored, so that memory does not grow with the
// number of edits.
func (s *Server) score(ctx context.Context, t *reservation, g *group) {
	todo := g.items
	fail := func(err error) {
		for _, it := range todo {
			if it.err == nil {
				it.err = err
			}
		}
	}
	free, err := s.acquireSlots(ctx, min(len(todo), s.o.Batch), pictureBytes*g.pixels)
	if err != nil {
		fail(err)
		return
	}
	defer free()
	before, err := s.decodeOne(ctx, t, todo[0].source, g.pixels)
	if err != nil {
		fail(prefixError("source", err))
		return
	}
	for len(todo) > 0 {
		batch := todo[:min(s.o.Batch, len(todo))]
		samples := make([]*model.Sample, len(batch))
		s.decodeEach(ctx, t, batch, func(i int, it *item, edit *data.Picture) (err error) {
			samples[i], err = g.scorer.Prepare(model.Pair{Source: before, Edit: edit, Instruction: it.instruction})
			return err
		})
		j := &job{kind: scoring, scorer: g.scorer}
		var of []*item
		for i, it := range batch {
			if it.err == nil {
				j.samples, of = append(j.samples, samples[i]), append(of, it)
			}
		}
		if len(of) > 0 {
			if err := t.run(ctx, j); err != nil {
				fail(err)
				return
			}
			for i, it := range of {
				if it.score01, it.err = j.scores[i], j.errs[i]; it.err == nil {
					s.metrics.scores.WithLabelValues(g.scorer.name).Observe(it.score01)
				}
			}
		}
		todo = todo[len(batch):]
	}
}

// decodeOne decodes a picture at one of the places for decoding.
func (s *Server) decodeOne(ctx context.Context, t *reservation, b *encodedPicture, pixels int64) (p *data.Picture, err error) {
	err = s.timeDecoding(ctx, t, pixels, func() (err error) {
		p, err = s.decode(ctx, b)
		return err
	})
	return p, err
}

// each decodes the edits of items, several at a time, and calls use with them. Each picture is dropped at once. What goes wrong is
// the item's error.
func (s *Server) decodeEach(ctx context.Context, t *reservation, items []*item, use func(i int, it *item, edit *data.Picture) error) {
	var all sync.WaitGroup
	next := make(chan int)
	for range min(cap(s.decoding), len(items)) {
		all.Go(func() {
			for i := range next {
				it := items[i]
				it.err = s.timeDecoding(ctx, t, it.pixels, func() error {
					edit, err := s.decode(ctx, it.edit)
					if err != nil {
						return err
					}
					if err := use(i, it, edit); err != nil {
						return apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", err)
					}
					return nil
				})
			}
		})
	}
	for i := range items {
		next <- i
	}
	close(next)
	all.Wait()
}

// decoded runs f at one of the places for decoding and learns how long pictures of so many pixels take. A panic of somebody's
// decoder is an error of this picture.
func (s *Server) timeDecoding(ctx context.Context, t *reservation, pixels int64, f func() error) (err error) {
	defer t.decoded(s.decoder, pixels)
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
