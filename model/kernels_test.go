package model_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/long"
	"assay/internal/modeltest"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/model/backbone"
	"assay/onnx"
)

// onCUDA plans for a device that need not be present.
var (
	onCUDA      = model.Options{Device: "cuda:0", Elsewhere: true}
	fusedOnCUDA = model.Options{Device: "cuda:0", Elsewhere: true, Kernels: "fused"}
)

// Every node of the graphs emitted for CUDA has a CUDA kernel: for all families, both types, all graphs.
func TestCUDAKernels(t *testing.T) {
	long.Test(t)
	dirs, err := filepath.Glob("../testdata/oracle/*/scorer*")
	if err != nil || len(dirs) == 0 {
		t.Fatal(err, dirs)
	}
	for _, dir := range dirs {
		cudaKernels(t, dir)
	}
}

// TestCUDAKernelsPacked is TestCUDAKernels with weights of four and eight bits.
func TestCUDAKernelsPacked(t *testing.T) {
	long.Test(t)
	for _, dir := range modeltest.PackedFolders(t) {
		cudaKernels(t, filepath.Join(dir, "scorer"))
	}
}

func cudaKernels(t *testing.T, dir string) {
	t.Helper()
	for _, dtype := range []string{"float32", "bfloat16"} {
		load := func() *model.ScorerState {
			p, err := model.LoadScorerState(dir)
			if err != nil {
				t.Fatal(err)
			}
			p.Config.DType = dtype
			return p
		}
		t.Run(filepath.Base(filepath.Dir(dir))+"/"+filepath.Base(dir)+"/"+dtype, func(t *testing.T) {
			checkGraphs(t, load, onCUDA)
			for _, o := range []model.TuneOptions{{Dropout: 0.1}, {Recompute: true}, {Full: true}} {
				if p := load(); o.Full && packedBackbone(t, p) {
					continue
				}
				o.Options, o.TextLoss, o.ScoreLoss = onCUDA, 1, 1
				checkSteps(t, load(), o)
			}
		})
	}
}

func packedBackbone(t *testing.T, p *model.ScorerState) bool {
	t.Helper()
	b, err := backbone.OpenBackbone(p.Config.Backbone)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	return slices.ContainsFunc(b.Weights.Names(), func(name string) bool { return b.Weights.Quantized(name) != nil })
}

// TestCUDAKernelsOfJudges is TestCUDAKernels for scorers of format 2, with heads of all kinds, choices and all losses.
func TestCUDAKernelsOfJudges(t *testing.T) {
	long.Test(t)
	for _, family := range []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"} {
		backbone := filepath.Join("../testdata/oracle", family, "backbone")
		for _, dtype := range []string{"float32", "bfloat16"} {
			t.Run(family+"/"+dtype, func(t *testing.T) {
				load := func() *model.ScorerState {
					p, err := model.NewScorerState(judgeOf(backbone, dtype), &lora.Config{Rank: 2, Alpha: 2,
						Targets: lora.Names{List: []string{"q_proj", "v_proj"}}}, 1)
					if err != nil {
						t.Fatal(err)
					}
					return p
				}
				checkGraphs(t, load, onCUDA)
				checkSteps(t, load(), model.TuneOptions{Options: onCUDA, Terms: allLosses()})
				if dtype == "bfloat16" {
					checkGraphs(t, load, fusedOnCUDA)
					checkSteps(t, load(), model.TuneOptions{Options: fusedOnCUDA, Terms: allLosses()})
					checkSteps(t, load(), model.TuneOptions{Options: fusedOnCUDA, Terms: allLosses(), Recompute: true})
				}
			})
		}
	}
}

// judgeOf is a scorer of format 2 with a head of each kind.
func judgeOf(backbone, dtype string) *model.ScorerConfig {
	hidden := []int{4}
	return &model.ScorerConfig{
		Format: 2, Backbone: backbone, DType: dtype,
		Passes: []model.PassConfig{{
			Name: "all", Pictures: []string{"source", "edit"}, Prompt: "Was it edited? [INSTRUCTION]", Position: "last",
			Heads: []string{"value", "classes", "mu_sigma"},
		}},
		Heads: map[string]model.DimensionConfig{
			"value":    {Hidden: hidden, Activation: "gelu", Outputs: model.OutputValue},
			"classes":  {Hidden: hidden, Activation: "silu", Outputs: model.OutputClasses, Values: []float64{0, 0.5, 1}},
			"mu_sigma": {Hidden: hidden, Activation: "relu", Outputs: model.OutputMuSigma, Scale: []float64{0, 10}},
		},
		Score: &model.FusionConfig{Fusion: "mean"},
	}
}

