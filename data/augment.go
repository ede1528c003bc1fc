package data

import "math/rand/v2"

// Augmentation is one of ADIEE's training augmentations: random flips and quarter turns, the same for source and edit.
type Augmentation struct {
	FlipHorizontal, FlipVertical bool
	QuarterTurns                 int // counter-clockwise, after the flips
}

// RandomAugmentation draws each flip with probability 1/2 and the turns uniformly from 0 to 3: a pure function of seed.
func RandomAugmentation(seed uint64) Augmentation {
	bits := rand.NewPCG(seed, 0).Uint64()
	return Augmentation{bits&1 != 0, bits&2 != 0, int(bits >> 2 & 3)}
}

// Apply returns the augmented picture and leaves p unchanged.
func (a Augmentation) Apply(p *Picture) *Picture {
	if a.FlipHorizontal {
		p = p.FlipHorizontal()
	}
	if a.FlipVertical {
		p = p.FlipVertical()
	}
	return p.Rotate90(a.QuarterTurns)
}
