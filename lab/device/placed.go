package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/doctor/trial"
	"assay/internal/kernels"
	"assay/onnx"
)

// Placed describes where the session ran the nodes of a step and of the vision tower, compared with the table of the
// CUDA provider's kernels.
type Placed struct {
	Type    string         `json:"type"`
	Release string         `json:"table"`            // ONNX Runtime release of the table
	Nodes   int            `json:"nodes"`            // in the graphs
	Without []string       `json:"without_kernel"`   // without a kernel in the table, except those that compute sizes
	Ran     map[string]int `json:"ran"`              // nodes by provider
	Host    map[string]int `json:"on_the_host"`      // on CUDA: nodes that ran on the CPU, by operator
	Strays  map[string]int `json:"strays,omitempty"` // of those, with a kernel and not computing sizes
	Made    []string       `json:"made,omitempty"`   // operators that the runtime substituted for others
}

// event is one event of ONNX Runtime's trace.
type event struct {
	Cat  string
	Name string
	Args struct {
		Op       string                 `json:"op_name"`
		Provider string                 `json:"provider"`
		Outputs  []map[string][]float64 `json:"output_type_shape"`
	}
}

// place profiles a step with ONNX Runtime and compares it with the table.
func (d *visit) place(ctx context.Context) error {
	types := []string{"float32"}
	if d.cuda() {
		types = append(types, "bfloat16")
	}
	for _, dtype := range types {
		d.note("checking where nodes run, in " + dtype)
		prefix := filepath.Join(d.folder, "profile-"+dtype)
		var graphs []*onnx.Model
		w := trial.Way{Device: d.device, DType: dtype, Profile: prefix, OnGraph: func(_ string, m *onnx.Model) {
			graphs = append(graphs, m)
		}}
		if _, err := d.step(ctx, w, stepOf{resident: d.cuda()}); err != nil {
			d.problem("%v, profiled: %v", w, err)
			continue
		}
		p, err := placed(prefix, graphs, d.cuda())
		if err != nil {
			return err
		}
		p.Type = dtype
		if len(p.Without) > 0 {
			d.problem("%s: nodes without a CUDA kernel: %s", dtype, strings.Join(p.Without, ", "))
		}
		for _, op := range slices.Sorted(maps.Keys(p.Strays)) {
			d.problem("%s: %d nodes of %s ran on the host although there is a kernel", dtype, p.Strays[op], op)
		}
		d.Placement = append(d.Placement, *p)
	}
	return nil
}

// placed reads the traces with a file prefix.
func placed(prefix string, graphs []*onnx.Model, cuda bool) (*Placed, error) {
	p := &Placed{Release: kernels.Release(), Ran: map[string]int{}, Host: map[string]int{}, Without: []string{}}
	known, lacking := map[string]bool{}, map[string]bool{}
	for _, m := range graphs {
		p.Nodes += len(m.Nodes)
		for _, n := range m.Nodes {
			known[n.Op] = true
		}
		lacks, err := kernels.Lacking(m)
		if err != nil {
			return nil, err
		}
		for _, l := range lacks {
			if lacking[l.Op] = true; !l.Sizes {
				p.Without = append(p.Without, l.String())
			}
		}
	}
	files, err := filepath.Glob(prefix + "*")
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("ONNX Runtime wrote no profile at %s (%v)", prefix, err)
	}
	seen, made := map[string]bool{}, map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var events []event
		if err := json.Unmarshal(raw, &events); err != nil {
			return nil, fmt.Errorf("the profile %s: %w", file, err)
		}
		for _, e := range events {
			if e.Cat != "Node" || e.Args.Provider == "" || seen[file+e.Name] {
				continue
			}
			seen[file+e.Name] = true
			if !known[e.Args.Op] && !strings.HasPrefix(e.Args.Op, "Memcpy") {
				made[e.Args.Op] = true
			}
			p.count(e, cuda, lacking)
		}
	}
	p.Made = slices.Sorted(maps.Keys(made))
	return p, nil
}

// count records where a node ran.
func (p *Placed) count(e event, cuda bool, lacking map[string]bool) {
	op := e.Args.Op
	p.Ran[e.Args.Provider]++
	if !cuda || e.Args.Provider != "CPUExecutionProvider" {
		return
	}
	if p.Host[op]++; !lacking[op] && floats(e.Args.Outputs) && !mask(op, e.Args.Outputs) {
		if p.Strays == nil {
			p.Strays = map[string]int{}
		}
		p.Strays[op]++
	}
}

// maxMask is the maximum number of floating-point numbers of a small mask.
const maxMask = 64 << 10

// mask reports whether a node makes a small mask: the runtime computes it on the host, where its sizes are, and
// copies it.
func mask(op string, outputs []map[string][]float64) bool {
	if op != "Where" {
		return false
	}
	n := 1.0
	for _, o := range outputs {
		for _, shape := range o {
			for _, size := range shape {
				n *= size
			}
		}
	}
	return n <= maxMask
}

// floats reports whether any output is a floating-point tensor: others are sizes, which belong on the host.
func floats(outputs []map[string][]float64) bool {
	for _, o := range outputs {
		for t := range o {
			if strings.Contains(t, "float") || t == "double" {
				return true
			}
		}
	}
	return false
}
