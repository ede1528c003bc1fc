package train

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/metrics"
	"assay/model"
	"assay/model/backbone"
	_ "assay/model/families"
)

func init() {
	register(newExportCommand)
	register(newExportMetricCommand)
}

func newExportCommand() *cobra.Command {
	var backbone, scorer, out string
	c := &cobra.Command{
		Use:   "export (--backbone DIR | --scorer DIR) --out DIR",
		Short: "Export a scorer or checkpoint as ONNX graphs",
		Long: `export writes vision.onnx and score.onnx, their weights (hard links where possible), and the tokenizer's and
processor's files. graphs.json documents every input and output.

With --scorer, score.onnx outputs the score, and run.py scores an edit with the graphs; with only --backbone they output
hidden states and logits. See docs/graphs.md.`,
		Example: `  train export --backbone testdata/oracle/llavanext/backbone --out build/export
  train export --scorer testdata/oracle/llavanext/scorer --out build/export-scorer`,
		RunE: func(c *cobra.Command, _ []string) error {
			if out == "" || backbone == "" && scorer == "" {
				return exit.Usagef("export needs --out and either --backbone or --scorer")
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
				if e.Judge != nil {
					fmt.Fprintf(w, "%s/%s scores an edit with them, in Python\n", out, model.RunFile)
				}
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
			return nil, exit.Named(err)
		}
		defer s.Close()
		return s.Export(out)
	}
	b, err := backbone.OpenBackbone(dir)
	if err != nil {
		return nil, exit.Named(err)
	}
	defer b.Close()
	return model.ExportBackbone(b, out)
}

func newExportMetricCommand() *cobra.Command {
	var e metrics.Export
	c := &cobra.Command{
		Use:   "export-metric --kind KIND --weights FILE --out DIR",
		Short: "Make a benchmark metric from published weights: LPIPS, the aesthetic predictor",
		Long: `export-metric writes a folder with model.onnx and metric.yaml, which score bench --component takes. Kinds:

  lpips-vgg, lpips-alex  --weights: torchvision's vgg16 or alexnet; --lin: the linear layers of the package lpips
                         (lpips/weights/v0.1/vgg.pth or alex.pth)
  aesthetic              --weights: the head (layers.N.weight, or one layer); --encoder: its CLIP checkpoint (the
                         published ones need ViT-L/14)

Weights are .safetensors, or .pth of a state dict, read without running code.`,
		Example: `  train export-metric --kind lpips-alex --weights alexnet-owt-7be5be79.pth \
      --lin lpips/weights/v0.1/alex.pth --out lpips-alex
  train export-metric --kind aesthetic --weights sac+logos+ava1-l14-linearMSE.pth --encoder clip-vit-large-patch14 \
      --out aesthetic`,
		RunE: func(c *cobra.Command, _ []string) error {
			switch {
			case !slices.Contains(metrics.Kinds(), e.Kind):
				return exit.Usagef("--kind %q: choose one of %s", e.Kind, strings.Join(metrics.Kinds(), ", "))
			case e.Weights == "" || e.Out == "":
				return exit.Usagef("--weights and --out are needed: a file of weights, and a folder to make")
			case (e.Kind == "aesthetic") != (e.Encoder != ""):
				return exit.Usagef("--encoder (a CLIP checkpoint) is for --kind aesthetic, which requires it")
			case (e.Kind == "aesthetic") == (e.Lin != ""):
				return exit.Usagef("--lin is for the LPIPS kinds, which require it")
			}
			if err := e.Write(); err != nil {
				return err
			}
			return cli.Print(c, map[string]string{"kind": e.Kind, "out": e.Out}, func(w io.Writer) {
				fmt.Fprintf(w, "%s: model.onnx and metric.yaml\n", e.Out)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&e.Kind, "kind", "", strings.Join(metrics.Kinds(), ", "))
	flags.StringVar(&e.Weights, "weights", "", "published weights: .safetensors or .pth")
	flags.StringVar(&e.Lin, "lin", "", "LPIPS: its linear layers, .safetensors or .pth")
	flags.StringVar(&e.Encoder, "encoder", "", "aesthetic: CLIP checkpoint directory")
	flags.StringVar(&e.Out, "out", "", "folder to make")
	cli.Makes(c, "out")
	return c
}
