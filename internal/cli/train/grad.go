package train

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/onnx/gradjob"
)

func init() { register(newGradCommand) }

func newGradCommand() *cobra.Command {
	var o gradjob.Options
	c := &cobra.Command{
		Use:   "grad --model FILE --inputs FILE --out FILE",
		Short: "Differentiate any ONNX model",
		Long: `grad computes d(sum of output x cotangent)/d(name) for inputs and initializers of an ONNX model, with a
gradient graph of ordinary ONNX operators on ONNX Runtime. A gradient is exact, or the model is refused with the name
of the node (docs/gradients.md; docs/ops.md lists the operators).

--inputs has one tensor per graph input, --cotangents one per differentiated output, by name; without --cotangents all
outputs are differentiated, with ones. External data is looked up in the model's folder.

--model-out writes the model with its gradients: the model's outputs and "gradient/NAME" for each name, its inputs and
"cotangent/NAME" for each output in --cotangents. With --inputs its sizes are fixed to those of the tensors. Weights in
other files stay there if it is written into the model's folder, and are copied to FILE.data otherwise.`,
		Example: `  train grad --model testdata/oracle/onnx/llama/model.onnx \
      --inputs testdata/oracle/onnx/llama/inputs.safetensors \
      --cotangents testdata/oracle/onnx/llama/cotangent.safetensors \
      --wrt norm.weight,k.weight --out build/grads.safetensors
  train grad --model testdata/oracle/onnx/llama/model.onnx --wrt norm.weight --model-out build/gradients.onnx`,
		RunE: func(c *cobra.Command, _ []string) error {
			r, err := gradjob.Run(c.Context(), o)
			if err != nil {
				return err
			}
			return cli.Print(c, r, func(w io.Writer) {
				if r.Model != "" {
					fmt.Fprintf(w, "%s: the model with %d gradients of %s\n", r.Model, len(r.Gradients), strings.Join(r.Outputs, ", "))
				}
				if r.Out != "" {
					fmt.Fprintf(w, "%s: %d gradients of %s, on %s\n", r.Out, len(r.Gradients), strings.Join(r.Outputs, ", "), r.Device)
				}
			})
		},
	}
	f := c.Flags()
	f.StringVar(&o.Model, "model", "", "ONNX `FILE` of the model (ai.onnx opset 13 or later)")
	f.StringVar(&o.Inputs, "inputs", "", "safetensors file with the graph inputs")
	f.StringVar(&o.Cotangents, "cotangents", "",
		"safetensors file with dL/d(output), by output name (default: ones for every output)")
	f.StringSliceVar(&o.Wrt, "wrt", nil,
		"names to differentiate with respect to (default: all floating-point inputs and initializers)")
	f.StringVar(&o.Out, "out", "", "safetensors file to write the gradients to")
	f.StringVar(&o.OutputsOut, "outputs-out", "", "safetensors file to write the model's outputs to")
	f.StringVar(&o.ModelOut, "model-out", "",
		"ONNX file for the model that computes outputs and gradients; if given alone, nothing is run")
	cli.Writes(c, nil, "out", "outputs-out", "model-out")
	f.StringVar(&o.Device, "device", "cpu", "auto, cpu or cuda:N")
	return c
}
