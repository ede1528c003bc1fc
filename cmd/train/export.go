package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/model"
	"assay/model/backbone"
	_ "assay/model/families"
)

func init() { register(newExportCommand) }

func newExportCommand() *cobra.Command {
	var backbone, scorer, out string
	c := &cobra.Command{
		Use:   "export (--backbone DIR | --scorer DIR) --out DIR",
		Short: "Export a scorer or checkpoint as ONNX graphs",
		Long: `export writes vision.onnx and score.onnx, their weights (hard links where possible), and the tokenizer's and
processor's files. graphs.json documents every input and output.

With --scorer, score.onnx gives the score; with --backbone alone, hidden states and logits. See docs/graphs.md.`,
		Example: `  train export --backbone testdata/oracle/llavanext/backbone --out build/export
  train export --scorer testdata/oracle/llavanext/scorer --out build/export-scorer`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" || backbone == "" && scorer == "" {
				return cli.Usagef("export needs --out and either --backbone or --scorer")
			}
			e, err := export(c, backbone, scorer, out)
			if err != nil {
				return err
			}
			return cli.Print(c, e, func(w io.Writer) {
				for _, g := range e.Graphs {
					fmt.Fprintf(w, "%s/%s: %d inputs, %d outputs\n", out, g.File, len(g.Inputs), len(g.Outputs))
				}
				fmt.Fprintf(w, "inputs, outputs and weights are described in %s/graphs.json\n", out)
			})
		},
	}
	c.Flags().StringVar(&backbone, "backbone", "", "Hugging Face checkpoint directory; with --scorer, where its backbone "+
		"is now (default: where scorer.yaml says)")
	c.Flags().StringVar(&scorer, "scorer", "", "scorer directory")
	c.Flags().StringVar(&out, "out", "", "directory to make")
	cli.Makes(c, "out")
	return c
}

func export(c *cobra.Command, dir, scorer, out string) (*model.Exported, error) {
	if scorer != "" {
		s, err := model.OpenScorer(scorer, model.Options{Backbone: dir, Warn: cli.Warner(c)})
		if err != nil {
			return nil, cli.Named(err)
		}
		defer s.Close()
		return s.Export(out)
	}
	b, err := backbone.OpenBackbone(dir)
	if err != nil {
		return nil, cli.Named(err)
	}
	defer b.Close()
	return model.ExportBackbone(b, out)
}
