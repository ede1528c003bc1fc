package miniature

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"

	"assay/data"
)

// Scale measures the true degree of any picture shown as the answer to a task, including pictures that no editor of
// this world made. It uses no scorer.
//
// It holds results: pictures of known degree, which the world can draw. They are the requested edits in several
// strengths, by half, with something wrong and with something extra, and other edits. A picture's degree is that of
// the closest result, times the share of the way from the source to it in the pixels that the result changes, times 1
// to 0 for changes elsewhere. The way to a result is cut short if a worse one is near it: a sepia picture is not most
// of the way to a grey one. A ruined square of the picture costs 40 % of the degree.
type Scale struct {
	task    *Task
	source  []byte
	results []*result // results with a degree above 0
}

// result is a picture of known degree. pix, change and way are for shapes in the middle of their places.
type result struct {
	steps  []Step
	degree float64
	pix    []byte
	extra  bool     // has something that was not requested: no bound for better results
	placed bool     // has a shape whose exact position its editor chose
	way    float64  // position of the nearest worse result as a share of the change, up to 1
	parts  [][]byte // pix without one of the steps each
}

const (
	tolerated = 0.004 // mean absolute difference (0 to 1) attributed to rounding and edges of shapes
	spoilt    = 0.6   // factor of a degree if something else was changed, as in Degree
	nothing   = 0.05  // degrees below count as 0: all pictures are a little alike by chance
	fitted    = 6     // number of results whose shapes are fitted to the picture
)

// NewScale draws the results of a task.
func NewScale(t *Task) *Scale {
	s := &Scale{task: t, source: t.Source.Pix}
	var worse []*result // results with degree 0
	add := func(steps []Step, extra bool) {
		r := &result{steps: steps, degree: Degree(t.Asked, steps, false), extra: extra}
		r.placed = slices.ContainsFunc(steps, func(s Step) bool { return s.Family == Add || s.Family == Move })
		r.pix = s.draw(steps, make([]spot, len(steps)))
		if r.degree > 0 {
			for i := range steps {
				rest := slices.Delete(slices.Clone(steps), i, i+1)
				r.parts = append(r.parts, s.draw(rest, make([]spot, len(rest))))
			}
		}
		if r.degree > 0 {
			s.results = append(s.results, r)
		} else {
			worse = append(worse, r)
		}
	}
	add(nil, false)
	for _, steps := range t.answers() {
		add(steps, false)
	}
	for _, e := range t.others() {
		add([]Step{{e, 1}}, false)
	}
	for _, full := range strengths(t.Asked) {
		for _, e := range t.extras() {
			add(append(slices.Clone(full), Step{e, 1}), true)
		}
	}
	s.bound(worse)
	slices.SortStableFunc(s.results, func(a, b *result) int { return cmp.Compare(b.degree, a.degree) })
	return s
}

// strengths returns the ways in which all edits count as done; only some edits have a visible strength.
func strengths(asked []Edit) [][]Step {
	ways := [][]Step{nil}
	for _, e := range asked {
		of := []float64{1}
		if e.scaled() {
			of = []float64{1, 0.94, 1.06}
		}
		var longer [][]Step
		for _, w := range ways {
			for _, strength := range of {
				longer = append(longer, append(slices.Clone(w), Step{e, strength}))
			}
		}
		ways = longer
	}
	return ways
}

// scaled reports whether every strength of an edit looks different, not only full and half.
func (e Edit) scaled() bool {
	return slices.Contains([]Family{Temperature, Grey, Sepia, Light}, e.Family) || e.Variant == "sharpen"
}

// partial returns the strengths of an edit that is done in part.
func (e Edit) partial() []float64 {
	switch {
	case e.scaled():
		return []float64{0.2, 0.45, 0.7}
	case natures[e.Family].gradual:
		return []float64{0.45}
	}
	return nil
}

