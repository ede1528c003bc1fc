package model

import "assay/model/nn"

// The runtime multiplies by a weight that it has packed in its own order 8 to 23 % faster than by one that it packs for
// each product. A packed weight is a copy, and each session has its own, one for each direction. Small models always
// pack in scoring, others where that takes little of the machine's memory. It depends on the model and the machine, not
// on the memory that is free just now, since products of packed weights differ in their last bits. So a run that is
// resumed, and a pair that is scored again, give the same.

// packedShare is the part of the memory that the weights may be to be packed. A scorer has few sessions (pairs alone,
// groups, long sequences), training some more, and each of its steps has two copies.
const packedShare = 32

// packsFor decides whether graphs of a network that is not small pack their weights on a machine of so much memory.
func (n *network) packsFor(memory int64) bool {
	_, bytes := n.Weights()
	return !n.small && !n.recompute && !n.onCUDA() && !n.lean() && n.training != trainBackbone &&
		bytes <= memory/packedShare
}

// stepPacks says whether a step packs. One over several groups of lengths does not: there is a session for every number
// of groups.
func (t *Tuner) stepPacks(g *nn.Graph, groups int) bool {
	return t.prepack && (groups == 1 || groups == 2 && g.Variant.Follows != nil)
}

// addPackedCopies counts those of a step, one for each direction, and of scoring. What they were made from may leave
// the memory again if it lies in a file.
func (t *Tuner) addPackedCopies(u *Usage, scoring bool) {
	copies := int64(0)
	if t.stepPacks(&nn.Graph{}, 1) {
		copies = 2
	}
	if t.prepack && scoring {
		copies++
	}
	if copies > 0 {
		u.Bytes["packed weights"] = copies * u.Bytes["weights"]
	}
}
