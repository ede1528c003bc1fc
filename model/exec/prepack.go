package exec

// The runtime multiplies by a prepacked weight 8 to 23 % faster than by one that it packs for each product. A prepacked
// weight is a copy, and each session has its own, one for each direction. Small models always prepack in scoring,
// others if it takes little of the machine's memory. This depends on the model and the machine, not on the memory that
// is free at the moment, since products of prepacked weights differ in their last bits. So a resumed run, and a pair
// that is scored again, get the same results.

// PackedShare limits prepacking: weights are prepacked if they take at most one part in PackedShare of the memory. A
// scorer has few sessions (single pairs, groups, long sequences), training some more, and each of its steps has two
// copies.
const PackedShare = 32

// PacksFor reports whether graphs of a network that is not small prepack their weights on a machine with that much
// memory.
func (n *Network) PacksFor(memory int64) bool {
	_, bytes := n.Weights()
	return !n.Plan.Small && !n.Plan.Recompute && !n.OnCUDA() && !n.LowMemory() && n.Plan.Training != TrainBackbone &&
		bytes <= memory/PackedShare
}
