package config

// The ways to sum gradients over ranks.
const (
	ReduceOrdered = "ordered" // in the order of the micro-batches
	ReduceFast    = "fast"    // in the order that the library likes
)