// answers returns the steps of editors that do the requested edits, some of them, or one with something wrong.
func (t *Task) answers() [][]Step {
	all := strengths(t.Asked)
	for i, e := range t.Asked {
		var rest []Edit
		rest = append(append(rest, t.Asked[:i]...), t.Asked[i+1:]...)
		for _, others := range strengths(rest) {
			if len(rest) > 0 {
				all = append(all, others)
			}
			for _, strength := range e.partial() {
				all = append(all, append(slices.Clone(others), Step{e, strength}))
			}
			for _, w := range t.mistakes(e) {
				all = append(all, append(slices.Clone(others), Step{w, 1}))
			}
		}
		if len(rest) > 0 {
			for _, strength := range e.partial() {
				all = append(all, []Step{{e, strength}})
			}
		}
	}
	return all
}

// mistakes returns all edits that wrongAttribute can draw.
func (t *Task) mistakes(e Edit) []Edit {
	var out []Edit
	vary := func(set func(*Edit, string), values []string) {
		for _, v := range values {
			w := e
			set(&w, v)
			out = append(out, w)
		}
	}
	colour := func(w *Edit, v string) { w.Colour = v }
	place := func(w *Edit, v string) { w.Place = v }
	kind := func(w *Edit, v string) { w.Shape = v }
	others := without(t.scene.kinds(), e.Shape)
	switch n := natures[e.Family]; {
	case e.Family == Border:
		vary(colour, without(colourNames, e.Colour))
	case e.Family == Add:
		free := without(shapeNames, t.scene.kinds()...)
		for _, k := range free {
			for _, c := range colourNames {
				for _, p := range placeNames {
					w := Edit{Add, "", k, c, p}
					if likeness(e, w) > 0 && w != e {
						out = append(out, w)
					}
				}
			}
		}
	case e.Family == Remove:
		vary(kind, others)
	case e.Family == Recolour:
		vary(colour, without(colourNames, e.Colour))
		vary(kind, others)
	case e.Family == Move:
		vary(place, without(placeNames, e.Place))
		vary(kind, others)
	case len(n.variants) > 0:
		vary(func(w *Edit, v string) { w.Variant = v }, without(n.variants, e.Variant))
	default:
		for _, f := range without([]Family{Grey, Sepia, Invert, Pixelate}, e.Family) {
			out = append(out, Edit{Family: f})
		}
	}
	return out
}

// wholes returns all edits of the whole picture.
func wholes() []Edit {
	var out []Edit
	for _, f := range Families {
		switch n := natures[f]; {
		case n.object:
		case f == Border:
			for _, c := range colourNames {
				out = append(out, Edit{Family: f, Colour: c})
			}
		case len(n.variants) == 0:
			out = append(out, Edit{Family: f})
		default:
			for _, v := range n.variants {
				out = append(out, Edit{Family: f, Variant: v})
			}
		}
	}
	return out
}

// extras returns edits of the whole picture that were not requested and can be recognised next to the requested ones.
func (t *Task) extras() []Edit {
	from := compatible(t.Asked)
	return slices.DeleteFunc(wholes(), func(e Edit) bool { return !slices.Contains(from, e.Family) })
}

// others returns single edits other than the requested ones.
func (t *Task) others() []Edit {
	out := wholes()
	for _, sh := range t.scene.shapes {
		out = append(out, Edit{Family: Remove, Shape: sh.kind})
		for _, c := range without(colourNames, sh.colour) {
			out = append(out, Edit{Family: Recolour, Shape: sh.kind, Colour: c})
		}
		for _, p := range without(placeNames, sh.place) {
			out = append(out, Edit{Family: Move, Shape: sh.kind, Place: p})
		}
	}
	return slices.DeleteFunc(out, func(e Edit) bool {
		return slices.ContainsFunc(t.Asked, func(a Edit) bool { return a.Family == e.Family })
	})
}

// spot is the offset of a shape from the middle of its place, and of its radius from the mean, in 64ths of the side.
type spot struct{ x, y, radius float32 }

// draw draws the result of steps, the shape of step i at spots[i].
func (s *Scale) draw(steps []Step, spots []spot) []byte {
	rng := rand.New(rand.NewPCG(0, 0)) // only for positions, which are replaced
	drawn := s.task.scene.after(rng, steps)
	for i, step := range steps {
		if step.Family != Add && step.Family != Move {
			continue
		}
		for j := len(drawn.shapes) - 1; j >= 0; j-- { // added shapes come last
			sh := &drawn.shapes[j]
			if sh.kind != step.Shape {
				continue
			}
			at := places[step.Place]
			sh.at = [2]float32{32 + 16*float32(at[0]) + spots[i].x, 32 + 16*float32(at[1]) + spots[i].y}
			if step.Family == Add {
				sh.radius = 10.5 + spots[i].radius
			}
			break
		}
	}
	return drawn.render().picture().Pix
}

