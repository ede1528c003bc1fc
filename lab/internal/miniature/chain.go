package miniature

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"assay/data"
)

// MaxTurns is the largest number of edits in a chain.
const MaxTurns = 6

// Chain is a sequence of edits of one scene, each made on top of the ones before it. Edits[j], asked for by
// Instructions[j], turns Pictures[j] into Pictures[j+1].
type Chain struct {
	Photo        *Photo
	Pictures     []*data.Picture
	Captions     []string // of Pictures
	Instructions []string
	Edits        []Edit
}

// Chain draws a chain of turns edits of different families, no two of them on the same shape.
func (w *World) Chain(rng *rand.Rand, turns int) (*Chain, error) {
	if turns < 1 || turns > MaxTurns {
		return nil, fmt.Errorf("a chain of %d edits: want 1 to %d", turns, MaxTurns)
	}
	for range 1000 {
		photo, s, err := w.scene(rng, 1+rng.IntN(2))
		if err != nil {
			return nil, err
		}
		c := &Chain{Photo: photo}
		if c.play(rng, s, turns) {
			return c, nil
		}
	}
	return nil, errors.New("no chain of edits is visible on these photographs: use other ones")
}

// play fills the chain; false: some edit could not be drawn or is not visible.
func (c *Chain) play(rng *rand.Rand, s *scene, turns int) bool {
	var families []Edit
	for range turns {
		families = append(families, Edit{Family: pick(rng, compatible(families))})
	}
	slices.SortStableFunc(families, func(a, b Edit) int { return natures[a.Family].stage - natures[b.Family].stage })
	now := s.render()
	c.show(s, now)
	for _, f := range families {
		e, ok := drawEdit(rng, f.Family, s, touched(c.Edits))
		if !ok {
			return false
		}
		s = s.after(rng, []Step{{e, 1}})
		before := now
		if now = s.render(); difference(before, now) < visible {
			return false
		}
		c.Edits, c.Instructions = append(c.Edits, e), append(c.Instructions, Instruction(rng, []Edit{e}))
		c.show(s, now)
	}
	return true
}

func (c *Chain) show(s *scene, pixels *canvas) {
	c.Pictures, c.Captions = append(c.Pictures, pixels.picture()), append(c.Captions, caption(c.Photo, s))
}

// Degree returns the true degree of success of picture shown as the answer to the instructions that lead from one
// picture to another; pictures count from 0. A picture before the first one undoes edits that the instructions do not
// mention: 0.
func (c *Chain) Degree(from, to, shown int) float64 {
	if shown <= from {
		return 0
	}
	var done []Step
	for _, e := range c.Edits[from:shown] {
		done = append(done, Step{e, 1})
	}
	return Degree(c.Edits[from:to], done, false)
}
