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
	// Options: how graphs run: see exec.Options.
	Options = exec.Options
	// Picture: a prepared picture.
	Picture = backbone.Picture
	// Sample: an edit ready for the graph.
	Sample = batch.Sample
	// Usage: memory that a run takes.
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
	// Cache: keys and values of a prefix.
	Cache = language.Cache
	// Conversation: messages with their pictures.
	Conversation = language.Conversation
	// Kept: a prefix whose cache is kept.
	Kept = language.Kept
	// LanguageModel: answers in words.
	LanguageModel = language.Model
	// Prompt: tokens and pictures of a question.
	Prompt = language.Prompt
	// Stretch: tokens that are read at once.
	Stretch = language.Stretch
	// TextOptions: how a TextTuner trains.
	TextOptions = language.TuneOptions
	// TextSample: a conversation ready for the graph.
	TextSample = language.TextSample
	// TextTuner: trains on conversations.
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
	// Colours: mean and deviation of channels.
	Colours = backbone.Colours
	// Graph: an ONNX graph that is being built.
	Graph = nn.Graph
	// ImageProcessor: preprocessor_config.json.
	ImageProcessor = backbone.ImageProcessor
	// Param: a trained tensor.
	Param = nn.Param
	// Size: of a processed picture.
	Size = backbone.Size
	// Span: rows of attention.
	Span = nn.Span
	// ViT: a vision transformer.
	ViT = nn.ViT
	// Weights: names of a layer's parameters.
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
