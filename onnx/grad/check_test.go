package grad

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/long"
	"assay/onnx"
	"assay/ort"
)

// program is a session that computes outputs and gradients.
type program struct {
	g       *gen
	s       *ort.Session
	outputs []string // floating-point ones
}

// open differentiates the case in double precision if the runtime has the kernels, else in single.
func open(t *testing.T, c opCase, opset, k int64, dynamic bool, seed uint64) *program {
	t.Helper()
	if strings.HasPrefix(c.op, onnx.FusedDomain+".") {
		wantsFused(t)
	}
	var failures []error
	for _, dtype := range []onnx.DType{onnx.Double, onnx.Float} {
		if c.single && dtype == onnx.Double {
			continue
		}
		g := newGen(c, opset, k, dtype, dynamic, seed)
		p := &program{g: g}
		m := g.b.M
		types, err := onnx.Infer(m)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Cotangents: map[string]string{}, Wrt: g.wrt}
		for _, y := range g.outputs {
			v := types.Of(y)
			if !v.Type.IsFloat() {
				continue
			}
			p.outputs = append(p.outputs, y)
			m.Inputs = append(m.Inputs, onnx.ValueInfo{Name: "ct_" + y, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
			m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: y, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
			o.Outputs, o.Cotangents[y] = append(o.Outputs, y), "ct_"+y
		}
		grads, err := Append(m, o)
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range g.wrt {
			m.Nodes = append(
				m.Nodes,
				&onnx.Node{
					Name:    "grad_" + x,
					Op:      "Identity",
					Inputs:  []string{grads[x]},
					Outputs: []string{"grad_" + x},
				},
			)
			m.Outputs = append(m.Outputs, onnx.ValueInfo{Name: "grad_" + x, Type: dtype})
		}
		if err := onnx.Check(m); err != nil {
			t.Fatalf("the graph with gradients: got error %v, want none", err)
		}
		if p.s, err = ort.Open(m, ort.Options{Threads: 1}); err == nil {
			t.Cleanup(func() { p.s.Close() })
			return p
		}
		if failures = append(failures, err); !strings.Contains(err.Error(), "Could not find an implementation") &&
			!strings.Contains(err.Error(), "Type Error") {
			break
		}
	}
	t.Fatalf("got %v, want a session", errors.Join(failures...))
	return nil
}

// wantsFused skips a test of fused operators if there is no compiler for them.
func wantsFused(t *testing.T) {
	t.Helper()
	if _, err := ort.FusedLibrary(); err == nil {
		return
	} else if _, noCompiler := exec.LookPath("g++"); noCompiler == nil {
		t.Fatal(err)
	}
	t.Skip("g++ is not installed: there are no fused operators")
}

// run evaluates the program; cotangents default to zero.
func (p *program) run(
	t *testing.T,
	feeds map[string]*tensor.Dense,
	ct map[string][]float64,
	shapes map[string][]int,
) map[string]*tensor.Dense {
	t.Helper()
	in := map[string]*tensor.Dense{}
	for k, v := range feeds {
		in[k] = v
	}
	for _, y := range p.outputs {
		in["ct_"+y] = dense(p.g.t, shapes[y], ct[y])
	}
	out, err := p.s.Run(context.Background(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// shapes finds the output shapes by running only the forward node.
func (p *program) shapes(t *testing.T, c opCase, opset, k int64, seed uint64) map[string][]int {
	t.Helper()
	g := newGen(c, opset, k, p.g.t, p.g.dynamic, seed)
	types, err := onnx.Infer(g.b.M)
	if err != nil {
		t.Fatal(err)
	}
	for _, y := range p.outputs {
		v := types.Of(y)
		g.b.M.Outputs = append(g.b.M.Outputs, onnx.ValueInfo{Name: y, Type: v.Type, Shape: v.Shape, Ranked: v.Ranked})
	}
	s, err := ort.Open(g.b.M, ort.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out, err := s.Run(context.Background(), g.feeds)
	if err != nil {
		t.Fatal(err)
	}
	shapes := map[string][]int{}
	for y, d := range out {
		shapes[y] = append([]int{}, d.Shape()...)
		if d.IsScalar() {
			shapes[y] = []int{}
		}
	}
	return shapes
}

func floats(d *tensor.Dense) []float64 {
	switch v := d.Data().(type) {
	case float64:
		return []float64{v}
	case float32:
		return []float64{float64(v)}
	case []float64:
		return v
	case []float32:
		out := make([]float64, len(v))
		for i := range v {
			out[i] = float64(v[i])
		}
		return out
	}
	return nil
}

func shapeOf(d *tensor.Dense) []int {
	if d.IsScalar() {
		return []int{}
	}
	return d.Shape()
}

// precision returns the step and the tolerance of central differences.
func (p *program) precision() (h, tol float64) {
	if p.g.t == onnx.Double {
		return 1e-5, 1e-6
	}
	return 4e-3, 5e-3
}

// TestJacobians compares the full Jacobian of every rule with central differences, on tiny shapes.
func TestJacobians(t *testing.T) {
	for n, c := range opCases() {
		t.Run(fmt.Sprintf("%s/%d", c.op, n), func(t *testing.T) {
			seed := seedOf(c.op, n)
			opset := c.from
			p := open(t, c, opset, 1, false, seed)
			shapes := p.shapes(t, c, opset, 1, seed)
			zero := map[string][]float64{}
			for y, s := range shapes {
				zero[y] = make([]float64, product(s))
			}
			analytic := map[[2]string][][]float64{} // output, input -> rows over the output's elements
			for _, y := range p.outputs {
				for j := range zero[y] {
					ct := map[string][]float64{}
					for k, v := range zero {
						ct[k] = v
					}
					ct[y] = slices.Clone(zero[y])
					ct[y][j] = 1
					out := p.run(t, p.g.feeds, ct, shapes)
					for _, x := range p.g.wrt {
						key := [2]string{y, x}
						analytic[key] = append(analytic[key], slices.Clone(floats(out["grad_"+x])))
					}
				}
			}
			h, tol := p.precision()
			for _, x := range p.g.wrt {
				base := floats(p.g.feeds[x])
				for i := range base {
					at := func(d float64) map[string]*tensor.Dense {
						moved := slices.Clone(base)
						moved[i] += d
						feeds := map[string]*tensor.Dense{}
						for k, v := range p.g.feeds {
							feeds[k] = v
						}
						feeds[x] = dense(p.g.t, shapeOf(p.g.feeds[x]), moved)
						return p.run(t, feeds, zero, shapes)
					}
					up, down := at(h), at(-h)
					for _, y := range p.outputs {
						a, b := floats(up[y]), floats(down[y])
						for j := range a {
							numeric, got := (a[j]-b[j])/(2*h), analytic[[2]string{y, x}][j][i]
							if !(math.Abs(numeric-got) <= tol*(1+math.Abs(numeric))) {
								t.Fatalf("seed %d: d %s[%d] / d %s[%d]: got %g, want the finite difference %g", seed, y, j, x, i, got, numeric)
							}
						}
					}
				}
			}
		})
	}
}

func seedOf(op string, n int) uint64 {
	h := fnv.New32a()
	fmt.Fprint(h, op, n)
	return uint64(h.Sum32())
}

func product(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// TestDirections compares, on larger shapes, the derivative along one random direction with a central difference,
// both with all sizes known and with none.
func TestDirections(t *testing.T) {
	long.Test(t)
	for n, c := range opCases() {
		for _, dynamic := range []bool{false, true} {
			if dynamic && c.static {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d/dynamic=%v", c.op, n, dynamic), func(t *testing.T) {
				seed := seedOf(c.op, n) + 1
				opset := c.to
				if opset == 0 {
					opset = 23
				}
				p := open(t, c, opset, 3, dynamic, seed)
				shapes := p.shapes(t, c, opset, 3, seed)
				ct := map[string][]float64{}
				scale := 0.0
				for _, y := range p.outputs {
					ct[y] = make([]float64, product(shapes[y]))
					for i := range ct[y] {
						ct[y][i] = p.g.rng.NormFloat64()
					}
					scale += math.Sqrt(float64(len(ct[y])))
				}
				h, tol := p.precision()
				direction := map[string][]float64{}
				for _, x := range p.g.wrt {
					direction[x] = make([]float64, len(floats(p.g.feeds[x])))
					for i := range direction[x] {
						direction[x][i] = max(-2, min(2, p.g.rng.NormFloat64()))
					}
				}
				at := func(d float64) float64 {
					feeds := map[string]*tensor.Dense{}
					for k, v := range p.g.feeds {
						feeds[k] = v
					}
					for x, dir := range direction {
						moved := slices.Clone(floats(feeds[x]))
						for i := range moved {
							moved[i] += d * dir[i]
						}
						feeds[x] = dense(p.g.t, shapeOf(feeds[x]), moved)
					}
					out := p.run(t, feeds, ct, shapes)
					sum := 0.0
					for _, y := range p.outputs {
						for i, v := range floats(out[y]) {
							sum += v * ct[y][i]
						}
					}
					return sum
				}
				numeric := (at(h) - at(-h)) / (2 * h)
				out := p.run(t, p.g.feeds, ct, shapes)
				got := 0.0
				for x, dir := range direction {
					for i, v := range floats(out["grad_"+x]) {
						got += v * dir[i]
					}
				}
				if !(math.Abs(numeric-got) <= tol*(1+scale+math.Abs(numeric))) {
					t.Fatalf("seed %d: derivative: got %g, want the finite difference %g", seed, got, numeric)
				}
			})
		}
	}
}

// TestEveryRuleIsChecked: each rule has a case in its range of versions.
func TestEveryRuleIsChecked(t *testing.T) {
	for i := range table {
		r := &table[i]
		found := slices.ContainsFunc(opCases(), func(c opCase) bool {
			g := newGen(c, c.from, 1, onnx.Float, false, 1)
			return slices.ContainsFunc(
				g.b.M.Nodes,
				func(n *onnx.Node) bool { return n.Op == r.op && n.Domain == r.domain && c.op == name(r) },
			)
		})
		if !found {
			t.Errorf("the rule of %s: got no check, want one in opCases", name(r))
		}
	}
}

func name(r *entry) string {
	if r.domain == "" {
		return r.op
	}
	return r.domain + "." + r.op
}

// TestDecompositions: the decomposition that a rule differentiates computes the same values as the node.
func TestDecompositions(t *testing.T) {
	for n, c := range opCases() {
		g := newGen(c, c.from, 3, onnx.Float, false, seedOf(c.op, n))
		m := g.b.M
		node := m.Nodes[len(m.Nodes)-1]
		r := lookup(node, m.Opset(node.Domain))
		if r == nil || r.decompose == nil {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d", c.op, n), func(t *testing.T) {
			types, err := onnx.Infer(m)
			if err != nil {
				t.Fatal(err)
			}
			e := newEngine(m, types)
			e.b = g.b
			cl := &call{
				Builder:   g.b,
				e:         e,
				n:         node,
				x:         node.Inputs,
				y:         node.Outputs,
				dy:        node.Outputs,
				needsGrad: make([]bool, len(node.Inputs)),
			}
			again := r.decompose(cl)
			if cl.err != nil || e.sync() != nil {
				t.Fatalf("got errors %v, %v, want none", cl.err, e.err)
			}
			for i, y := range node.Outputs {
				if !types.Of(y).Type.IsFloat() || !slices.Contains(g.outputs, y) {
					continue
				}
				m.Nodes = append(
					m.Nodes,
					&onnx.Node{
						Name:    "again" + y,
						Op:      "Identity",
						Inputs:  []string{again[i]},
						Outputs: []string{"again" + y},
					},
				)
				m.Outputs = append(
					m.Outputs,
					onnx.ValueInfo{Name: y, Type: onnx.Float},
					onnx.ValueInfo{Name: "again" + y, Type: onnx.Float},
				)
			}
			s, err := ort.Open(m, ort.Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			out, err := s.Run(context.Background(), g.feeds)
			if err != nil {
				t.Fatal(err)
			}
			for _, y := range node.Outputs {
				if out[y] == nil {
					continue
				}
				a, b := floats(out[y]), floats(out["again"+y])
				if len(a) != len(b) {
					t.Fatalf("%s: got shape %v from its decomposition, want %v", y, out["again"+y].Shape(), out[y].Shape())
				}
				for i := range a {
					if !(math.Abs(a[i]-b[i]) <= 1e-5*(1+math.Abs(a[i]))) {
						t.Fatalf("%s[%d]: got %g from its decomposition, want %g", y, i, b[i], a[i])
					}
				}
			}
		})
	}
}
