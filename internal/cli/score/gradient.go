package score

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/reward"
)

func init() { register(newGradientCommand) }

func newGradientCommand() *cobra.Command {
	var f runtimeFlags
	var q editFlags
	var out, heatmap string
	c := &cobra.Command{
		Use:   "gradient --scorer DIR --source FILE --edit FILE --instruction TEXT --out FILE",
		Short: "Differentiate a score with respect to the edited picture",
		Long: `gradient computes d score / d pixel of the edited picture, float32 [height, width, 3], per 8-bit level. It
passes through head, language model, vision tower, normalisation, tiles or patches, and resizing; rounding to 8 bits
counts as the identity. Pixels are those of the decoded picture: upright, transparency over white.`,
		Example: `  score gradient --scorer backbones/tiny-scorer --source a.png --edit b.png \
      --instruction "make it brighter" --out gradient.safetensors --heatmap heat.png`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.check(c); err != nil {
				return err
			}
			if out == "" && heatmap == "" {
				return exit.Usagef("--out or --heatmap is needed: a file to write")
			}
			if out != "" {
				if err := reward.CheckGradientFile(out); err != nil {
					return exit.Usagef("--out %w", err)
				}
			}
			return writeGradient(c, &f, &q, out, heatmap)
		},
	}
	f.add(c)
	q.add(c)
	c.Flags().StringVar(&out, "out", "", "file to write: .safetensors (the tensor gradient) or .npy")
	c.Flags().StringVar(&heatmap, "heatmap", "", "heat map (.png) to write: where the score changes most")
	cli.Writes(c, nil, "out")
	cli.Writes(c, []string{".png"}, "heatmap")
	return c
}

// writeGradient differentiates the score of an edit, and writes the requested files.
func writeGradient(c *cobra.Command, f *runtimeFlags, q *editFlags, out, heatmap string) error {
	s, err := f.open(c)
	if err != nil {
		return err
	}
	defer s.Close()
	e, err := q.open(s)
	if err != nil {
		return err
	}
	gradients, err := s.Gradients(c.Context(), []*edit.Edit{e})
	if err != nil {
		return err
	}
	g := gradients[0]
	g.Scale(s.Info().Range)
	if out != "" {
		if err := reward.WriteGradient(out, g); err != nil {
			return err
		}
	}
	if heatmap != "" {
		output, err := edit.Decode(e.Output)
		if err == nil {
			err = g.Output.Heatmap(output).WritePNG(heatmap)
		}
		if err != nil {
			return err
		}
	}
	v := map[string]any{"score": g.Value, "out": out, "heatmap": heatmap}
	if !g.Unbounded {
		v["score01"] = g.Score01
	}
	return cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "%.4f; gradient of %dx%d pixels\n", g.Value, g.Output.Width, g.Output.Height)
	})
}
