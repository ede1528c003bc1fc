package exec

// The runtime multiplies by a weight that it has packed in its own order 8 to 23 % faster than by one that it packs for
// each product. A packed weight is a copy, and each session has its own, one for each direction. Small models always
// pack in scoring, others where that takes little of the machine's memory. It depends on the model and the machine, not
// on the memory that is free just now, since products of packed weights differ in their last bits. So a run that is
// resumed, and a pair that is scored again, give the same.

// PackedShare is the part of the memory that the weights may be to be packed. A scorer has few sessions (pairs alone,
// groups, long sequences), training some more, and each of its steps has two copies.
const PackedShare = 32

// PacksFor decides whether graphs of a network that is not small pack their weights on a machine of so much memory.
func (n *Network) PacksFor(memory int64) bool {
	_, bytes := n.Weights()
	return !n.Plan.Small && !n.Plan.Recompute && !n.OnCUDA() && !n.LowMemory() && n.Plan.Training != TrainBackbone &&
		bytes <= memory/PackedShare
}
