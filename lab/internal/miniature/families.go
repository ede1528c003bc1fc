package miniature

import (
	"math/rand/v2"
	"slices"
)

// Family is a kind of edit.
type Family string

// The families of edits.
const (
	Temperature Family = "temperature" // warmer, cooler
	Grey        Family = "grey"
	Invert      Family = "invert"
	Light       Family = "light" // brighter, darker
	Sepia       Family = "sepia"
	Pixelate    Family = "pixelate"
	Focus       Family = "focus"  // blur, sharpen
	Border      Family = "border" // of a colour
	Add         Family = "add"    // a shape of a colour at a place
	Remove      Family = "remove"
	Recolour    Family = "recolour"
	Move        Family = "move"
	Flip        Family = "flip"   // horizontally, vertically
	Rotate      Family = "rotate" // clockwise, counterclockwise, half
)

// Families lists all families. Instruction i of a data set belongs to family i modulo their number.
var Families = []Family{Temperature, Grey, Invert, Light, Add, Sepia, Pixelate, Border, Move, Recolour, Focus, Remove,
	Flip, Rotate}

// nature holds the properties of a family.
type nature struct {
	variants []string // of an effect on the whole picture; none: only one
	object   bool     // concerns one shape of the scene
	gradual  bool     // can be done by half
	// Edits of one scene are done in the order of their stages. Colour styles come first, so that they do not change
	// the colour of shapes painted later. Turns of the whole picture come last: places keep their names until then.
	stage int
	// Two edits that belong to the same set cannot be told apart in one picture.
	set string
}

var natures = map[Family]nature{
	Temperature: {variants: []string{"warmer", "cooler"}, gradual: true, set: "colour"},
	Grey:        {gradual: true, set: "colour"},
	Invert:      {gradual: true, set: "colour"},
	Light:       {variants: []string{"brighter", "darker"}, gradual: true, set: "colour"},
	Sepia:       {gradual: true, set: "colour"},
	Pixelate:    {gradual: true, set: "detail"},
	Focus:       {variants: []string{"blur", "sharpen"}, gradual: true, set: "detail"},
	Border:      {gradual: true, stage: 1, set: "border"},
	Add:         {object: true, stage: 1},
	Remove:      {object: true, stage: 1},
	Recolour:    {object: true, stage: 1},
	Move:        {object: true, stage: 1},
	Flip:        {variants: []string{"horizontally", "vertically"}, stage: 2, set: "turn"},
	Rotate:      {variants: []string{"clockwise", "counterclockwise", "half"}, stage: 2, set: "turn"},
}

// independent reports whether both edits can be recognised if they are made on one picture.
func independent(f, g Family) bool {
	a, b := natures[f], natures[g]
	return f != g && (a.set == "" || a.set != b.set)
}

// Edit is one edit of a picture: the family and its parameters.
type Edit struct {
	Family  Family
	Variant string
	Shape   string // Add, Remove, Recolour, Move
	Colour  string // Add, Recolour, Border
	Place   string // Add, Move
}

// Step is an edit that was done. Strength 1 is the full edit; below 0.8 it counts as done in part: 0.45 is half of
// it.
type Step struct {
	Edit
	Strength float64
}

func (s Step) complete() bool { return s.Strength >= 0.8 }

// drawEdit draws an edit of a family that is possible in a scene and does not affect the shapes in taken; false:
// there is none.
func drawEdit(rng *rand.Rand, f Family, s *scene, taken []string) (Edit, bool) {
	e := Edit{Family: f}
	switch n := natures[f]; {
	case f == Border:
		e.Colour = pick(rng, colourNames)
		return e, true
	case f == Add:
		kinds := without(shapeNames, append(s.kinds(), taken...)...)
		places := s.free()
		if len(kinds) == 0 || len(places) == 0 {
			return e, false
		}
		e.Shape, e.Colour, e.Place = pick(rng, kinds), pick(rng, colourNames), pick(rng, places)
		return e, true
	case !n.object:
		if len(n.variants) > 0 {
			e.Variant = pick(rng, n.variants)
		}
		return e, true
	}
	kinds := without(s.kinds(), taken...)
	if len(kinds) == 0 {
		return e, false
	}
	e.Shape = pick(rng, kinds)
	switch f {
	case Recolour:
		e.Colour = pick(rng, without(colourNames, s.shape(e.Shape).colour))
	case Move:
		e.Place = pick(rng, s.free())
	}
	return e, true
}

