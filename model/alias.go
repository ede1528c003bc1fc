package model

import (
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// Names of the packages below that users of scorers need, too.
type (
	Options = exec.Options
	Picture = backbone.Picture
	Sample  = batch.Sample
	Usage   = exec.Usage
)

// Likewise.
var (
	DescribeBackbone = backbone.DescribeBackbone
	Fingerprint      = backbone.Fingerprint
	OpenBackbone     = backbone.OpenBackbone
)

// Names that towers of other packages are built with.
type (
	Colours        = backbone.Colours
	Graph          = nn.Graph
	ImageProcessor = backbone.ImageProcessor
	Param          = nn.Param
	Size           = backbone.Size
	Span           = nn.Span
	ViT            = nn.ViT
	Weights        = nn.Weights
)

// Likewise.
var (
	CheckActivation    = nn.CheckActivation
	Legacy             = nn.Legacy
	NewGraph           = nn.NewGraph
	NewTrainedGraph    = nn.NewTrainedGraph
	ReadDropout        = nn.ReadDropout
	ReadImageProcessor = backbone.ReadImageProcessor
	ReadSize           = backbone.ReadSize
	ReadSizes          = nn.ReadSizes
)
