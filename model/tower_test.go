package model_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/model"
	"assay/model/text"
	"assay/onnx"
)

var towers = []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"}

// TestTowerTypes: under bfloat16 all attention of a vision tower computes in bfloat16, in blocks and without.
func TestTowerTypes(t *testing.T) {
	for _, family := range towers {
		p, err := model.LoadScorerState(filepath.Join("../testdata/oracle", family, "scorer_sequence"))
		if err != nil {
			t.Fatal(err)
		}
		p.Config.DType = "bfloat16"
		graphs, err := model.Graphs(p, onCUDA)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"vision", "vision, in blocks: [true], true"} {
			if graphs[name] == nil {
				t.Fatalf("%s: no graph %q", family, name)
			}
			if n := attentionTypes(t, family+", "+name, graphs[name]); n == 0 {
				t.Errorf("%s, %s: no softmax, want attention", family, name)
			}
		}
	}
}

// attentionTypes returns the number of softmaxes in a graph and its bodies.
func attentionTypes(t *testing.T, name string, m *onnx.Model) (softmaxes int) {
	t.Helper()
	types, err := onnx.Infer(m)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range m.Nodes {
		if body := types.LastStep(n); body != nil {
			softmaxes += attentionTypes(t, name, body)
		}
		if n.Op == "Softmax" {
			softmaxes++
		}
		if n.Op == "Softmax" || n.Op == "MatMul" {
			if got := types.Of(n.Outputs[0]).Type; got != onnx.BFloat16 {
				t.Errorf("%s: %v computes in %v, want %v", name, n, got, onnx.BFloat16)
			}
		}
	}
	return softmaxes
}

// TestTowersInHalf: what a model answers about a picture with its tower in half precision is that of float32 but for
// rounding. It runs in float16, as [TestHalfCache] does.
func TestTowersInHalf(t *testing.T) {
	for i, family := range towers {
		if i > 0 && testing.Short() {
			break
		}
		want := about(t, family, false)
		got := about(t, family, true)
		most, far := 0.0, 0.0
		for k, w := range want {
			most, far = max(most, math.Abs(float64(w))), max(far, math.Abs(float64(w-got[k])))
		}
		if far == 0 || !(far <= 2e-3*most) {
			t.Errorf("%s: logits are %g off, the largest is %g, want a difference of rounding", family, far, most)
		}
	}
}

// about are the logits behind a question about a picture.
func about(t *testing.T, family string, half bool) []float32 {
	t.Helper()
	o := model.Options{Device: "cpu", Threads: 1}
	if half {
		o = model.Options{Device: "cuda:0", On: "cpu", DType: "bfloat16", Threads: 1}
	}
	l, err := model.OpenLanguageModel(filepath.Join("../testdata/oracle", family, "backbone"), "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if half {
		l.ComputeHalf()
	}
	c, err := l.NewCache(1, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	picture, err := data.Open("../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Prompt([]text.Message{{Role: "user", Content: []text.Content{{Image: true}, {Text: "What is it?"}}}},
		[]*data.Picture{picture})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ImageFeatures(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	logits, err := l.Forward(context.Background(), c, 0, model.Stretch{Prompt: p, To: len(p.IDs), Logits: 1})
	if err != nil {
		t.Fatalf("%s, half %v: %v", family, half, err)
	}
	return logits[0]
}
