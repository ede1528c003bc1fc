package reward

import (
	"context"

	"assay/data"
	"assay/edit"
)

// differentiate computes the gradients of all items. Errors of items are set on them. done frees the memory of the
// gradients, and that of the answer while it is encoded; it must be called, also after an error.
func (n *engine) differentiate(ctx context.Context, v *Replicated, items []*item) (done func(), err error) {
	done = func() {}
	leave, err := n.enter(ctx, items)
	if err != nil {
		return done, err
	}
	defer leave()
	defer func() { n.metrics.judged(items, err) }()
	groups := n.groupItems(items)
	if len(groups) == 0 {
		return done, nil
	}
	var pixels, most, answer int64 // pixels of sources; bytes of the largest item's gradients; bytes of the answer
	for _, g := range groups {
		pixels += g.pixels
		for _, one := range g.edits {
			answer += 3 * 4 * one.pixels * int64(len(one.items))
			most = max(most, gradientBytes*one.pixels)
		}
	}
	if answer > maxAnswerBytes {
		return done, tooMany("the gradients would take %d bytes, at most %d are "+
			"sent: request fewer pairs at a time", answer, maxAnswerBytes)
	}
	r, err := n.admit(ctx, groups, gradientKind)
	if err != nil {
		return done, err
	}
	defer r.release()
	size := min(n.batch, len(items))
	free, err := n.slots.acquire(ctx, size, pictureBytes*pixels+int64(size)*most+2*answer)
	if err != nil {
		return done, err
	}
	done = free
	b := gradientBatch{engine: n, r: r, scorer: v}
	for _, g := range groups {
		if err := b.add(ctx, g); err != nil {
			return done, err
		}
	}
	if err := b.run(ctx); err != nil {
		return done, err
	}
	return done, ctx.Err()
}

// gradientBatch collects items of several groups, which need not share a source, into batches.
type gradientBatch struct {
	engine *engine
	r      *reservation
	scorer *Replicated
	items  []*item
	edits  []*edit.Edit
}

// add decodes the pictures of a group and runs full batches.
func (b *gradientBatch) add(ctx context.Context, g *group) error {
	sources, err := b.engine.decoder.sources(ctx, b.r, g)
	if err != nil {
		for _, e := range g.edits {
			e.fail(err)
		}
		return nil
	}
	for todo := g.edits; len(todo) > 0; {
		part := todo[:min(len(todo), b.engine.batch-len(b.items))]
		todo = todo[len(part):]
		b.engine.decoder.each(ctx, b.r, part, func(it *item, output *data.Picture) error {
			it.picture = output
			return nil
		})
		for _, e := range part {
			for _, it := range e.items {
				if it.err == nil {
					b.items = append(b.items, it)
					b.edits = append(b.edits, &edit.Edit{Sources: sources, Output: it.picture, Instruction: it.instruction})
				}
			}
		}
		if len(b.items) == b.engine.batch {
			if err := b.run(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// run differentiates the collected edits and empties the batch.
func (b *gradientBatch) run(ctx context.Context) error {
	if len(b.items) == 0 {
		return nil
	}
	j := &job{kind: gradientKind, scorer: b.scorer, edits: b.edits}
	if err := b.r.run(ctx, j); err != nil {
		return err
	}
	for i, it := range b.items {
		r := j.results[i]
		if it.err = asBadEdit(r.err); it.err != nil { // the prompt or the pictures' shapes make it impossible
			continue
		}
		it.gradient = &edit.Gradient{Score: r.gradient.Score, Output: r.gradient.Output}
		it.gradient.Scale(b.scorer.info.Range)
		b.engine.metrics.observe(b.scorer.name, &it.gradient.Score, b.scorer.info.Range)
	}
	b.items, b.edits = nil, nil
	return nil
}
