package miniature

import (
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/data"
)

// Kind is how a candidate was made.
type Kind string

// The kinds of candidates.
const (
	Perfect        Kind = "perfect"         // everything that was asked for
	Half           Kind = "half"            // one of two parts, or one part with half the strength
	Over           Kind = "over"            // everything, and something else
	Damaged        Kind = "damaged"         // everything, and a patch of the picture is ruined
	WrongAttribute Kind = "wrong_attribute" // another colour, place, direction or shape
	WrongFamily    Kind = "wrong_family"    // another edit
	Noop           Kind = "noop"            // the source
	Corrupt        Kind = "corrupt"         // noise, or shuffled blocks
	Foreign        Kind = "foreign"         // another picture
)

// Kinds lists all kinds.
var Kinds = []Kind{Perfect, Half, Over, Damaged, WrongAttribute, WrongFamily, Noop, Corrupt, Foreign}

// Alive reports whether an output of this kind looks like an edit of its source. Any scorer recognises the others.
func (k Kind) Alive() bool { return k != Noop && k != Corrupt && k != Foreign }

// Task is a source picture with an instruction for it.
type Task struct {
	Family      Family // of the part that the task was drawn for
	Asked       []Edit // one or two, in the order in which they are done
	Instruction string
	Photo       *Photo
	Source      *data.Picture

	world  *World
	scene  *scene
	source *canvas
}

// Candidate is the output of an editor for a task.
type Candidate struct {
	Kind    Kind
	Picture *data.Picture
	Done    []Step  // what was done; none for corrupt and foreign pictures
	Degree  float64 // of success, 0 to 1

	scene *scene // nil for corrupt and foreign pictures
}

const (
	twoParts = 0.25 // share of tasks with two parts
	visible  = 0.01 // minimum mean absolute difference of an edit, 0 to 1
)

// Task draws a task of a family ("": any), with one part or, in a quarter of all tasks, two. Edits that would be
// invisible in a picture (making a grey one grey) are not asked for.
func (w *World) Task(rng *rand.Rand, family Family) (*Task, error) {
	for range 1000 {
		f := family
		if f == "" {
			f = pick(rng, Families)
		}
		shapes := pick(rng, []int{0, 0, 1, 2})
		if natures[f].object && f != Add {
			shapes = pick(rng, []int{1, 2, 2})
		}
		photo, s, err := w.scene(rng, shapes)
		if err != nil {
			return nil, err
		}
		asked := w.request(rng, f, s)
		if asked == nil {
			continue
		}
		t := &Task{Family: f, Asked: asked, Photo: photo, world: w, scene: s, source: s.render()}
		if slices.ContainsFunc(asked, func(e Edit) bool { return !t.shows(e) }) {
			continue
		}
		t.Source = t.source.picture()
		t.Instruction = Instruction(rng, asked)
		return t, nil
	}
	return nil, fmt.Errorf("family %s: such an edit is not visible on any photograph: use other photographs", family)
}

// request draws one or two edits for a scene; nil: none is possible.
func (w *World) request(rng *rand.Rand, f Family, s *scene) []Edit {
	first, ok := drawEdit(rng, f, s, nil)
	if !ok {
		return nil
	}
	if rng.Float64() >= twoParts {
		return []Edit{first}
	}
	second, ok := drawEdit(rng, pick(rng, compatible([]Edit{first})), s.after(rng, []Step{{first, 1}}),
		touched([]Edit{first}))
	if !ok {
		return nil
	}
	asked := []Edit{first, second}
	rng.Shuffle(2, func(i, j int) { asked[i], asked[j] = asked[j], asked[i] })
	slices.SortStableFunc(asked, func(a, b Edit) int { return natures[a.Family].stage - natures[b.Family].stage })
	return asked
}

// compatible lists the families that can be distinguished from all given edits.
func compatible(edits []Edit) []Family {
	var out []Family
	for _, f := range Families {
		if !slices.ContainsFunc(edits, func(e Edit) bool { return !independent(f, e.Family) }) {
			out = append(out, f)
		}
	}
	return out
}

// touched lists the shapes that edits concern.
func touched(edits []Edit) []string {
	var out []string
	for _, e := range edits {
		if e.Shape != "" {
			out = append(out, e.Shape)
		}
	}
	return out
}

// shows reports whether an edit of the source is visible.
func (t *Task) shows(e Edit) bool {
	rng := rand.New(rand.NewPCG(0, 0)) // only places a shape; the task's own generator must not advance
	return difference(t.source, t.scene.after(rng, []Step{{e, 1}}).render()) >= visible
}

// SourceCaption describes the source.
func (t *Task) SourceCaption() string { return caption(t.Photo, t.scene) }

// Caption describes a candidate that is an edit of the source; for other candidates it is "".
func (t *Task) Caption(c *Candidate) string {
	if c.scene == nil {
		return ""
	}
	return caption(t.Photo, c.scene)
}

// fully returns the steps of an editor that does everything that was asked for.
func (t *Task) fully(rng *rand.Rand) []Step {
	var steps []Step
	for _, e := range t.Asked {
		steps = append(steps, Step{e, uniform(rng, 0.92, 1.08)})
	}
	return steps
}

