// Package model turns Hugging Face checkpoints of vision-language models into ONNX graphs that score edits.
//
// scorer.yaml is read into a [ScorerConfig]: passes, heads, and a fusion of their numbers. Package backbone opens the
// checkpoint, a [backbone.Architecture]; nn builds layers and graphs over it; batch has [Sample]s and packs them; exec
// runs the graphs, keeps sessions and features of pictures, and plans memory. A [Scorer] scores and differentiates
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
	// Options says how graphs run.
	Options = exec.Options
	// Picture is a prepared picture.
	Picture = backbone.Picture
	// Sample is an edit ready for the graph.
	Sample = batch.Sample
	// Usage is the memory that a run takes.
	Usage = exec.Usage
)

// Likewise.
var (
	DescribeBackbone = backbone.DescribeBackbone
	Fingerprint      = backbone.Fingerprint
	OpenBackbone     = backbone.OpenBackbone
)

// Models of language: what continues texts, and what trains on them.
type (
	// Cache holds keys and values of a prefix.
	Cache = language.Cache
	// Conversation holds messages with their pictures.
	Conversation = language.Conversation
	// Kept is a prefix whose cache is kept.
	Kept = language.Kept
	// LanguageModel answers in words.
	LanguageModel = language.Model
	// Prompt holds tokens and pictures of a question.
	Prompt = language.Prompt
	// Stretch is a run of tokens that are read at once.
	Stretch = language.Stretch
	// TextOptions says how a TextTuner trains.
	TextOptions = language.TuneOptions
	// TextSample is a conversation ready for the graph.
	TextSample = language.TextSample
	// TextTuner trains on conversations.
	TextTuner = language.Tuner
)

// Likewise.
var (
	CheckDType        = language.CheckDType
	NewTextTuner      = language.NewTuner
	OpenLanguageModel = language.Open
)

// Names that towers of other packages are built with.
type (
	// Colours has mean and deviation of channels.
	Colours = backbone.Colours
	// Graph is an ONNX graph that is being built.
	Graph = nn.Graph
	// ImageProcessor is preprocessor_config.json.
	ImageProcessor = backbone.ImageProcessor
	// Param is a trained tensor.
	Param = nn.Param
	// Size is that of a processed picture.
	Size = backbone.Size
	// Span is a range of rows of attention.
	Span = nn.Span
	// ViT is a vision transformer.
	ViT = nn.ViT
	// Weights has the names of a layer's parameters.
	Weights = nn.Weights
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
