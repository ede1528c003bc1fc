// Package assay is the command assay, the single program of a release: train, score and label as subcommands, fetch
// and cache of score at the top level, demo and version.
package assay

import (
	"regexp"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/cli/label"
	"assay/internal/cli/score"
	"assay/internal/cli/train"
)

// App is the command assay.
var App = cli.App{
	Root: func() *cobra.Command {
		return &cobra.Command{
			Use:   "assay",
			Short: "Train and run reward models for instruction-guided image editing",
			Long: `assay trains and runs reward models for instruction-guided image editing.

Exit codes: 0 done, 1 failed, 2 wrong usage or configuration, 3 interrupted with the state saved.`,
			Example: `  assay demo
  assay score pair --scorer DIR --source a.png --edit b.png --instruction "make the sky red"
  assay train --config run.yaml --dry-run`,
		}
	},
	End: train.App.End,
}

func init() {
	for _, app := range []*cli.App{&label.App, &train.App, &score.App} {
		App.Register(func() *cobra.Command { return renamed(app.Nested(), "${1}assay $2 ") })
	}
	App.Register(func() *cobra.Command { return renamed(score.NewFetch(), "${1}assay ") })
	App.Register(func() *cobra.Command { return renamed(score.NewCache(), "${1}assay ") })
	App.Register(newDemo)
	App.Register(newVersion)
}

// ours matches the start of an example of train, score or label.
var ours = regexp.MustCompile(`(?m)^((?:  )?(?:\w+=\S+ )*)(train|score|label) `)

// renamed makes the examples of c and its subcommands start with the name of this program.
func renamed(c *cobra.Command, to string) *cobra.Command {
	c.Example = ours.ReplaceAllString(c.Example, to)
	for _, sub := range c.Commands() {
		renamed(sub, to)
	}
	return c
}
