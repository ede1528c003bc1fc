package grad

import (
	"bufio"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/long"
	"assay/onnx"
	"assay/ort"
)

// stack is a tower of residual MLP layers, each a segment, with the gradient of every weight's input as output.
func stack(t *testing.T, layers, rows, width int64, recompute bool) (*onnx.Model, map[string]*tensor.Dense) {
	t.Helper()
	rng := rand.New(rand.NewPCG(5, 6))
	random := func(shape ...int64) *tensor.Dense {
		n := int64(1)
		ints := make([]int, len(shape))
		for i, d := range shape {
			n *= d
			ints[i] = int(d)
		}
		data := make([]float64, n)
		for i := range data {
			data[i] = rng.NormFloat64() / math.Sqrt(float64(width))
		}
		return dense(onnx.Float, ints, data)
	}
	b := onnx.NewBuilder("stack", 23)
	feeds := map[string]*tensor.Dense{"x": random(rows, width)}
	x := b.Input("x", onnx.Float, onnx.Dims("rows", width))
	wrt := []string{"x"}
	for i := range layers {
		name := fmt.Sprint("layer", i)
		b.Segment(name, func() {
			up := b.Input(name+".up", onnx.Float, onnx.Dims(4*width, width))
			down := b.Input(name+".down", onnx.Float, onnx.Dims(width, 4*width))
			feeds[up], feeds[down] = random(4*width, width), random(width, 4*width)
			wrt = append(wrt, up, down)
			h := b.OpA("Gemm", onnx.Attrs{"transB": 1}, x, up)
			h = b.Op("Mul", b.Op("Tanh", h), b.Op("Sigmoid", h))
			x = b.Op("Add", x, b.OpA("Gemm", onnx.Attrs{"transB": 1}, h, down))
		})
	}
	loss := b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, b.Op("Mul", x, x))
	grads, err := Append(b.M, Options{Outputs: []string{loss}, Wrt: wrt, Recompute: recompute})
	if err != nil {
		t.Fatal(err)
	}
	b = onnx.Extend(b.M)
	for _, w := range wrt {
		b.Output("grad."+w, grads[w], onnx.Float, nil)
	}
	return b.M, feeds
}

