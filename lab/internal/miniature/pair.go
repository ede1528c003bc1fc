package miniature

import (
	"math/rand/v2"

	"assay/data"
)

// Pair is a source and an edit of it with descriptions and questions, for pretraining.
type Pair struct {
	Source, Edit  *data.Picture
	Kind          Kind
	SourceCaption string
	EditCaption   string     // "" of corrupt and foreign pictures
	Difference    string     // what was done, in fixed wording
	Questions     []Question // the task's own instruction first
}

// Question asks whether the edit follows an instruction.
type Question struct {
	Instruction string
	Degree      float64 // of success, 0 to 1
}

// Yes returns the answer: whether everything that was asked for was done, and nothing else.
func (q Question) Yes() bool { return q.Degree == 1 }

// pairKinds holds the frequencies of kinds: higher for kinds that are hard to distinguish.
var pairKinds = mixture{Perfect: 1.3, Half: 1, WrongAttribute: 1.3, WrongFamily: 0.7, Noop: 0.5, Over: 1,
	Damaged: 0.7, Corrupt: 0.25, Foreign: 0.25}

// Pair draws a pair of any family with the given number of questions.
func (w *World) Pair(rng *rand.Rand, questions int) (*Pair, error) {
	t, err := w.Task(rng, "")
	if err != nil {
		return nil, err
	}
	return t.Pair(rng, questions), nil
}

// Pair draws a candidate of the task. All questions after the first are about other instructions for the same two
// pictures. Many of these describe what was really done, or nearly that, so no question can be answered without
// looking at both pictures.
func (t *Task) Pair(rng *rand.Rand, questions int) *Pair {
	c := t.draw(rng, pairKinds)
	p := &Pair{Source: t.Source, Edit: c.Picture, Kind: c.Kind, SourceCaption: t.SourceCaption(),
		EditCaption: t.Caption(c), Difference: describe(c)}
	for len(p.Questions) < questions {
		asked, text := t.Asked, t.Instruction
		if len(p.Questions) > 0 {
			asked = t.otherwise(rng, c)
			text = Instruction(rng, asked)
		}
		q := Question{Instruction: text}
		if c.scene != nil {
			q.Degree = Degree(asked, c.Done, c.Kind == Damaged)
		}
		p.Questions = append(p.Questions, q)
	}
	return p
}

// otherwise draws other edits that the candidate might be the result of.
func (t *Task) otherwise(rng *rand.Rand, c *Candidate) []Edit {
	var done []Edit
	for _, d := range c.Done {
		done = append(done, d.Edit)
	}
	switch how := rng.Float64(); {
	case len(done) > 0 && how < 0.45: // what was done, or a part of it
		if len(done) > 2 || len(done) == 2 && rng.IntN(2) == 0 {
			i := rng.IntN(len(done))
			return done[i : i+1]
		}
		return done
	case len(done) > 0 && how < 0.8: // nearly what was done
		i := rng.IntN(len(done))
		if e, ok := t.mistaken(rng, done[i]); ok {
			done[i] = e
			return done[max(0, i-1):min(len(done), max(i+1, 2))]
		}
	}
	for range 5 {
		if e, ok := drawEdit(rng, pick(rng, Families), t.scene, nil); ok {
			return []Edit{e}
		}
	}
	return t.Asked
}

// mistaken draws an edit that was done with a wrong attribute, if the source has the shape that it concerns.
func (t *Task) mistaken(rng *rand.Rand, done Edit) (Edit, bool) {
	if n := natures[done.Family]; n.object && done.Family != Add && t.scene.shape(done.Shape) == nil {
		return done, false
	}
	return wrongAttribute(rng, done, t.scene)
}

// Captioned draws a picture with its caption, for image and text encoders: up to two shapes and two effects.
func (w *World) Captioned(rng *rand.Rand) (*data.Picture, string, error) {
	photo, s, err := w.scene(rng, pick(rng, []int{0, 1, 1, 2, 2}))
	if err != nil {
		return nil, "", err
	}
	var edits []Edit
	var steps []Step
	for range pick(rng, []int{0, 1, 1, 2}) {
		f := pick(rng, compatible(edits))
		if e, ok := drawEdit(rng, f, s, nil); ok && !natures[f].object {
			edits, steps = append(edits, e), append(steps, Step{e, 1})
		}
	}
	s = s.after(rng, steps)
	return s.render().picture(), caption(photo, s), nil
}
