package train

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/model/quantize"
)

func init() { register(newQuantizeCommand) }

// quantizeResult is what train quantize reports.
type quantizeResult struct {
	Out string `json:"out"`
	*quantize.Result
}

func newQuantizeCommand() *cobra.Command {
	var o quantize.Options
	c := &cobra.Command{
		Use:   "quantize --backbone DIR --out DIR [--bits 4|8] [--block 32|128] [--scales float16]",
		Short: "Quantize a backbone's language model to four or eight bits",
		Long: `quantize rounds the linear layers of a checkpoint's language model to nearest in blocks of columns, and writes
them in GPTQ's layout (quant_method gptq, checkpoint_format gptq_v2), shard by shard. Vision tower, projector,
embeddings, output layer, norms and biases stay as they are. It prints each layer's error: |W - W'| / |W|, and the
largest difference of a weight. --out appears complete or not at all.`,
		Example: `  train quantize --backbone testdata/oracle/qwen2_5_vl/backbone --out build/packed --bits 4 --block 32`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := runQuantize(c, o)
			if err != nil {
				return err
			}
			return cli.Print(c, quantizeResult{o.Out, r}, func(w io.Writer) { printQuantized(w, o.Out, r) })
		},
	}
	f := c.Flags()
	f.StringVar(&o.Backbone, "backbone", "", "Hugging Face checkpoint directory")
	f.StringVar(&o.Out, "out", "", "directory to make")
	cli.Makes(c, "out")
	f.IntVar(&o.Bits, "bits", 4, "bits of a weight: 4 or 8")
	f.IntVar(&o.Block, "block", 32, "columns that share a scale: a power of two from 16 to 256")
	f.StringVar(&o.Scales, "scales", "float32",
		"float32, or float16: half as large, but rounded (at 4 bits and blocks of 32: 0.145 of float32, not 0.160)")
	f.BoolVar(&o.Symmetric, "symmetric", false, "no zero points: the range is symmetric around 0")
	return c
}

func runQuantize(c *cobra.Command, o quantize.Options) (*quantize.Result, error) {
	if o.Backbone == "" || o.Out == "" {
		return nil, exit.Usagef("quantize needs --backbone and --out")
	}
	var p *cli.Progress
	o.Total = func(bytes int64) { p = cli.NewProgress(c, "rounding, bytes", bytes, "bytes") }
	o.Progress = func(bytes int64) { p.Add(bytes, "") }
	defer func() { p.Close() }()
	r, err := quantize.Run(c.Context(), o)
	return r, exit.Named(err)
}

func printQuantized(w io.Writer, out string, r *quantize.Result) {
	fmt.Fprintf(w, "%-64s %14s %10s %10s\n", "layer", "shape", "relative", "largest")
	for _, l := range r.Layers {
		shape := fmt.Sprintf("%dx%d", l.Out, l.In)
		if l.Kept != "" {
			fmt.Fprintf(w, "%-64s %14s kept: %s\n", l.Name, shape, l.Kept)
			continue
		}
		fmt.Fprintf(w, "%-64s %14s %10.5f %10.3g\n", l.Name, shape, l.Relative, l.Largest)
	}
	share := 0.0
	if r.Float > 0 {
		share = float64(r.Packed) / float64(r.Float)
	}
	fmt.Fprintf(w, "%s: %.1f MB of weights, %.1f MB before; the packed layers take %.1f MB, %.3f of float32\n", out,
		float64(r.Bytes)/1e6, float64(r.Before)/1e6, float64(r.Packed)/1e6, share)
}
