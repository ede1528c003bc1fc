// Package kernels finds, without a GPU, the nodes of a model that ONNX Runtime's CUDA provider has no kernel for. It
// looks up each node's operator, version and types in a table, which is the kernel registry of the pinned release;
// see tools/oracle/cuda_kernels.py.
package kernels

import (
	"cmp"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"assay/onnx"
)

//go:embed cuda.txt
var cuda string

//go:embed fused.txt
var fused string

// version is one version of an operator.
type version struct {
	domain, op string
	since      int64
}

// kernel lists the types that some inputs and outputs must have.
type kernel []constraint

type constraint struct {
	of    []place // these have one type, unless they are mixed
	types []string
	mixed bool
}

// place is an input or an output of a node.
type place struct {
	output bool
	index  int
}

var table = read(cuda + fused)

// kernels are the kernels of all operators in the runtime, by version.
type kernels struct {
	of    map[version][]kernel
	since map[[2]string][]int64 // versions by domain and operator
}

// read parses the table. A line has the domain, the operator, its version, the versions that a kernel is registered
// for or none, and types by inputs and outputs ("i0,o0=float,double i1=int64").
func read(text string) kernels {
	out := kernels{map[version][]kernel{}, map[[2]string][]int64{}}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if strings.HasPrefix(line, "#") {
			continue
		}
		v := version{domain: f[0], op: f[1]}
		if v.domain == "ai.onnx" {
			v.domain = ""
		}
		v.since, _ = strconv.ParseInt(f[2], 10, 64)
		out.since[[2]string{v.domain, v.op}] = append(out.since[[2]string{v.domain, v.op}], v.since)
		if f[3] == "none" {
			continue
		}
		k := kernel{}
		for _, part := range f[4:] {
			of, types, _ := strings.Cut(part, "=")
			c := constraint{types: strings.Split(types, ","), mixed: slices.Contains([]string{"If", "Loop", "Scan"}, v.op)}
			for _, p := range strings.Split(of, ",") {
				index, _ := strconv.Atoi(p[1:])
				c.of = append(c.of, place{p[0] == 'o', index})
			}
			k = append(k, c)
		}
		out.of[v] = append(out.of[v], k)
	}
	return out
}

// Release is the version of ONNX Runtime whose registry is in the table.
func Release() string {
	return strings.TrimSuffix(strings.Fields(cuda)[5], "'s")
}

// MissingKernel is a node that has no kernel.
type MissingKernel struct {
	*onnx.Node
	Since int64    // version of its operator
	Types []string // of its inputs; "" for an omitted one
	// Sizes: the node computes integers only from sizes and constants. ONNX Runtime leaves such nodes on the CPU even
	// if the provider has a kernel, because consumers of sizes read them there.
	Sizes bool
}

func (l MissingKernel) String() string {
	return fmt.Sprintf("%s %s %d (%s)", domainName(l.Domain), l.Op, l.Since, strings.Join(l.Types, ", "))
}

func domainName(domain string) string {
	return cmp.Or(domain, "ai.onnx")
}

// Lacking lists the nodes of a model that the CUDA provider has no kernel for: none for the operator, for its version
// in the model's opset, or for its types. The runtime would run them on the CPU, with copies there and back. The body
// of a Scan is checked as well.
func Lacking(m *onnx.Model) ([]MissingKernel, error) {
	types, err := onnx.Infer(m)
	if err != nil {
		return nil, err
	}
	s := sizes(m)
	var out []MissingKernel
	for _, n := range m.Nodes {
		if body := types.LastStep(n); body != nil {
			inside, err := Lacking(body)
			if err != nil {
				return nil, fmt.Errorf("in the body of %v: %w", n, err)
			}
			out = append(out, inside...)
		} else if len(n.Captures()) > 0 {
			return nil, fmt.Errorf("%v has a subgraph, which is not checked", n)
		}
		l := MissingKernel{Node: n, Since: since(n.Domain, n.Op, m.Opset(n.Domain))}
		for _, in := range n.Inputs {
			l.Types = append(l.Types, typeName(types, in))
		}
		var outputs []string
		for _, o := range n.Outputs {
			outputs = append(outputs, typeName(types, o))
		}
		if has(version{n.Domain, n.Op, l.Since}, l.Types, outputs) {
			continue
		}
		l.Sizes = s[n.Outputs[0]] && types.Of(n.Outputs[0]).Type.Discrete()
		out = append(out, l)
	}
	return out, nil
}

// since returns the version of an operator in an opset of its domain: the newest one that is not newer than the
// opset; 0 if there is none.
func since(domain, op string, opset int64) (best int64) {
	for _, v := range table.since[[2]string{domain, op}] {
		if v <= opset {
			best = max(best, v)
		}
	}
	return best
}

// has reports whether there is a kernel for these types of inputs and outputs; "" is an omitted one.
func has(v version, inputs, outputs []string) bool {
	return slices.ContainsFunc(table.of[v], func(k kernel) bool {
		return !slices.ContainsFunc(k, func(c constraint) bool { return !c.fits(inputs, outputs) })
	})
}

func (c constraint) fits(inputs, outputs []string) bool {
	first := ""
	for _, p := range c.of {
		types := inputs
		if p.output {
			types = outputs
		}
		if p.index >= len(types) || types[p.index] == "" {
			continue
		}
		if first = cmp.Or(first, types[p.index]); types[p.index] != first && !c.mixed {
			return false
		}
	}
	return first == "" || slices.Contains(c.types, first)
}

func typeName(types *onnx.Types, value string) string {
	if value == "" {
		return ""
	}
	if t := types.Of(value).Type; t != onnx.Undefined {
		return t.String()
	}
	return "unknown"
}

// sizes finds the values that are computed only from sizes and constants.
func sizes(m *onnx.Model) map[string]bool {
	out := map[string]bool{}
	for _, t := range m.Initializers {
		out[t.Name] = t.Type == onnx.Int64
	}
	for _, n := range m.Nodes {
		all := n.Op == "Shape" || n.Op == "Size"
		if !all {
			all = !slices.ContainsFunc(n.Inputs, func(name string) bool { return name != "" && !out[name] })
		}
		for _, o := range n.Outputs {
			out[o] = all
		}
	}
	return out
}
