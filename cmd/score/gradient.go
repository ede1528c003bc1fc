package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/cli"
	"assay/model"
	"assay/reward"
)

func init() { register(newGradientCommand) }

func newGradientCommand() *cobra.Command {
	var f runtimeFlags
	var source, edit, instruction, out, heatmap string
	c := &cobra.Command{
		Use:   "gradient --scorer DIR --source FILE --edit FILE --instruction TEXT --out FILE",
		Short: "Differentiate a score with respect to the edited picture",
		Long: `gradient computes d score / d pixel of the edited picture, float32 [height, width, 3], per 8-bit level: through head,
language model, vision tower, normalisation, tiles or patches and resizing. Rounding to 8 bits between them counts as the
identity. The picture is meant as decoded: upright, transparency over white.`,
		Example: `  score gradient --scorer backbones/tiny-scorer --source a.png --edit b.png --instruction "make it brighter" \
      --out gradient.safetensors --heatmap heat.png`,
		RunE: func(c *cobra.Command, _ []string) error {
			if source == "" || edit == "" || out == "" && heatmap == "" {
				return cli.Usagef("--source and --edit are needed, and --out or --heatmap")
			}
			if ext := strings.ToLower(filepath.Ext(out)); out != "" && ext != ".safetensors" && ext != ".npy" {
				return cli.Usagef("--out %s: .safetensors and .npy are written", out)
			}
			var pair model.Pair
			pair.Instruction = instruction
			var err error
			if pair.Source, err = data.Open(source, data.Limits{}); err != nil {
				return err
			}
			if pair.Edit, err = data.Open(edit, data.Limits{}); err != nil {
				return err
			}
			s, err := f.open()
			if err != nil {
				return err
			}
			defer s.Close()
			gradients, err := s.Gradient(c.Context(), pair)
			if err != nil {
				return err
			}
			g := reward.Gradient(s.Config(), gradients)
			if err := writeGradient(g, out); err != nil {
				return err
			}
			if heatmap != "" {
				if err := reward.Heatmap(pair.Edit, g.Edit).WritePNG(heatmap); err != nil {
					return err
				}
			}
			return cli.Print(c, map[string]any{"score": g.Score, "score01": g.Score01, "out": out, "heatmap": heatmap}, func(w io.Writer) {
				fmt.Fprintf(w, "%.4f; gradient of %dx%d pixels\n", g.Score, g.Edit.Width, g.Edit.Height)
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&source, "source", "", "picture before the edit")
	c.Flags().StringVar(&edit, "edit", "", "picture after the edit")
	c.Flags().StringVar(&instruction, "instruction", "", "what was asked for")
	c.Flags().StringVar(&out, "out", "", "file to write: .safetensors (the tensor gradient) or .npy")
	c.Flags().StringVar(&heatmap, "heatmap", "", "picture to write: what the score looks at")
	return c
}

func writeGradient(g *reward.ScoreGradient, out string) error {
	if out == "" {
		return nil
	}
	raw := g.Npy()
	if strings.EqualFold(filepath.Ext(out), ".safetensors") {
		var err error
		if raw, err = g.Safetensors(); err != nil {
			return err
		}
	}
	return atomicfile.Write(out, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}
