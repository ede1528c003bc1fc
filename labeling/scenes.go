package labeling

import (
	"cmp"
	"context"
	"crypto/sha256"

	"assay/heuristics"
)

// compare finds what is a near copy of what: it joins the scenes of the data's pictures, and notes those that show a
// picture of a benchmark. It finds out, too, of which rows there may be several.
func (m *merger) compare(ctx context.Context) error {
	first := map[[32]byte]int32{} // picture with that thumbnail
	for e, err := range readParts(m.job.Config.Out, m.job.plan) {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		m.votes = m.votes || e.Prefer != nil
		if e.Row == nil {
			continue
		}
		key := e.Row.key()
		m.rowCount++
		m.edits.add(string(key[:]))
		m.names.add(e.Row.ID)
		for p := range e.Row.pictures() {
			if len(p.Thumbnail) > 0 {
				m.addThumbnail(p, first)
			}
		}
	}
	m.edits.found()
	m.names.found()
	m.addGuarded(first)
	skip := func(a, b int32) bool {
		if a >= 0 && b >= 0 {
			return m.scenes.root(a) == m.scenes.root(b)
		}
		return a < 0 && b < 0
	}
	err := m.near.pairs(ctx, skip, func(a, b int32, distance int) {
		if a < 0 {
			a, b = b, a
		}
		if b >= 0 {
			m.scenes.join(a, b)
		} else if distance <= m.guard.distance {
			m.noteLeak(a, leak{m.guard.pictures[-1-b].name, distance})
		}
	})
	m.report.Crowded = int(m.near.crowded.Load())
	m.near = nil
	return err
}

// addThumbnail gives a picture of the data to the index. One of all that have the same thumbnail is enough.
func (m *merger) addThumbnail(p *picture, first map[[32]byte]int32) {
	n := m.pictureNode(p)
	if n != m.indexed { // known
		return
	}
	m.indexed++
	thumbnail := sha256.Sum256(p.Thumbnail)
	same, ok := first[thumbnail]
	if !ok {
		same, first[thumbnail] = n, n
		m.near.add(n, p.Thumbnail)
	}
	m.alike = append(m.alike, same)
	m.scenes.join(same, n)
}

// addGuarded gives the pictures of benchmarks to the index. They count downwards from -1.
func (m *merger) addGuarded(first map[[32]byte]int32) {
	known := map[[32]byte]bool{}
	for i, p := range m.guard.pictures {
		if len(p.thumbnail) == 0 {
			if _, ok := m.blank[p.pixels]; !ok {
				m.blank[p.pixels] = leak{name: p.name}
			}
			continue
		}
		thumbnail := sha256.Sum256(p.thumbnail)
		if same, ok := first[thumbnail]; ok {
			m.noteLeak(same, leak{name: p.name})
		}
		if !known[thumbnail] { // by the first of their names
			known[thumbnail] = true
			m.near.add(int32(-1-i), p.thumbnail)
		}
	}
}

// noteLeak keeps the nearest of the benchmark pictures that a picture shows.
func (m *merger) noteLeak(node int32, l leak) {
	old, ok := m.leaked[node]
	if !ok || cmp.Or(cmp.Compare(l.distance, old.distance), cmp.Compare(l.name, old.name)) < 0 {
		m.leaked[node] = l
	}
}

func (m *merger) pictureNode(p *picture) int32 { return m.scenes.node("picture " + p.Pixels) }

// joinPictures puts all pictures of a row into one scene and returns its node, and that of a picture of another chain,
// which stays in its own scene (-1: none). An editor's output that shows nothing, as a black one, is no scene: it would
// join all samples where editors failed.
func (m *merger) joinPictures(r *row) (scene, foreign int32) {
	scene, foreign = m.pictureNode(&r.Source), -1
	if r.Target != nil {
		m.scenes.join(scene, m.pictureNode(r.Target))
	}
	edit := m.pictureNode(&r.Edit)
	switch {
	case r.Chain == heuristics.ChainForeign:
		foreign = edit
	case r.Chain != "" || r.Kind != heuristics.Output || edit < m.indexed:
		m.scenes.join(scene, edit)
	}
	return scene, foreign
}