// wrongAttribute draws an edit that looks like another one but has something wrong: the colour, the place, the
// direction, the shape. s is the scene before the edit. False: there is none.
func wrongAttribute(rng *rand.Rand, e Edit, s *scene) (Edit, bool) {
	w := e
	others := without(s.kinds(), e.Shape)
	switch n := natures[e.Family]; {
	case e.Family == Border:
		w.Colour = pick(rng, without(colourNames, e.Colour))
	case e.Family == Add:
		attributes := []int{0, 1, 2}
		rng.Shuffle(3, func(i, j int) { attributes[i], attributes[j] = attributes[j], attributes[i] })
		for _, a := range attributes[:1+rng.IntN(3)/2] {
			switch a {
			case 0:
				w.Shape = pick(rng, without(shapeNames, append(s.kinds(), e.Shape)...))
			case 1:
				w.Colour = pick(rng, without(colourNames, e.Colour))
			case 2:
				w.Place = pick(rng, without(s.free(), e.Place))
			}
		}
	case e.Family == Remove:
		if len(others) == 0 {
			return w, false
		}
		w.Shape = pick(rng, others)
	case n.object && len(others) > 0 && rng.IntN(3) == 0: // the right edit, done to another shape
		w.Shape = pick(rng, others)
		if e.Family == Recolour && s.shape(w.Shape).colour == e.Colour {
			return w, false
		}
	case e.Family == Recolour:
		w.Colour = pick(rng, without(colourNames, e.Colour, s.shape(e.Shape).colour))
	case e.Family == Move:
		w.Place = pick(rng, without(s.free(), e.Place))
	case len(n.variants) > 0:
		w.Variant = pick(rng, without(n.variants, e.Variant))
	default: // a style without variants: another one
		w.Family = pick(rng, without([]Family{Grey, Sepia, Invert, Pixelate}, e.Family))
	}
	return w, true
}

// likeness returns how far an edit fulfils a requested one, 0 to 1.
func likeness(asked, done Edit) float64 {
	switch {
	case asked.Family != done.Family:
		return 0
	case asked == done:
		return 1
	}
	switch asked.Family {
	case Add:
		same := 0
		for _, equal := range []bool{asked.Shape == done.Shape, asked.Colour == done.Colour, asked.Place == done.Place} {
			if equal {
				same++
			}
		}
		return []float64{0, 0.2, 0.3}[same]
	case Recolour, Move:
		if asked.Shape == done.Shape {
			return 0.25
		}
	case Border:
		return 0.3
	}
	return 0
}

// Degree returns the true degree of success, 0 to 1, of steps for requested edits. It is the mean, over the requested
// edits, of how far the best step fulfils each; a step done in part fulfils it in part. If something else was changed
// as well, or the picture is damaged, the degree is multiplied by 0.6.
func Degree(asked []Edit, done []Step, damaged bool) float64 {
	left := slices.Clone(done)
	total := 0.0
	for _, a := range asked {
		best, at := 0.0, -1
		for i, d := range left {
			v := likeness(a, d.Edit)
			if !d.complete() {
				v *= d.Strength / 0.9
			}
			if a.Family == d.Family && v >= best {
				best, at = v, i
			}
		}
		total += best
		if at >= 0 {
			left = slices.Delete(left, at, at+1)
		}
	}
	degree := total / float64(len(asked))
	if len(left) > 0 || damaged {
		degree *= 0.6
	}
	return degree
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// without returns the elements of list that are not among the others.
func without[T comparable](list []T, others ...T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(others, v) {
			out = append(out, v)
		}
	}
	return out
}
