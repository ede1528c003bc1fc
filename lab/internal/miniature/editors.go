package miniature

import "math/rand/v2"

// mixture holds the relative frequency of each kind.
type mixture map[Kind]float64

// draw draws a candidate of a kind that the task has.
func (t *Task) draw(rng *rand.Rand, m mixture) *Candidate {
	total := 0.0
	for _, k := range Kinds {
		total += m[k]
	}
	for range 100 {
		at := float64(rng.Float64() * total)
		for _, k := range Kinds {
			if at -= m[k]; at < 0 {
				if c, ok := t.Candidate(rng, k); ok {
					return c
				}
				break
			}
		}
	}
	return t.Target(rng) // there always is a perfect one
}

// Editor is a candidate editor: it describes the outputs. Only the truth file of a data set contains the kind of each
// output.
type Editor struct {
	Name   string
	Weak   bool // known for bad outputs: ADIEE labels all of them 0
	Strong bool // known for good ones: ADIEE labels those with a small CLIP-D 0.5
	kinds  mixture
}

// Editors are the editors of a data set. Weak ones sometimes succeed, and strong ones sometimes fail, so labels by
// the editor's name are as noisy as with real editors.
var Editors = []Editor{
	{
		Name:  "stray",
		Weak:  true,
		kinds: mixture{WrongFamily: 0.4, WrongAttribute: 0.35, Noop: 0.1, Half: 0.05, Perfect: 0.1},
	},
	{
		Name:  "rough",
		Weak:  true,
		kinds: mixture{Corrupt: 0.25, Foreign: 0.2, Damaged: 0.1, Noop: 0.1, WrongAttribute: 0.25, Perfect: 0.1},
	},
	{Name: "plain", kinds: mixture{Perfect: 0.25, Half: 0.2, Over: 0.2, WrongAttribute: 0.25, Noop: 0.1}},
	{
		Name:   "steady",
		Strong: true,
		kinds:  mixture{Perfect: 0.4, Half: 0.2, Over: 0.15, Damaged: 0.1, WrongAttribute: 0.1, Noop: 0.05},
	},
	{Name: "careful", Strong: true, kinds: mixture{Perfect: 0.4, Half: 0.3, Over: 0.05, WrongAttribute: 0.15, Noop: 0.1}},
}

// output is one candidate of a task under the name of its editor.
type output struct {
	editor string
	*Candidate
}

// outputs draws one output of every editor.
func (t *Task) outputs(rng *rand.Rand) []output {
	var out []output
	for _, e := range Editors {
		out = append(out, output{e.Name, t.draw(rng, e.kinds)})
	}
	return out
}

// examined draws one output of every kind that the task has, in random order, under neutral names.
func (t *Task) examined(rng *rand.Rand) []output {
	var out []output
	for _, k := range Kinds {
		for range 5 { // some kinds depend on luck
			if c, ok := t.Candidate(rng, k); ok {
				out = append(out, output{Candidate: c})
				break
			}
		}
	}
	rng.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	for i := range out {
		out[i].editor = "editor-" + string(rune('1'+i))
	}
	return out
}
