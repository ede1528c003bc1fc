// Command pretrain makes the small checkpoints in backbones/: a vision-language backbone, a CLIP, and an image
// encoder in DINOv2's architecture. The backbone learns to describe and recognise edits of the miniature world. It
// uses the same trainer as the command train: Ctrl-C saves the state, and the same command resumes.
package main

import (
	"github.com/spf13/cobra"

	"assay/internal/cli"
)

var app = cli.App{Root: func() *cobra.Command {
	return &cobra.Command{
		Use:   "pretrain",
		Short: "Make the small checkpoints in backbones/",
		Long: `pretrain makes the small checkpoints in backbones/ from photographs. They never see a graded score.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 interrupted with the state saved.`,
	}
}}

func main() { app.Main() }
