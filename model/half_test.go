package model

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/lora"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
)

// TestHalfSteps: losses and gradients of a step in half precision equal the float32 ones except for rounding. It runs
// the graphs of a GPU on the CPU: in float16, and in bfloat16, for which the CPU has no kernels, by rounding the
// results of float32 kernels. The loss is the text loss: a head's ReLU that is on in one type and off in the other is
// not rounding. The limit is twice PyTorch's distance: transformers' gradients in bfloat16 are off by 1.8 % of their
// norm, with the weights of the Qwen2.5-VL fixture and 120 tokens.
func TestHalfSteps(t *testing.T) {
	for i, family := range []string{"qwen2_5_vl", "llavanext", "qwen2_vl", "qwen3_vl"} {
		for name, o := range map[string]TuneOptions{
			"":                     {},
			", recomputed":         {Recompute: true},
			", in blocks":          {Options: Options{Blocks: 12}},
			", every weight":       {Full: true},
			", dropout":            {Dropout: 0.5},
			", one graph":          {Fixed: true},
			", loss in chunks":     {Options: Options{LossRows: 3}},
			", in chunks, all":     {Options: Options{LossRows: 3}, Full: true},
			", one graph, a group": {Fixed: true, Share: true},
			", fused":              {Options: Options{Kernels: "fused"}},
			", fused, recomputed":  {Options: Options{Kernels: "fused"}, Recompute: true},
			", fused, dropout":     {Options: Options{Kernels: "fused"}, Dropout: 0.5},
		} {
			fused := o.Kernels == "fused"
			if i > 0 && name != "" && !o.Full && !fused {
				continue
			}
			t.Run(family+name, func(t *testing.T) {
				if i > 0 || name != "" {
					long.Test(t)
				}
				want := stepIn(t, family, "float32", o)
				o.Device, o.On = "cuda:0", "cpu"
				if !fused { // has no kernels for it
					near(t, "float16", stepIn(t, family, "float16", o), want, 2e-3, 5e-3)
				}
				o.OnGraph = func(name string, m *onnx.Model) {
					if strings.HasPrefix(name, "vision") {
						losesNothing(t, m)
					}
					roundHalf(t, m)
				}
				near(t, "bfloat16", stepIn(t, family, "bfloat16", o), want, 5e-3, 3.5e-2)
			})
		}
	}
}

// TestTowerInSteps: in half precision a step that runs the tower has the losses of one that gets its features, which
// lose nothing.
func TestTowerInSteps(t *testing.T) {
	long.Test(t)
	for _, family := range []string{"qwen2_5_vl", "llavanext", "qwen2_vl", "qwen3_vl"} {
		o := TuneOptions{Options: Options{Device: "cuda:0", On: "cpu"}}
		o.OnGraph = func(_ string, m *onnx.Model) { roundHalf(t, m) }
		want := stepIn(t, family, "bfloat16", o)
		o.Full = true
		got := stepIn(t, family, "bfloat16", o)
		if diff := cmp.Diff(want.Loss, got.Loss); diff != "" {
			t.Errorf("%s: losses (-with features +with the tower):\n%s", family, diff)
		}
	}
}

// TestFusedZeroNorm: a norm with weights of 0, by which the fused gradient would divide, has plain operators, and the
// others stay fused.
func TestFusedZeroNorm(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("../testdata/oracle/qwen2_5_vl/backbone")); err != nil {
		t.Fatal(err)
	}
	p, err := LoadScorerState("../testdata/oracle/qwen2_5_vl/scorer_sequence")
	if err != nil {
		t.Fatal(err)
	}
	all, err := backbone.OpenBackbone(p.Config.Backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer all.Close()
	stored := map[string]*tensor.Dense{}
	for _, name := range all.Weights.Names() {
		if stored[name], err = all.Weights.Dense(name); err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, "layers.1.post_attention_layernorm.weight") {
			clear(stored[name].Float32s()[3:6])
		}
	}
	if err := checkpoints.WriteFile(filepath.Join(dir, checkpoints.SingleFile), stored, nil); err != nil {
		t.Fatal(err)
	}
	p.Config.Backbone = dir
	plain, norms := stepOf(t, p, TuneOptions{}), map[string]int{}
	fused := TuneOptions{Options: Options{Kernels: "fused"}}
	fused.OnGraph = func(_ string, m *onnx.Model) {
		for _, n := range m.Nodes {
			norms[n.Op]++
		}
	}
	near(t, "float32", stepOf(t, p, fused), plain, 1e-6, 1e-5)
	if norms["RMSNormalization"] != 1 || norms["RMSNormGrad"] < 3 {
		t.Errorf("got %d plain norms and %d fused gradients, want 1 and at least 3", norms["RMSNormalization"],
			norms["RMSNormGrad"])
	}
}

