// Package label is the command label: it builds tables of labelled edits. label measures, labels and merges the data
// sets of a configuration (package labeling); label captions writes captions with a vision-language model, and label
// similarities measures CLIP and DINOv2 similarities of a table. This package has the flags and the printed text.
package label

import (
	"github.com/spf13/cobra"

	"assay/internal/cli"
)

// App is the command label.
var App = cli.App{Root: func() *cobra.Command {
	return &cobra.Command{
		Use:   "label",
		Short: "Build a table of labelled image edits",
		Long: `label reads pictures, instructions and the outputs of editors, and writes a label table. It has one
row per edit with its label from 0 to 1 and the rule that set it.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 interrupted with the state saved.`,
	}
}}
