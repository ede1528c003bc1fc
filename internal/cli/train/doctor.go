package train

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/doctor"
	"assay/internal/exit"
	"assay/internal/jsonfile"
)

func init() { register(newDoctorCommand) }

func newDoctorCommand() *cobra.Command {
	var o doctor.Options
	var out string
	c := &cobra.Command{
		Use:   "doctor [--device DEVICE]",
		Short: "Test a device: libraries, gradients, losses and memory, in one report",
		Long: `doctor tests a device. It trains an adapter for a few steps on a small model that it makes, or on --backbone,
and compares gradients and losses with the CPU's, in float32 and bfloat16. (The CPU is compared with itself: layers
recomputed, and edits one at a time.) It reports driver, libraries, versions, and memory next to the plan of --dry-run.
--out writes everything into one file that you can attach to a bug report.

Exit code 1: something is wrong.`,
		Example: `  train doctor
  train doctor --device cuda:0 --out report.json
  train doctor --backbone DIR --steps 3`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Steps < 1 {
				return exit.Usagef("--steps must be at least 1, not %d", o.Steps)
			}
			o.Note = cli.Noter(c)
			r, err := doctor.Run(c.Context(), o)
			if err != nil {
				return err
			}
			if out != "" {
				if err := jsonfile.Write(out, r); err != nil {
					return err
				}
			}
			if err := cli.Print(c, r, func(w io.Writer) { printDoctor(w, r) }); err != nil || r.Err() == nil {
				return err
			}
			return exit.Reported(r.Err())
		},
	}
	f := c.Flags()
	f.StringVar(&o.Device, "device", "auto", "auto, cpu or cuda:N")
	f.StringVar(&o.Backbone, "backbone", "", "checkpoint to train an adapter on (default: a small one is made)")
	f.IntVar(&o.Steps, "steps", 10, "steps of each trace")
	f.StringVar(&out, "out", "", "JSON file to write the report to")
	cli.Writes(c, nil, "out")
	return c
}

func printDoctor(w io.Writer, r *doctor.Report) {
	m := r.Machine
	fmt.Fprintf(w, "device      %s\nmachine     %s, %s, %d cores, %.1f GiB\n", r.Device, m.System, m.Processor, m.Cores,
		float64(m.Memory)/(1<<30))
	fmt.Fprintf(w, "versions    assay %s, %s, ONNX Runtime %s\n", m.Assay, m.Go, m.Runtime)
	fmt.Fprintf(w, "jpeg        %s\n", m.JPEG)
	for _, line := range append([]string{m.Driver}, m.GPUs...) {
		if line != "" {
			fmt.Fprintf(w, "gpu         %s\n", line)
		}
	}
	fmt.Fprintf(w, "libraries   %s\n", strings.Join(m.Libraries, ", "))
	fmt.Fprintf(w, "kernels     %s\n", r.Kernels)
	printTraces(w, r)
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note        %s\n", n)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "PROBLEM     %s\n", p)
	}
	if len(r.Problems) == 0 {
		fmt.Fprintln(w, "no problems found")
	}
}

// printTraces prints the model, the distance of each trace from the reference, and the memory.
func printTraces(w io.Writer, r *doctor.Report) {
	fmt.Fprintf(w, "model       %s, %s", r.Model.Backbone, r.Model.Family)
	if r.Model.Parameters > 0 { // a trace counts them
		fmt.Fprintf(w, ", %d parameters, %d train, %d pairs of %d tokens", r.Model.Parameters, r.Model.Trainable,
			r.Model.Batch, r.Model.Tokens)
	}
	fmt.Fprintln(w)
	if r.Reference == "" {
		return
	}
	fmt.Fprintf(w, "reference   %s\n", r.Reference)
	for _, t := range r.Traces {
		verdict := "the same"
		if !t.Same {
			verdict = "NOT THE SAME"
		}
		fmt.Fprintf(w, "trace       %s: gradients within %.1e of their norm, at most %.1e, losses of %d steps within %.1e: "+
			"%s\n",
			t.Way, t.Distance, t.Gradients, len(t.Losses), t.Loss, verdict)
	}
	fmt.Fprintf(w, "memory      %v\n", r.Memory)
}