// Target is a perfect candidate.
func (t *Task) Target(rng *rand.Rand) *Candidate {
	c, _ := t.Candidate(rng, Perfect) // always succeeds
	return c
}

// Candidate draws a candidate of a kind; false: the task has none (such as half a flip).
func (t *Task) Candidate(rng *rand.Rand, kind Kind) (*Candidate, bool) {
	c := &Candidate{Kind: kind}
	switch kind {
	case Corrupt:
		c.Picture = corrupt(rng, t.scene.after(rng, t.fully(rng)).render()).picture()
		return c, true
	case Foreign:
		return c, t.foreign(rng, c)
	case Noop:
		c.scene, c.Picture = t.scene, t.Source
		return c, true
	}
	done, ok := t.steps(rng, kind)
	if !ok {
		return nil, false
	}
	c.Done, c.scene = done, t.scene.after(rng, done)
	pixels := c.scene.render()
	if kind == Damaged {
		damage(rng, pixels)
	}
	c.Picture, c.Degree = pixels.picture(), Degree(t.Asked, done, kind == Damaged)
	return c, true
}

// steps returns the steps of an editor of a kind.
func (t *Task) steps(rng *rand.Rand, kind Kind) ([]Step, bool) {
	full := t.fully(rng)
	switch kind {
	case Half:
		if len(full) == 2 {
			i := rng.IntN(2)
			return full[i : i+1], true
		}
		full[0].Strength = 0.45
		return full, natures[full[0].Family].gradual
	case Over:
		f := pick(rng, slices.DeleteFunc(compatible(t.Asked), func(f Family) bool { return natures[f].object && f != Add }))
		more, ok := drawEdit(rng, f, t.scene.after(rng, objects(full)), touched(t.Asked))
		return append(full, Step{more, 1}), ok && t.shows(more)
	case WrongAttribute:
		i := rng.IntN(len(full))
		others := slices.Delete(slices.Clone(full), i, i+1)
		wrong, ok := wrongAttribute(rng, full[i].Edit, t.scene.after(rng, objects(others)))
		full[i].Edit = wrong
		return full, ok && !slices.ContainsFunc(others, func(o Step) bool { return o.Family == wrong.Family })
	case WrongFamily:
		for range 9 {
			asked := t.Asked
			f := pick(rng, slices.DeleteFunc(slices.Clone(Families), func(f Family) bool {
				return slices.ContainsFunc(asked, func(e Edit) bool { return e.Family == f })
			}))
			if wrong, ok := drawEdit(rng, f, t.scene, nil); ok {
				return []Step{{wrong, 1}}, true
			}
		}
		return nil, false
	}
	return full, true
}

// objects returns the steps that concern shapes.
func objects(steps []Step) []Step {
	return slices.DeleteFunc(slices.Clone(steps), func(s Step) bool { return !natures[s.Family].object })
}

// foreign shows another crop, in half of the cases with the edit that was asked for.
func (t *Task) foreign(rng *rand.Rand, c *Candidate) bool {
	_, other, err := t.world.background(rng)
	if err != nil {
		return false
	}
	s := &scene{background: other, shapes: t.scene.shapes}
	if rng.IntN(2) == 0 {
		c.Picture = s.after(rng, t.fully(rng)).render().picture()
	} else {
		c.Picture = other.picture()
	}
	return true
}

// corrupt drowns a picture in noise, or shuffles its blocks.
func corrupt(rng *rand.Rand, c *canvas) *canvas {
	if rng.IntN(2) == 0 {
		return c.pixels(func(_ int, v []float32) {
			for i := range v {
				v[i] = float32(0.25*v[i]) + float32(0.75*rng.Float32())
			}
		})
	}
	out := newCanvas(c.side)
	size := c.side / 8
	for to, from := range rng.Perm(64) {
		for y := range size {
			for x := range size {
				copy(out.at(to%8*size+x, to/8*size+y), c.at(from%8*size+x, from/8*size+y))
			}
		}
	}
	return out
}

// damage ruins a square: noise, one colour, or a brightened copy of another place.
func damage(rng *rand.Rand, c *canvas) {
	size := (16 + rng.IntN(13)) * c.side / 64
	left, top := rng.IntN(c.side-size+1), rng.IntN(c.side-size+1)
	switch how := rng.Float64(); {
	case how < 0.4:
		for y := top; y < top+size; y++ {
			for x := left; x < left+size; x++ {
				copy(c.at(x, y), []float32{rng.Float32(), rng.Float32(), rng.Float32()})
			}
		}
	case how < 0.7:
		c.fill(left, top, size, size, [3]float32{rng.Float32(), rng.Float32(), rng.Float32()})
	default:
		from, fromLeft, fromTop := c.clone(), rng.IntN(c.side-size+1), rng.IntN(c.side-size+1)
		for y := range size {
			for x := range size {
				to := c.at(left+x, top+y)
				for i, v := range from.at(fromLeft+x, fromTop+y) {
					to[i] = clip(v + 0.15)
				}
			}
		}
	}
}
