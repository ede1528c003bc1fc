package model

import (
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/language"
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

// Models of language: what continues texts, and what trains on them.
type (
	Cache         = language.Cache
	Conversation  = language.Conversation
	Kept          = language.Kept
	LanguageModel = language.Model
	Prompt        = language.Prompt
	Stretch       = language.Stretch
	TextOptions   = language.TuneOptions
	TextSample    = language.TextSample
	TextTuner     = language.Tuner
)

// Likewise.
var (
	CheckDType        = language.CheckDType
	NewTextTuner      = language.NewTuner
	OpenLanguageModel = language.Open
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