// allLosses is an objective with all losses.
func allLosses() (all []losses.Spec) {
	for _, r := range losses.Table() {
		if r.Over != losses.Tokens {
			s := losses.Spec{Kind: r.Kind, Dimension: r.Outputs}
			s.Check() // fills in the options' defaults
			all = append(all, s)
		}
	}
	return all
}

// checkGraphs checks all graphs that score and differentiate scores.
func checkGraphs(t *testing.T, load func() *model.ScorerState, o model.Options) {
	t.Helper()
	graphs, err := model.Graphs(load(), o)
	if err != nil {
		t.Fatal(err)
	}
	for name, m := range graphs {
		modeltest.Kernels(t, name, m)
	}
}

// checkSteps checks training steps over samples of one and of two lengths.
func checkSteps(t *testing.T, p *model.ScorerState, o model.TuneOptions) {
	t.Helper()
	tuner, err := model.NewTuner(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Close()
	for _, groups := range []int{1, 2} {
		m, err := tuner.StepGraph(groups)
		if err != nil {
			t.Fatal(err)
		}
		modeltest.Kernels(t, fmt.Sprintf("step, %d groups, full=%v, recompute=%v", groups, o.Full, o.Recompute), m)
		if n := addsInAnyOrder(t, m); n != "" {
			t.Errorf("%d groups, full=%v, recompute=%v: the CUDA kernel of %s adds atomically", groups, o.Full, o.Recompute, n)
		}
	}
}

// addsInAnyOrder returns a node whose CUDA kernel adds atomically, by ONNX Runtime's source: a sum over the first axes,
// or a Scatter that adds.
func addsInAnyOrder(t *testing.T, m *onnx.Model) string {
	t.Helper()
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Nodes {
		switch n.Op {
		case "ScatterND", "ScatterElements":
			if n.Str("reduction", "none") != "none" {
				return m.Describe(n)
			}
		case "ReduceSum":
			x := types.Of(n.Inputs[0])
			axes, _ := types.Of(n.Inputs[1]).Known()
			if len(axes) < len(x.Shape) && slices.Contains(axes, 0) && !x.Shape[len(axes)-1].Known() {
				return m.Describe(n)
			}
		}
	}
	return ""
}

// TestJoinedAlike: training and validation read the same matrices, of which a device then holds one copy. A DoRA layer
// has its own.
func TestJoinedAlike(t *testing.T) {
	for name, c := range map[string]lora.Config{"LoRA": {}, "dropout": {Dropout: 0.1}, "DoRA": {DoRA: true}} {
		c.Rank, c.Alpha, c.Targets = 2, 2, lora.Names{List: []string{"q_proj", "up_proj"}}
		p, err := model.NewScorerState(judgeOf("../testdata/oracle/qwen2_5_vl/backbone", "bfloat16"), &c, 1)
		if err != nil {
			t.Fatal(err)
		}
		tuner, err := model.NewTuner(p, model.TuneOptions{Options: fusedOnCUDA, Dropout: c.Dropout, Terms: allLosses()})
		if err != nil {
			t.Fatal(err)
		}
		defer tuner.Close()
		step, err := tuner.StepGraph(1)
		if err != nil {
			t.Fatal(err)
		}
		score, err := tuner.ScoreGraph()
		if err != nil {
			t.Fatal(err)
		}
		want, got := joinedWeights(step), joinedWeights(score)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: joined weights (-training +validation):\n%s", name, diff)
		}
		joins := slices.ContainsFunc(want, func(s string) bool { return strings.Contains(s, "up_proj") })
		if joins != !c.DoRA {
			t.Errorf("%s: got joined up_proj: %t, want %t", name, joins, !c.DoRA)
		}
	}
}

// joinedWeights lists the weights that a graph joins by rows.
func joinedWeights(m *onnx.Model) (all []string) {
	stored := map[string]string{}
	for _, w := range m.Initializers {
		stored[w.Name] = w.Name
	}
	for _, n := range m.Nodes {
		switch n.Op {
		case "Cast":
			stored[n.Outputs[0]] = stored[n.Inputs[0]]
		case "Concat":
			var names []string
			for _, x := range n.Inputs {
				if strings.HasSuffix(stored[x], ".weight") {
					names = append(names, stored[x])
				}
			}
			if len(names) == len(n.Inputs) {
				all = append(all, strings.Join(names, " "))
			}
		}
	}
	slices.Sort(all)
	return all
}