// bound computes the distance of the nearest worse result for each result.
func (s *Scale) bound(worse []*result) {
	for _, r := range s.results {
		changed := apart(r.pix, s.source, nil)
		r.way = min(1, spread(r.pix)/max(changed, 1e-9))
		for _, g := range slices.Concat(worse, s.results) {
			if g.extra || g.degree >= r.degree {
				continue
			}
			if d := apart(g.pix, r.pix, nil); d >= visible {
				r.way = min(r.way, d*r.degree/(r.degree-g.degree)/max(changed, 1e-9))
			}
		}
	}
}

// apart returns the mean absolute difference of two pictures (0 to 1) within the mask (nil: everywhere).
func apart(a, b []byte, mask []bool) float64 {
	sum, n := 0, 0
	for i, v := range a {
		if mask == nil || mask[i/3] {
			sum += distance(v, b[i])
			n++
		}
	}
	return float64(sum) / float64(max(n, 1)) / 255
}

// distance has no branch: half of its comparisons would be mispredicted.
func distance(a, b byte) int {
	d := int(a) - int(b)
	return (d ^ d>>63) - d>>63
}

// spread returns the mean absolute difference of a picture to its mean colour. A picture at that distance counts as
// another picture.
func spread(pix []byte) float64 {
	var mean [3]int
	for i, v := range pix {
		mean[i%3] += int(v)
	}
	sum := 0
	for i, v := range pix {
		sum += distance(v, byte(mean[i%3]*3/len(pix)))
	}
	return float64(sum) / float64(len(pix)) / 255
}

// Measure returns the true degree of success of a picture, 0 to 1. The picture must have the size of the source.
func (s *Scale) Measure(p *data.Picture) (float64, error) {
	if p.Width != s.task.Source.Width || p.Height != s.task.Source.Height {
		return 0, fmt.Errorf("%d x %d pixels: want %d x %d, the size of the source", p.Width, p.Height, s.task.Source.Width,
			s.task.Source.Height)
	}
	best := 0.0
	var shapes []*result
	for _, r := range s.results {
		best = s.reached(r, r.pix, p.Pix, best)
		if r.placed {
			shapes = append(shapes, r)
		}
	}
	far := make(map[*result]float64, len(shapes))
	for _, r := range shapes {
		far[r] = apart(r.pix, p.Pix, nil)
	}
	sort.SliceStable(shapes, func(i, j int) bool { return far[shapes[i]] < far[shapes[j]] })
	for _, r := range shapes[:min(fitted, len(shapes))] {
		if r.degree > best {
			best = s.reached(r, s.fit(r, p.Pix), p.Pix, best)
		}
	}
	if best < 2*nothing { // 0 below nothing, without a jump above
		best = max(0, 2*(best-nothing))
	}
	return best, nil
}

// fit draws a result with its shapes fitted to the picture, in small steps from the middle of their places.
func (s *Scale) fit(r *result, pix []byte) []byte {
	spots := make([]spot, len(r.steps))
	best := r.pix
	least := apart(best, pix, nil)
	try := func(i int, to spot) bool {
		limit := func(v, by float32) bool { return v >= -by && v <= by }
		if !limit(to.x, 3) || !limit(to.y, 3) || !limit(to.radius, 1.5) {
			return false
		}
		old := spots[i]
		spots[i] = to
		drawn := s.draw(r.steps, spots)
		if d := apart(drawn, pix, nil); d < least {
			least, best = d, drawn
			return true
		}
		spots[i] = old
		return false
	}
	for _, by := range []float32{1.5, 0.75, 0.375} {
		for moved := true; moved; {
			moved = false
			for i, step := range r.steps {
				if step.Family != Add && step.Family != Move {
					continue
				}
				for _, d := range []spot{{by, 0, 0}, {-by, 0, 0}, {0, by, 0}, {0, -by, 0}, {0, 0, by / 2}, {0, 0, -by / 2}} {
					if d.radius != 0 && step.Family == Move {
						continue
					}
					at := spots[i]
					moved = try(i, spot{at.x + d.x, at.y + d.y, at.radius + d.radius}) || moved
				}
			}
		}
	}
	return best
}

