package model_test

import (
	"path/filepath"
	"testing"

	"assay/model"
	"assay/onnx"
)

var towers = []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"}

// TestTowerTypes: under bfloat16 all attention of a vision tower is computed in bfloat16, with blocks and without.
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
