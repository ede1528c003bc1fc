// Package train is the command train: it trains edit scorers and works on their files. train runs or plans the
// training of a configuration, alone or as a rank of an MPI job; its subcommands make, merge, quantize, export and
// differentiate models, combine scorers, test a device and show a run. This package has the flags and the printed
// text.
package train

import (
	"github.com/spf13/cobra"

	"assay/internal/cli"
)

// App is the command train.
var App = cli.App{End: job.end, Root: func() *cobra.Command {
	return &cobra.Command{
		Use:   "train",
		Short: "Train a scorer of instruction-guided image edits",
		Long: `train makes a scorer from a Hugging Face checkpoint and a table of labelled edits. Its subcommands make,
merge, quantize, export and differentiate models.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 interrupted with the state saved.`,
		Example: `  train --config examples/miniature/scorer.yaml   # after make demo
  train --config examples/miniature/scorer.yaml --dry-run
  train export --backbone DIR --out DIR
  train grad --model m.onnx --inputs in.safetensors --wrt a,b --out grads.safetensors`,
	}
}}

// register adds a subcommand; files of subcommands call it from init.
func register(command func() *cobra.Command) { App.Register(command) }
