package model

// NewGraph starts a graph over the parameters of a checkpoint, all of them frozen: for towers that stand alone.
func NewGraph(name string, w Weights) *Graph { return newGraph(name, w) }
