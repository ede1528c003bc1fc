package model

import "assay/model/nn"

// Names of package nn that towers of other packages are built with.
type (
	Graph   = nn.Graph
	Param   = nn.Param
	Span    = nn.Span
	ViT     = nn.ViT
	Weights = nn.Weights
)

// Likewise.
var (
	CheckActivation = nn.CheckActivation
	Legacy          = nn.Legacy
	NewGraph        = nn.NewGraph
	NewTrainedGraph = nn.NewTrainedGraph
	ReadDropout     = nn.ReadDropout
	ReadSizes       = nn.ReadSizes
)
