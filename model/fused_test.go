package model_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/lora"
	"assay/model"
	"assay/ort"
)

// TestFusedRefused: requesting fused kernels that cannot be used is an error with the reason; auto falls back to plain.
func TestFusedRefused(t *testing.T) {
	const dir = "../testdata/oracle/qwen2_5_vl/scorer"
	for _, c := range []struct {
		name, library string
		o             model.Options
		want, got     string // error, or the chosen kernels
	}{
		{"no library", "/nowhere/libassay_ops.so", model.Options{Kernels: "fused"},
			"kernels: fused: ASSAY_OPS: stat /nowhere/libassay_ops.so", ""},
		{"no library, auto", "/nowhere/libassay_ops.so", model.Options{Kernels: "auto"}, "",
			"plain (results on the CPU keep their bits)"},
		{"GPU", "", model.Options{Kernels: "fused", Device: "cuda:0", Elsewhere: true},
			"kernels: fused: the fused operators compute in bfloat16 on cuda:0, not in float32", ""},
		{"GPU, auto", "", model.Options{Kernels: "auto", Device: "cuda:0", Elsewhere: true}, "",
			"plain (the fused operators compute in bfloat16 on cuda:0, not in float32)"},
		{"unknown", "", model.Options{Kernels: "fast"}, `kernels "fast": want auto, plain or fused`, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv(ort.FusedEnv, c.library)
			s, err := model.OpenScorer(dir, c.o)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Fatalf("got error %v, want one with %q", err, c.want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if got := s.Kernels().String(); got != c.got {
				t.Errorf("got kernels %q, want %q", got, c.got)
			}
		})
	}
}

// layer counts the nodes of a step that belong to an inner layer of the decoder, forward and backward, and the casts
// among them. What depends only on weights does not count: it is computed when the session opens.
func layer(t *testing.T, dtype string, o model.TuneOptions) (nodes, casts int) {
	t.Helper()
	backbone := filepath.Join("../testdata/oracle/qwen2_5_vl/backbone")
	p, err := model.NewScorerState(judgeOf(backbone, dtype), &lora.Config{Rank: 2, Alpha: 2,
		Targets: lora.Names{List: []string{"q_proj", "v_proj"}}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	o.Terms, o.Resident = allLosses(), true
	tuner, err := model.NewTuner(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Close()
	m, err := tuner.StepGraph(1)
	if err != nil {
		t.Fatal(err)
	}
	constant := map[string]bool{}
	for _, w := range m.Initializers {
		constant[w.Name] = true
	}
	for _, n := range m.Nodes {
		if !slices.ContainsFunc(n.Inputs, func(x string) bool { return !constant[x] }) {
			constant[n.Outputs[0]] = true
		}
		if !strings.Contains(n.Name, "layers.1/") || constant[n.Outputs[0]] {
			continue
		}
		nodes++
		if n.Op == "Cast" {
			casts++
		}
	}
	return nodes, casts
}

// TestLayerNodes counts the nodes of an inner layer of a LoRA step.
func TestLayerNodes(t *testing.T) {
	for _, c := range []struct {
		name, dtype  string
		o            model.TuneOptions
		nodes, casts int
	}{
		{"float32", "float32", model.TuneOptions{Options: onCUDA}, 127, 0},
		{"bfloat16", "bfloat16", model.TuneOptions{Options: onCUDA}, 151, 10},
		{"bfloat16, recomputed", "bfloat16", model.TuneOptions{Options: onCUDA, Recompute: true}, 201, 13},
		{"fused", "float32", model.TuneOptions{Options: model.Options{Kernels: "fused", Elsewhere: true}}, 32, 0},
		{"fused, recomputed", "float32", model.TuneOptions{Options: model.Options{Kernels: "fused", Elsewhere: true},
			Recompute: true}, 55, 0},
		{"fused, bfloat16", "bfloat16", model.TuneOptions{Options: fusedOnCUDA}, 54, 2},
		{"fused, bfloat16, recomputed", "bfloat16", model.TuneOptions{Options: fusedOnCUDA, Recompute: true}, 82, 7},
	} {
		t.Run(c.name, func(t *testing.T) {
			if nodes, casts := layer(t, c.dtype, c.o); nodes != c.nodes || casts != c.casts {
				t.Errorf("got %d nodes, %d of them casts, want %d and %d", nodes, casts, c.nodes, c.casts)
			}
		})
	}
}