// reached returns the degree of a picture on the way to a result, which was drawn as drawn; at least has.
func (s *Scale) reached(r *result, drawn, pix []byte, has float64) float64 {
	if r.degree > has {
		has = max(has, r.degree*s.share(r, drawn, pix, nil))
	}
	if spoilt*r.degree > has {
		if mask := s.patch(r, drawn, pix); mask != nil {
			has = max(has, spoilt*r.degree*s.share(r, drawn, pix, mask))
		}
	}
	return has
}

// share returns the share of the way to a result that a picture has come, reduced by changes elsewhere, within the
// mask.
func (s *Scale) share(r *result, drawn, pix []byte, mask []bool) float64 {
	// The way from the source to the result: along it, left of it, and beside it.
	var along, change, left, way float64
	n := 0
	for i, v := range drawn {
		if mask != nil && !mask[i/3] {
			continue
		}
		n++
		if to := float64(v) - float64(s.source[i]); to != 0 {
			along += (float64(pix[i]) - float64(s.source[i])) * to
			change += to * to
			left += math.Abs(float64(pix[i]) - float64(v))
			way += math.Abs(to)
		}
	}
	if way == 0 {
		return 0
	}
	at := min(1, max(0, along/change))
	beside := 0.0
	for i, v := range drawn {
		if mask == nil || mask[i/3] {
			on := float64(s.source[i]) + at*(float64(v)-float64(s.source[i]))
			beside += math.Abs(float64(pix[i]) - on)
		}
	}
	come := min(1, max(0, (0.9-left/way/r.way)/0.8))
	return come * kept(beside/float64(n)/255, spread(drawn))
}

// kept returns the factor of a degree for differences elsewhere: 0.6 if they are visible, 0 if they are as large as
// to another picture.
func kept(beside, another float64) float64 {
	switch {
	case beside <= tolerated:
		return 1
	case beside <= visible:
		return 1 - (1-spoilt)*(beside-tolerated)/(visible-tolerated)
	}
	return spoilt * max(0, 1-(beside-visible)/max(another-visible, 1e-9))
}

// patch finds the square that differs most from drawn, and returns the mask of the pixels outside of it; nil: it
// covers half or more of the changes of one step, so that the step cannot be judged.
func (s *Scale) patch(r *result, drawn, pix []byte) []bool {
	side := s.task.Source.Width
	wide := side + 1
	sums := make([]int, wide*wide) // over everything to the left and above
	for y := range side {
		row := 0
		for x := range side {
			i := 3 * (y*side + x)
			for c := range 3 {
				row += distance(drawn[i+c], pix[i+c])
			}
			sums[(y+1)*wide+x+1] = sums[y*wide+x+1] + row
		}
	}
	if sums[len(sums)-1] == 0 {
		return nil
	}
	most, left, top, size := math.Inf(-1), 0, 0, 0
	for _, n := range []int{16, 19, 22, 25, 28} {
		n = n * side / 64
		for y := 0; y+n <= side; y++ {
			for x := 0; x+n <= side; x++ {
				sum := sums[(y+n)*wide+x+n] - sums[y*wide+x+n] - sums[(y+n)*wide+x] + sums[y*wide+x]
				// A larger square must contain a larger difference.
				if v := float64(sum) - 0.02*255*3*float64(n*n); v > most {
					most, left, top, size = v, x, y, n
				}
			}
		}
	}
	mask := make([]bool, side*side)
	for i := range mask {
		x, y := i%side, i/side
		mask[i] = x < left || x >= left+size || y < top || y >= top+size
	}
	for _, without := range r.parts {
		outside, all := 0, 0
		for i, v := range r.pix {
			d := distance(v, without[i])
			all += d
			if mask[i/3] {
				outside += d
			}
		}
		if 2*outside <= all {
			return nil
		}
	}
	return mask
}