// TestFusedDropout: layers that are recomputed drop the same elements again, and what is dropped depends on the rate,
// not on the type.
func TestFusedDropout(t *testing.T) {
	for _, dora := range []bool{false, true} {
		step := func(rate float64, recompute, half bool) *StepResult {
			p, err := LoadScorerState("../testdata/oracle/qwen2_5_vl/scorer_sequence")
			if err != nil {
				t.Fatal(err)
			}
			if dora {
				if p, err = NewScorerState(p.Config, &lora.Config{Rank: 2, Alpha: 2, DoRA: true,
					Targets: lora.Names{List: []string{"q_proj", "down_proj"}}}, 1); err != nil {
					t.Fatal(err)
				}
			}
			o := TuneOptions{Dropout: rate, Recompute: recompute, Options: Options{Kernels: "fused"}}
			if half {
				p.Config.DType, o.Device, o.On = "bfloat16", "cuda:0", "cpu"
				o.OnGraph = func(_ string, m *onnx.Model) { roundHalf(t, m) }
			}
			return stepOf(t, p, o)
		}
		kept, again, other := step(0.3, false, false), step(0.3, true, false), step(0.6, false, false)
		near(t, "bfloat16", step(0.3, false, true), kept, 5e-3, 3.5e-2) // the limits of TestHalfSteps
		for name, g := range kept.Grads {
			same := func(a *tensor.Dense) bool { // up to the order of sums
				return cmp.Equal(a.Data(), g.Data(), cmpopts.EquateApprox(1e-4, 1e-7))
			}
			if !same(again.Grads[name]) {
				t.Errorf("dora=%t, %s: got another gradient where layers are recomputed", dora, name)
			}
			if strings.Contains(name, "lora_A") && !dora && same(other.Grads[name]) {
				t.Errorf("dora=%t, %s: got the same gradient with dropout of 0.3 and 0.6", dora, name)
			}
		}
	}
}

// TestUnnamedSizes: a session is opened without names of unknown sizes, for ONNX Runtime would hold memory by them
// (docs/decisions/gpu.md).
func TestUnnamedSizes(t *testing.T) {
	named := func(m *onnx.Model) (names []string) {
		for _, in := range m.Inputs {
			for _, d := range in.Shape {
				if d.Name != "" {
					names = append(names, in.Name+": "+d.Name)
				}
			}
		}
		return names
	}
	var opened []*onnx.Model
	o := TuneOptions{Recompute: true}
	o.OnGraph = func(name string, m *onnx.Model) {
		if opened = append(opened, m); len(named(m)) == 0 {
			t.Errorf("%s: got no named sizes in its graph, so this test tests nothing", name)
		}
	}
	stepIn(t, "qwen2_5_vl", "float32", o)
	for _, m := range opened {
		if got := named(m); len(got) > 0 {
			t.Errorf("got the sizes %v in a session, want none with a name", got)
		}
	}
}

// near compares losses and gradients of a step: the largest difference of a loss relative to that loss, and the
// difference of all gradients together relative to their norm.
func near(t *testing.T, dtype string, got, want *StepResult, loss, gradients float64) {
	t.Helper()
	for k, w := range want.Loss {
		if d := math.Abs(got.Loss[k]-w) / math.Abs(w); !(d <= loss) {
			t.Errorf("%s, edit %d: got loss %g, want %g", dtype, k, got.Loss[k], w)
		}
	}
	var difference, size float64
	for name, g := range want.Grads {
		for k, w := range g.Float32s() {
			d := float64(got.Grads[name].Float32s()[k] - w)
			difference, size = difference+d*d, size+float64(w)*float64(w)
		}
	}
	d := math.Sqrt(difference / size)
	if !(d > 0 && d <= gradients) {
		t.Errorf("%s: got gradients off by %.2g of their norm, want only a rounding difference", dtype, d)
	}
	t.Logf("%s: gradients are off by %.2g of their norm", dtype, d)
}

// roundHalf turns a bfloat16 graph into a float32 graph whose nodes round their outputs to bfloat16.
func roundHalf(t *testing.T, m *onnx.Model) {
	t.Helper()
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	roundNodes(t, &m.Graph, types)
}

