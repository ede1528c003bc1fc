// Package model turns Hugging Face checkpoints of vision-language models into ONNX graphs that score edits.
//
// scorer.yaml is read into a [ScorerConfig]: passes, heads, and a fusion of their numbers. Package backbone opens the
// checkpoint, a [backbone.Architecture]; nn builds layers and graphs over it; batch has [Sample]s and packs them; exec
// runs the graphs, keeps sessions and features of pictures, and plans memory. A [Scorer] scores and differentiates
// with these parts, a [Tuner] trains. Package language answers in words, and trains on conversations.
package model

import (
	"assay/model/batch"
	"assay/model/exec"
)

// Options says how graphs run.
type Options = exec.Options

// Sample is an edit ready for the graph.
type Sample = batch.Sample
