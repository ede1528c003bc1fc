// Package score is the command score: it rates how well image edits follow their instructions. It scores edits,
// tables and benchmarks with scorers and VLM judges, serves them over HTTP, and has the commands around scores:
// calibration, distillation, selection, imports and caches.
package score

import (
	"github.com/spf13/cobra"

	"assay/internal/cli"
)

// App is the command score.
var App = cli.App{Root: func() *cobra.Command {
	return &cobra.Command{
		Use:   "score",
		Short: "Score instruction-guided image edits from 0 to 10",
		Long: `score runs a scorer on one edit, a table of edits, a benchmark, or as a server.

Exit codes: 0 done, 1 failed (or some rows failed), 2 wrong usage, 3 interrupted with the state saved.`,
		Example: `  score pair --scorer DIR --source a.png --edit b.png --instruction "make the sky red"
  score batch --scorer DIR --in edits.jsonl --out scores.jsonl`,
	}
}}

// register adds a subcommand; files of subcommands call it from init.
func register(command func() *cobra.Command) { App.Register(command) }