// losesNothing fails unless a tower's features are in half precision before they are cast to it: between the results
// of products and the output are only casts and operators that move values, or weights (LLaVA-NeXT's newline) that are
// rounded everywhere: see TestTowerInSteps.
func losesNothing(t *testing.T, m *onnx.Model) {
	t.Helper()
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]*onnx.Node{}
	for _, n := range m.Nodes {
		for _, y := range n.Outputs {
			made[y] = n
		}
	}
	moves := map[string]int{"Identity": 1, "Cast": 1, "Reshape": 1, "Transpose": 1, "Gather": 1, "Expand": 1,
		"Concat": math.MaxInt}
	var follow func(x string)
	follow = func(x string) {
		n := made[x]
		if n == nil && x != "" { // a weight
			return
		}
		if types.Of(x).Type == onnx.BFloat16 && n.Op != "Cast" && n.Op != "Identity" {
			return
		}
		if moves[n.Op] == 0 {
			t.Fatalf("features come from %q, %v of %+v, want a result in bfloat16", x, types.Of(x).Type, n)
		}
		for _, from := range n.Inputs[:min(moves[n.Op], len(n.Inputs))] {
			follow(from)
		}
	}
	follow(nn.InFeatures)
}

// roundNodes is roundHalf of a graph, or of the body of a Scan.
func roundNodes(t *testing.T, g *onnx.Graph, types *onnx.Types) {
	t.Helper()
	half := func(x string) bool { // features are passed as they are
		return x != "" && x != nn.InFeatures && types.Of(x).Type == onnx.BFloat16
	}
	nodes := g.Nodes
	g.Nodes = nil
	cast := func(to onnx.DType, x, y string) {
		g.Nodes = append(g.Nodes, &onnx.Node{Name: "round " + y, Op: "Cast", Attrs: onnx.Attrs{"to": int64(to)},
			Inputs: []string{x}, Outputs: []string{y}})
	}
	for i, w := range g.Initializers {
		if w.Type == onnx.BFloat16 {
			own := *w
			own.Name += ".half"
			g.Initializers[i] = &own
			cast(onnx.Float, own.Name, w.Name)
		}
	}
	for _, n := range nodes {
		if step := types.LastStep(n); step != nil {
			inside, err := onnx.Infer(step)
			if err != nil {
				t.Fatal(err)
			}
			roundNodes(t, n.Attrs["body"].(*onnx.Graph), inside)
		}
		if n.Op == "Cast" && half(n.Inputs[0]) {
			n.Op, n.Attrs = "Identity", nil
		} else if n.Outputs[0] == nn.InFeatures {
			n.Op, n.Attrs = "Cast", onnx.Attrs{"to": int64(onnx.BFloat16)}
		}
		g.Nodes = append(g.Nodes, n)
		for i, y := range n.Outputs {
			switch {
			case !half(y):
			case n.Op == "ConstantOfShape" || n.Op == "Cast": // outputs bfloat16
				n.Outputs[i] = y + ".half"
				cast(onnx.Float, n.Outputs[i], y)
			default:
				n.Outputs[i] = y + ".wide"
				cast(onnx.BFloat16, n.Outputs[i], y+".half")
				cast(onnx.Float, y+".half", y)
			}
		}
	}
	for _, values := range [][]onnx.ValueInfo{g.Inputs, g.Outputs, g.Values} {
		for i := range values {
			if half(values[i].Name) {
				values[i].Type = onnx.Float
			}
		}
	}
}

// stepIn is a step over two edits of one source.
func stepIn(t *testing.T, family, dtype string, o TuneOptions) *StepResult {
	t.Helper()
	p, err := LoadScorerState(filepath.Join("../testdata/oracle", family, "scorer_sequence"))
	if err != nil {
		t.Fatal(err)
	}
	p.Config.DType = dtype
	return stepOf(t, p, o)
}

func stepOf(t *testing.T, p *ScorerState, o TuneOptions) *StepResult {
	t.Helper()
	o.TextLoss, o.ScoreLoss = 1, 0
	u, err := NewTuner(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	image := func(name string) edit.Picture {
		return data.File{Image: data.Image{Path: name + ".png"}, Folder: "../testdata/oracle/images"}
	}
	var samples []*batch.Sample
	for _, output := range []string{"coffee_blur", "coffee_blur_gt"} {
		s, err := u.Sample(edit.New(image("coffee"), image(output), "blur it"), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	got, err := u.Step(context.Background(), samples, StepInput{Labels: []float64{0.2, 0.9}, Weight: 0.5, Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	return got
}
