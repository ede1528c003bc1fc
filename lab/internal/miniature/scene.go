package miniature

import (
	"math"
	"math/rand/v2"
	"slices"
)

var colours = map[string][3]float32{
	"red":    {0.9, 0.1, 0.1},
	"green":  {0.1, 0.75, 0.15},
	"blue":   {0.1, 0.2, 0.9},
	"yellow": {0.95, 0.9, 0.1},
	"white":  {1, 1, 1},
	"black":  {0, 0, 0},
	"purple": {0.6, 0.1, 0.75},
	"orange": {1, 0.55, 0.05},
}

var (
	colourNames = []string{"red", "green", "blue", "yellow", "white", "black", "purple", "orange"}
	shapeNames  = []string{"circle", "square", "triangle", "cross"}
	placeNames  = []string{"top left", "top right", "bottom left", "bottom right", "center"}
)

// places are directions from the centre, x to the right and y down.
var places = map[string][2]int{"top left": {-1, -1}, "top right": {1, -1}, "bottom left": {-1, 1},
	"bottom right": {1, 1}, "center": {0, 0}}

// placeName returns the name of a place, also after turns.
func placeName(at [2]int) string {
	return placeNames[slices.IndexFunc(placeNames, func(name string) bool { return places[name] == at })]
}

// shape is a painted figure. Lengths are in 64ths of the picture's side.
type shape struct {
	kind, colour string
	place        string     // where it is now
	at           [2]float32 // its centre when it was painted
	radius       float32
	painted      int // number of effects before it
}

// scene is a background, the effects on the whole picture in order, and the shapes that were painted between them. It
// can be redrawn with one of them removed or changed, like by an ideal editor.
type scene struct {
	background *canvas
	effects    []Step
	shapes     []shape
}

func (s *scene) clone() *scene {
	return &scene{s.background, slices.Clone(s.effects), slices.Clone(s.shapes)}
}

// kinds lists the shapes in the scene; each kind occurs at most once, unless an editor made a mistake.
func (s *scene) kinds() []string {
	var out []string
	for _, sh := range s.shapes {
		out = append(out, sh.kind)
	}
	return out
}

func (s *scene) shape(kind string) *shape {
	for i := range s.shapes {
		if s.shapes[i].kind == kind {
			return &s.shapes[i]
		}
	}
	return nil
}

// free lists the places without a shape.
func (s *scene) free() []string {
	used := make([]string, len(s.shapes))
	for i, sh := range s.shapes {
		used[i] = sh.place
	}
	return without(placeNames, used...)
}

// position returns the centre of a shape near a place.
func position(rng *rand.Rand, place string) [2]float32 {
	p := places[place]
	jitter := func() float32 { return float32(uniform(rng, -3, 3)) }
	return [2]float32{32 + 16*float32(p[0]) + jitter(), 32 + 16*float32(p[1]) + jitter()}
}

func (s *scene) paint(rng *rand.Rand, kind, colour, place string) {
	s.shapes = append(s.shapes,
		shape{kind, colour, place, position(rng, place), float32(uniform(rng, 9, 12)), len(s.effects)})
}

// do carries out a step. If the scene lacks the shape that it concerns, nothing happens.
func (s *scene) do(rng *rand.Rand, step Step) {
	now := len(s.effects)
	sh := s.shape(step.Shape)
	switch step.Family {
	case Add:
		s.paint(rng, step.Shape, step.Colour, step.Place)
	case Remove:
		s.shapes = slices.DeleteFunc(s.shapes, func(sh shape) bool { return sh.kind == step.Shape })
	case Recolour:
		if sh != nil {
			sh.colour, sh.painted = step.Colour, now
		}
	case Move:
		if sh != nil {
			sh.place, sh.at, sh.painted = step.Place, position(rng, step.Place), now
		}
	default:
		s.effects = append(s.effects, step)
		for i := range s.shapes {
			s.shapes[i].place = placeName(turned(places[s.shapes[i].place], step.Edit))
		}
	}
}

// turned returns the position of a place after an effect.
func turned(p [2]int, e Edit) [2]int {
	switch e.Variant {
	case "horizontally":
		return [2]int{-p[0], p[1]}
	case "vertically":
		return [2]int{p[0], -p[1]}
	case "clockwise":
		return [2]int{-p[1], p[0]}
	case "counterclockwise":
		return [2]int{p[1], -p[0]}
	case "half":
		return [2]int{-p[0], -p[1]}
	}
	return p
}

// after returns the scene with steps done in the order of their stages.
func (s *scene) after(rng *rand.Rand, steps []Step) *scene {
	steps = slices.Clone(steps)
	slices.SortStableFunc(steps, func(a, b Step) int { return natures[a.Family].stage - natures[b.Family].stage })
	out := s.clone()
	for _, step := range steps {
		out.do(rng, step)
	}
	return out
}

func (s *scene) render() *canvas {
	c := s.background.clone()
	for t := 0; ; t++ {
		for _, sh := range s.shapes {
			if sh.painted == t {
				sh.draw(c)
			}
		}
		if t == len(s.effects) {
			return c
		}
		c = apply(c, s.effects[t])
	}
}

func (sh *shape) draw(c *canvas) {
	unit := float32(c.side) / 64
	colour := colours[sh.colour]
	for y := range c.side {
		for x := range c.side {
			if sh.covers((float32(x)+0.5)/unit-0.5-sh.at[0], (float32(y)+0.5)/unit-0.5-sh.at[1]) {
				copy(c.at(x, y), colour[:])
			}
		}
	}
}

// covers reports whether a point, relative to the centre, belongs to the shape.
func (sh *shape) covers(dx, dy float32) bool {
	r := sh.radius
	ax, ay := float32(math.Abs(float64(dx))), float32(math.Abs(float64(dy)))
	switch sh.kind {
	case "circle":
		return float32(dx*dx)+float32(dy*dy) <= r*r
	case "square":
		return max(ax, ay) <= 0.88*r
	case "triangle":
		return dy <= 0.8*r && dy >= float32(1.8*ax)-r
	}
	return max(ax, ay) <= r && min(ax, ay) <= 0.34*r // cross
}

func uniform(rng *rand.Rand, from, to float64) float64 {
	return from + float64(rng.Float64()*(to-from))
}
