// Command device checks what `train doctor` does not, on any device of ONNX Runtime: where the nodes of a training
// step run; steps with 4-bit weights, with edits that share a prefix, with attention in blocks, over conversations
// and of a scorer of format 2; scores, pixel gradients, and gradient sums that stay on the device. Each part runs on
// a small model that it makes, and is compared with the CPU (on the CPU: with pairs one by one).
//
//	build/lab/device
//	build/lab/device -device cuda:0 -out report.json
//	build/lab/device -parts scoring,pixels
//
// The exit code is 1 if something differs or fails.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/doctor/trial"
	"assay/internal/jsonfile"
	"assay/internal/signals"
	"assay/model/fresh"
	"assay/ort"
)

func main() {
	device := flag.String("device", "auto", "auto, cpu or cuda:N")
	chosen := flag.String("parts", "", "some of "+strings.Join(partNames(), ",")+" (default: all)")
	out := flag.String("out", "", "JSON file to write the report to")
	flag.Parse()
	note := func(text string) { fmt.Fprintln(os.Stderr, text) }
	r, err := run(signals.Context(), *device, strings.FieldsFunc(*chosen, func(r rune) bool { return r == ',' }), note)
	if err == nil && *out != "" {
		err = jsonfile.Write(*out, r)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
	r.print(os.Stdout)
	if len(r.Problems) > 0 {
		os.Exit(1)
	}
}

// report holds the results.
type report struct {
	Device    string   `json:"device"`
	Placement []Placed `json:"placement"` // of the nodes of a step, by type
	Rows      []Row    `json:"parts"`     // each part, compared with the reference
	Problems  []string `json:"problems"`  // differences and failures
}

// visit checks one device.
type visit struct {
	*report
	device   string
	chosen   []string // parts to run; none: all
	note     func(text string)
	folder   string // for generated files
	backbone string // checkpoint of the parts
}

func (d *visit) cuda() bool { return strings.HasPrefix(d.device, "cuda") }

func (d *visit) problem(format string, args ...any) {
	d.Problems = append(d.Problems, fmt.Sprintf(format, args...))
}

// run checks the chosen parts of a device. A part that differs or fails is a problem in the report; the others still
// run.
func run(ctx context.Context, device string, chosen []string, note func(text string)) (*report, error) {
	for _, name := range chosen {
		if !slices.Contains(partNames(), name) {
			return nil, fmt.Errorf("unknown part %q: want some of %s", name, strings.Join(partNames(), ", "))
		}
	}
	device, err := ort.Resolve(device)
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "assay-device-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(folder)
	d := &visit{&report{Device: device, Problems: []string{}}, device, chosen, note, folder,
		filepath.Join(folder, "small")}
	sizes, err := fresh.Defaults(fresh.Qwen25VL)
	if err != nil {
		return nil, err
	}
	sizes.Layers, sizes.VisionLayers, sizes.FullAttention = 2, 2, []int{1}
	sizes.Intermediate = 480 // an even number of packed blocks in some layers, an odd number in others
	sizes.MinPixels, sizes.MaxPixels = 28*28*16, 28*28*16
	if err := trial.Checkpoint(d.backbone, sizes); err != nil {
		return nil, err
	}
	if d.wants(partPlacement) {
		if err := d.place(ctx); err != nil {
			d.problem("%s: %v", partPlacement, err)
		}
	}
	for _, p := range parts {
		if d.wants(p.name) {
			d.tryPart(ctx, p)
		}
	}
	if d.wants(partResident) {
		d.tryResident(ctx)
	}
	return d.report, ctx.Err()
}

func (r *report) print(w io.Writer) {
	for _, p := range r.Placement {
		var ran []string
		for _, name := range slices.Sorted(maps.Keys(p.Ran)) {
			ran = append(ran, fmt.Sprintf("%d on %s", p.Ran[name], name))
		}
		fmt.Fprintf(w, "nodes       %s: %d, run as %s; %d without a kernel in CUDA %s\n", p.Type, p.Nodes,
			strings.Join(ran, ", "), len(p.Without), p.Release)
	}
	for _, row := range r.Rows {
		if row.Error != "" {
			fmt.Fprintf(w, "part        %s, %s: FAILED: %s\n", row.Part, row.Way, row.Error)
			continue
		}
		verdict := "the same"
		if !row.Same {
			verdict = "NOT THE SAME"
		}
		fmt.Fprintf(w, "part        %s, %s: losses within %.1e, scores within %.1e, gradients within %.1e, %.1f s: %s\n",
			row.Part, row.Way, row.Loss, row.Score, row.Gradients, row.Seconds, verdict)
		if row.Note != "" {
			fmt.Fprintf(w, "            %s\n", row.Note)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintf(w, "PROBLEM     %s\n", p)
	}
	if len(r.Problems) == 0 {
		fmt.Fprintln(w, "no problems")
	}
}
