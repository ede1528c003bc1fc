// Package model turns Hugging Face checkpoints of vision-language models into ONNX graphs that score edits.
//
// scorer.yaml is read into a [ScorerConfig]: passes, heads, and a fusion of their outputs. Package backbone opens the
// checkpoint, a [backbone.Architecture]; nn builds layers and graphs on top of it; batch holds [Sample]s and packs
// them; exec runs the graphs, caches sessions and image features, and plans memory. A [Scorer] scores and
// differentiates with these parts, a [Tuner] trains. Package language generates text, and trains on conversations.
package model

import (
	"assay/model/batch"
	"assay/model/exec"
)

// Options configures how graphs run.
type Options = exec.Options

// Sample is an edit ready for the graph.
type Sample = batch.Sample
