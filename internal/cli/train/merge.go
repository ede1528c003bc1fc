package train

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/lora"
	"assay/model"
)

func init() { register(newMergeCommand) }

// mergeResult is what train merge reports.
type mergeResult struct {
	Out    string `json:"out"`
	Merged int    `json:"merged_weights"`
	Bytes  int64  `json:"bytes"`  // of all weights
	Scorer bool   `json:"scorer"` // the folder is also a scorer directory
}

func newMergeCommand() *cobra.Command {
	var scorer string
	var o lora.MergeOptions
	c := &cobra.Command{
		Use:   "merge (--scorer DIR | --backbone DIR --adapter DIR) --out DIR",
		Short: "Add an adapter to its backbone's weights",
		Long: `merge writes a Hugging Face checkpoint with the adapter added to its weights: W + scale B A, rounded once to
the stored type. Names, types, shards and other files stay the same. With --scorer the folder is also a scorer
directory, whose backbone is the folder itself. It appears complete or not at all.`,
		Example: `  train merge --scorer testdata/oracle/llavanext/scorer --out build/merged
  train merge --backbone testdata/oracle/llavanext/backbone \
      --adapter testdata/oracle/llavanext/scorer --out build/merged-backbone`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := merge(c, scorer, o)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				fmt.Fprintf(w, "%s: %d merged weights, %.1f MB in all\n", r.Out, r.Merged, float64(r.Bytes)/1e6)
			})
		},
	}
	f := c.Flags()
	f.StringVar(&scorer, "scorer", "", "scorer directory with an adapter")
	f.StringVar(&o.Backbone, "backbone", "", "Hugging Face checkpoint directory; with --scorer, where its "+
		"backbone is now (default: where scorer.yaml says)")
	f.StringVar(&o.Adapter, "adapter", "", "PEFT adapter directory")
	f.StringVar(&o.Out, "out", "", "directory to make")
	f.BoolVar(&o.Force, "force", false, "replace --out if it holds a checkpoint already")
	return c
}

// merge merges a scorer's adapter into its backbone or, if scorer is empty, the adapter and backbone in the options.
func merge(c *cobra.Command, scorer string, o lora.MergeOptions) (*mergeResult, error) {
	if apart := o.Backbone != "" && o.Adapter != ""; o.Out == "" || apart == (scorer != "") || !apart && o.Adapter != "" {
		return nil, exit.Usagef("merge needs --out and either --scorer, or --backbone with --adapter")
	}
	var p *cli.Progress
	o.Warn = cli.Warner(c)
	o.Total = func(bytes int64) { p = cli.NewProgress(c, "merging, bytes", bytes, "bytes") }
	o.Progress = func(bytes int64) { p.Add(bytes, "") }
	defer func() { p.Close() }()
	var r *lora.MergeResult
	var err error
	if scorer != "" {
		r, err = model.MergeScorer(c.Context(), scorer, o)
	} else {
		r, err = lora.MergeCheckpoint(c.Context(), o)
	}
	if err != nil {
		return nil, exit.Named(err)
	}
	return &mergeResult{Out: o.Out, Merged: r.Weights, Bytes: r.Bytes, Scorer: scorer != ""}, nil
}