func TestRecomputeKeepsGradients(t *testing.T) {
	var results [2]map[string]*tensor.Dense
	for i, recompute := range []bool{false, true} {
		m, feeds := stack(t, 3, 5, 4, recompute)
		s, err := ort.Open(m, ort.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if results[i], err = s.Run(context.Background(), feeds); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range results[0] {
		a, b := floats(want), floats(results[1][name])
		for i := range a {
			if !(math.Abs(a[i]-b[i]) <= 1e-6*(1+math.Abs(a[i]))) {
				t.Fatalf("%s[%d]: got %g with recomputation, want %g", name, i, b[i], a[i])
			}
		}
	}
}

// TestRecomputeWaitsForResults: a segment is not recomputed before the gradients of the weights in later segments are
// there. ONNX Runtime computes values without readers last, and would keep everything that they are computed from
// until then.
func TestRecomputeWaitsForResults(t *testing.T) {
	m, _ := stack(t, 4, 5, 4, true)
	maker := map[string]*onnx.Node{}
	for _, n := range m.Nodes {
		for _, y := range n.Outputs {
			maker[y] = n
		}
	}
	before := map[string]bool{}
	var follow func(x string)
	follow = func(x string) {
		if n := maker[x]; n != nil && !before[x] {
			before[x] = true
			for _, x := range n.Reads() {
				follow(x)
			}
		}
	}
	grads := map[string]string{}
	for _, v := range m.Outputs {
		n := maker[v.Name]
		if n.Op != "Identity" {
			t.Fatalf("output %q: got it from %v, want an Identity", v.Name, n)
		}
		grads[v.Name] = n.Inputs[0]
	}
	follow(grads["grad.x"])
	for i := 2; i < 4; i++ { // layer0 reads an input of the model, so it is not recomputed
		for _, w := range []string{"up", "down"} {
			if name := fmt.Sprintf("grad.layer%d.%s", i, w); !before[grads[name]] {
				t.Errorf("gradient of the input: got it before %s, want it after", name)
			}
		}
	}
}

// TestRecomputeFollowsCaptures: captures of the body of a Scan in its own segment are recomputed as well, and the
// backward pass does not read the forward values.
func TestRecomputeFollowsCaptures(t *testing.T) {
	var results [2]map[string]*tensor.Dense
	for i, recompute := range []bool{false, true} {
		b := onnx.NewBuilder("captures", 23)
		x := b.Input("x", onnx.Float, onnx.Dims("n", 3))
		w := b.Input("w", onnx.Float, onnx.Dims(3, 3))
		var inside []string
		y := b.Op("Mul", x, x)
		b.Segment("layer", func() {
			k, q := b.Op("MatMul", y, w), b.Op("Tanh", y)
			inside = []string{k, q}
			body := b.Body("row", func() {
				q := b.Input(b.Name("q"), onnx.Float, onnx.Dims(3))
				b.Output(b.Name("y"), b.Op("Sin", b.Op("MatMul", k, q)), onnx.Float, onnx.Dims("n"))
			})
			y = b.OpA("Scan", attrs{"body": body, "num_scan_inputs": 1}, q)
		})
		forward := len(b.M.Nodes)
		loss := b.OpA("ReduceSum", onnx.Attrs{"keepdims": 0}, b.Op("Mul", y, y))
		grads, err := Append(b.M, Options{Outputs: []string{loss}, Wrt: []string{"x", "w"}, Recompute: recompute})
		if err != nil {
			t.Fatal(err)
		}
		b = onnx.Extend(b.M)
		for _, name := range []string{"x", "w"} {
			b.Output("grad."+name, grads[name], onnx.Float, nil)
		}
		for _, n := range b.M.Nodes[forward:] {
			for _, v := range inside {
				if recompute && slices.Contains(n.Reads(), v) {
					t.Errorf("%v: got it reading the forward value %q, want the recomputed one", n, v)
				}
			}
		}
		s, err := ort.Open(b.M, ort.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		results[i], err = s.Run(context.Background(), map[string]*tensor.Dense{
			"x": dense(onnx.Float, []int{2, 3}, []float64{0.5, -1, 0.25, 2, 0.75, -0.5}),
			"w": dense(onnx.Float, []int{3, 3}, []float64{1, 2, -1, 0.5, 0.25, 1, -2, 1, 0.5}),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range results[0] {
		for i, v := range floats(want) {
			if again := floats(results[1][name])[i]; !(math.Abs(again-v) <= 1e-6*(1+math.Abs(v))) {
				t.Errorf("%s[%d]: got %g with recomputation, want %g", name, i, again, v)
			}
		}
	}
}

// TestRecomputeSavesMemory compares the peaks of two separate processes.
func TestRecomputeSavesMemory(t *testing.T) {
	long.Test(t)
	if v := os.Getenv("ASSAY_TEST_RECOMPUTE"); v != "" {
		m, feeds := stack(t, 10, 2000, 256, v == "true")
		s, err := ort.Open(m, ort.Options{Threads: 1, LowMemory: true})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		before := status(t, "VmRSS:")
		if _, err := s.Run(context.Background(), feeds); err != nil {
			t.Fatal(err)
		}
		fmt.Println("peak", status(t, "VmHWM:")-before)
		return
	}
	var peaks [2]int
	for i, v := range []string{"false", "true"} {
		c := exec.Command(os.Args[0], "-test.run=^TestRecomputeSavesMemory$")
		c.Env = append(os.Environ(), "ASSAY_TEST_RECOMPUTE="+v)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("the child: got error %v, want none\n%s", err, out)
		}
		_, rest, _ := strings.Cut(string(out), "peak ")
		if _, err := fmt.Sscan(rest, &peaks[i]); err != nil {
			t.Fatalf("got error %v, want a peak in\n%s", err, out)
		}
	}
	t.Logf("peak above the weights: %d kB, with recomputation %d kB", peaks[0], peaks[1])
	if peaks[1] > peaks[0]*2/3 {
		t.Errorf("got %d kB with recomputation, %d kB without, want at most two thirds", peaks[1], peaks[0])
	}
}

// status reads a memory figure of this process, kB.
func status(t *testing.T, field string) int {
	t.Helper()
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		if words := strings.Fields(s.Text()); len(words) > 1 && words[0] == field {
			n, err := strconv.Atoi(words[1])
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("got no %s, want it", field)
	return 0
}

// TestRandomNodesAreKept: nodes that draw random numbers are not recomputed. Dropout from a seed is: it drops the same
// elements again, and its output is as large as its input.
func TestRandomNodesAreKept(t *testing.T) {
	b := onnx.NewBuilder("noise", 23)
	x, seed := b.Input("x", onnx.Float, onnx.Dims(2, 2)), b.Input("seed", onnx.Int64, onnx.Dims(1))
	h := b.Op("Exp", x)
	b.Segment("layer", func() {
		h = b.Node(onnx.FusedDomain, "Dropout", 1, onnx.Attrs{"rate": 0.5}, h, seed)[0]
		h = b.Op("Mul", h, h) // its gradient reads h
		h = b.Op("Mul", h, b.OpA("RandomUniformLike", onnx.Attrs{"seed": 1.0}, h))
		h = b.Node("", "Dropout", 2, onnx.Attrs{"seed": 1}, h, b.Floats(nil, 0.5), b.Input("on", onnx.Bool, nil))[0]
		h = b.Op("Mul", h, h)
	})
	if _, err := Append(b.M, Options{Outputs: []string{h}, Wrt: []string{x}, Recompute: true}); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, k := range b.M.Nodes {
		got[k.Domain+"."+k.Op]++
	}
	for op, want := range map[string]int{
		".RandomUniformLike": 1,
		".Dropout":           1,
		"assay.Dropout":      3, // forward, again, and the gradient
	} {
		if got[op] != want {
			t.Errorf("got %d nodes of %s, want %d", got[op], op, want)
		}
	}
}

// TestDroppedAgain: gradients draw dropout from a seed again if its input is kept for more than one of them, and do so
// only when they are there.
func TestDroppedAgain(t *testing.T) {
	for _, c := range []struct {
		sites int
		as    onnx.DType // in which the products read the rows
		again int
	}{
		{1, onnx.Float, 0},
		{1, onnx.Double, 0},
		{2, onnx.Float, 2},
		{2, onnx.Double, 2},
	} {
		t.Run(fmt.Sprint(c.sites, c.as), func(t *testing.T) {
			b := onnx.NewBuilder("dropped", 23)
			x, seed := b.Input("x", onnx.Float, onnx.Dims("rows", 4)), b.Input("seed", onnx.Int64, onnx.Dims(1))
			var outputs, weights []string
			for site := range c.sites {
				y := b.Node(onnx.FusedDomain, "Dropout", 1, onnx.Attrs{"rate": 0.5, "site": site}, x, seed)[0]
				if c.as != onnx.Float {
					y = b.OpA("Cast", onnx.Attrs{"to": c.as}, y)
				}
				weights = append(weights, b.Input(fmt.Sprint("w", site), c.as, onnx.Dims(4, 3)))
				outputs = append(outputs, b.Op("MatMul", y, weights[site]))
			}
			forward := len(b.M.Nodes)
			kept := map[string]bool{} // rows of the forward pass after dropout
			for _, n := range b.M.Nodes {
				kept[n.Outputs[0]] = n.Op != "MatMul"
			}
			grads, err := Append(b.M, Options{Outputs: outputs, Wrt: weights})
			if err == nil {
				err = onnx.Check(b.M)
			}
			if err != nil {
				t.Fatal(err)
			}
			drawn, read := 0, 0
			needed := onnx.ReadBy(b.M.Nodes)
			for _, x := range weights {
				needed[grads[x]] = true
			}
			for _, n := range b.M.Nodes[forward:] {
				if !needed[n.Outputs[0]] {
					t.Errorf("nothing reads %s of the gradients", n.Outputs[0])
				}
				if n.Op == "Dropout" {
					drawn++
					if len(n.Inputs) != 3 || n.Inputs[0] != x || n.Inputs[1] != seed {
						t.Errorf("got inputs %q, want %s, %s and a gradient", n.Inputs, x, seed)
					}
				}
				for _, y := range n.Inputs {
					if kept[y] {
						read++
					}
				}
			}
			if drawn != c.again || read != c.sites-c.again {
				t.Errorf("gradients draw %d times and read %d kept rows, want %d and %d", drawn, read, c.again,
					c.sites-c.again)
			}
		})
	}
}

// TestDroppedInSubgraph: a subgraph that captures what its node also reads has a value to read, whether the gradient
// draws it again or not.
func TestDroppedInSubgraph(t *testing.T) {
	b := onnx.NewBuilder("captured", 23)
	x, seed := b.Input("x", onnx.Float, onnx.Dims(3, 4)), b.Input("seed", onnx.Int64, onnx.Dims(1))
	y := b.Node(onnx.FusedDomain, "Dropout", 1, onnx.Attrs{"rate": 0.5, "site": 0}, x, seed)[0]
	body := b.Body("rows", func() {
		row := b.Input("row", onnx.Float, onnx.Dims(4))
		b.Output("products", b.Op("Mul", y, row), onnx.Float, onnx.Dims(3, 4))
	})
	all := b.Node("", "Scan", 1, onnx.Attrs{"body": body, "num_scan_inputs": 1}, y)[0]
	if _, err := Append(b.M, Options{Outputs: []string{all}, Wrt: []string{x}}); err != nil {
		t.Fatal(err)
	}
	if err := onnx.Check(b.M); err != nil {
		t.Error(err)
	}
}
