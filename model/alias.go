// Package model turns Hugging Face checkpoints of vision-language models into ONNX graphs that score edits.
//
// scorer.yaml is read into a [ScorerConfig]: passes, heads, and a fusion of their numbers. Package backbone opens the
// checkpoint, a [backbone.Architecture]; nn builds layers and graphs over it; batch turns edits into [Sample]s and packs them;
// exec runs the graphs, keeps sessions and features of pictures, and plans memory. A [Scorer] scores and differentiates
// with these parts, a [Tuner] trains. Package language answers in words, and trains on conversations.
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
	Options = exec.Options     // how graphs run: see exec.Options
	Picture = backbone.Picture // a prepared picture
	Sample  = batch.Sample     // an edit ready for the graph
	Usage   = exec.Usage       // memory that a run takes
)

// Likewise.
var (
	DescribeBackbone = backbone.DescribeBackbone
	Fingerprint      = backbone.Fingerprint
	OpenBackbone     = backbone.OpenBackbone
)

// Models of language: what continues texts, and what trains on them.
type (
	Cache         = language.Cache        // keys and values of a prefix
	Conversation  = language.Conversation // messages with their pictures
	Kept          = language.Kept         // a prefix whose cache is kept
	LanguageModel = language.Model        // answers in words
	Prompt        = language.Prompt       // tokens and pictures of a question
	Stretch       = language.Stretch      // tokens that are read at once
	TextOptions   = language.TuneOptions  // how a TextTuner trains
	TextSample    = language.TextSample   // a conversation ready for the graph
	TextTuner     = language.Tuner        // trains on conversations
)

// Likewise.
var (
	CheckDType        = language.CheckDType
	NewTextTuner      = language.NewTuner
	OpenLanguageModel = language.Open
)

// Names that towers of other packages are built with.
type (
	Colours        = backbone.Colours        // mean and deviation of channels
	Graph          = nn.Graph                // an ONNX graph that is being built
	ImageProcessor = backbone.ImageProcessor // preprocessor_config.json
	Param          = nn.Param                // a trained tensor
	Size           = backbone.Size           // of a processed picture
	Span           = nn.Span                 // rows of attention
	ViT            = nn.ViT                  // a vision transformer
	Weights        = nn.Weights              // names of a layer's parameters
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
