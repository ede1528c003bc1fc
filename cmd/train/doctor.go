package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/doctor"
	"assay/internal/cli"
	"assay/internal/jsonfile"
)

func init() { register(newDoctorCommand) }

func newDoctorCommand() *cobra.Command {
	var o doctor.Options
	var out string
	c := &cobra.Command{
		Use:   "doctor [--device DEVICE]",
		Short: "Try a device: libraries, kernels, gradients, steps, speed and memory, in one report",
		Long: `doctor trains an adapter for a few steps on a small model that it makes, or on --backbone, and says whether
the device computes what it should. It reports driver, libraries and versions, and where ONNX Runtime ran the nodes of
a step, beside the table of the CUDA provider's kernels. It compares gradients and losses with the CPU's, in float32
and bfloat16. (On the CPU it compares them with the same steps with layers recomputed, and pair by pair.) It reports
tokens a second, their share of what a large product of matrices reaches, and memory beside what --dry-run plans. Then
it tries parts on a small model that it makes, each beside the CPU (there: beside another way of computing the same).
These are steps over weights of four bits, over edits that share what they begin with, with attention in blocks, over
conversations, and of a scorer of format 2. They are also scores, gradients of pixels, and sums of gradients that stay
on the device. One that fails does not end the rest. --parts chooses some. --out writes all into one file, which can
be attached to a bug.

Exit code 1: something is not as it should be.`,
		Example: `  train doctor
  train doctor --device cuda:0 --out report.json
  train doctor --backbone DIR --steps 3
  train doctor --device cpu --parts scoring,pixels`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if o.Steps < 2 {
				return cli.Usagef("--steps must be at least 2, not %d: the first one is not timed", o.Steps)
			}
			if !cli.JSON(c) {
				o.Note = func(text string) { fmt.Fprintln(c.ErrOrStderr(), text) }
			}
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
			return cli.Reported(r.Err())
		},
	}
	f := c.Flags()
	f.StringVar(&o.Device, "device", "auto", "auto, cpu or cuda:N")
	f.StringVar(&o.Backbone, "backbone", "", "checkpoint to train an adapter on (default: a small one is made)")
	f.StringSliceVar(&o.Parts, "parts", nil, "what to try: some of "+strings.Join(doctor.Parts(), ", ")+" (default: all)")
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
	for _, line := range append([]string{m.Driver}, m.GPUs...) {
		if line != "" {
			fmt.Fprintf(w, "gpu         %s\n", line)
		}
	}
	fmt.Fprintf(w, "libraries   %s\n", strings.Join(m.Libraries, ", "))
	if r.Model.Backbone != "" {
		printTraces(w, r)
	}
	for _, row := range r.Rows {
		printRow(w, row)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(w, "note        %s\n", n)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "PROBLEM     %s\n", p)
	}
	if len(r.Problems) == 0 {
		fmt.Fprintln(w, "nothing is wrong")
	}
}

func verdict(same bool) string {
	if same {
		return "the same"
	}
	return "NOT THE SAME"
}

// printRow prints a part beside the reference.
func printRow(w io.Writer, r doctor.Row) {
	if r.Error != "" {
		fmt.Fprintf(w, "part        %s, %s: FAILED: %s\n", r.Part, r.Way, r.Error)
		return
	}
	fmt.Fprintf(
		w,
		"part        %s, %s: losses within %.1e, scores within %.1e, gradients within %.1e, %.1f s: %s\n",
		r.Part,
		r.Way,
		r.Loss,
		r.Score,
		r.Gradients,
		r.Seconds,
		verdict(r.Same),
	)
	if r.Note != "" {
		fmt.Fprintf(w, "            %s\n", r.Note)
	}
}

// printTraces prints what was found on the larger model.
func printTraces(w io.Writer, r *doctor.Report) {
	fmt.Fprintf(w, "model       %s, %s", r.Model.Backbone, r.Model.Family)
	if r.Model.Parameters > 0 { // a trace counts them
		fmt.Fprintf(w, ", %d parameters, %d train, %d pairs of %d tokens", r.Model.Parameters, r.Model.Trainable,
			r.Model.Batch, r.Model.Tokens)
	}
	fmt.Fprintln(w)
	for _, p := range r.Placement {
		var ran []string
		for _, name := range slices.Sorted(maps.Keys(p.Ran)) {
			ran = append(ran, fmt.Sprintf("%d on %s", p.Ran[name], name))
		}
		fmt.Fprintf(w, "nodes       %s: %d, run as %s; %d without a kernel in CUDA %s\n", p.Type, p.Nodes,
			strings.Join(ran, ", "), len(p.Without), p.Release)
	}
	if r.Reference == "" {
		return
	}
	fmt.Fprintf(w, "reference   %s\n", r.Reference)
	for _, t := range r.Traces {
		fmt.Fprintf(
			w,
			"trace       %s: gradients within %.1e of their norm, at most %.1e, losses of %d steps within %.1e: %s\n",
			t.Way,
			t.Distance,
			t.Gradients,
			len(t.Losses),
			t.Loss,
			verdict(t.Same),
		)
	}
	for _, s := range r.Speed {
		fmt.Fprintf(w, "speed       %s: %.0f tokens/s, %.3f s a step, %.0f of %.0f GFLOP/s (%.0f %%)\n", s.Way, s.Tokens,
			s.Seconds, s.Rate/1e9, s.Peak/1e9, 100*s.Share)
	}
	fmt.Fprintf(w, "memory      %v\n", r.Memory)
}
