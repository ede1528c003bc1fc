package language_test

import (
	"fmt"
	"path/filepath"
	"testing"

	"assay/internal/modeltest"
	"assay/model"
	"assay/model/language"
	"assay/model/nn"
)

// TestCUDAKernelsOfAnswers: every node of the GPU's generation graphs has a CUDA kernel: all families, both types,
// weights of four and eight bits, and answers of a model that is trained with fused operators.
func TestCUDAKernelsOfAnswers(t *testing.T) {
	dirs := map[string]string{}
	for _, family := range []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"} {
		dirs[family] = filepath.Join("../../testdata/oracle", family, "backbone")
	}
	for name, dir := range modeltest.PackedFolders(t) {
		p, err := model.LoadScorerState(filepath.Join(dir, "scorer"))
		if err != nil {
			t.Fatal(err)
		}
		dirs[name] = p.Config.Backbone
	}
	for name, dir := range dirs {
		for _, way := range []struct {
			dtype   string
			kernels nn.Kernels
		}{{"float32", nn.Plain}, {"bfloat16", nn.Plain}, {"bfloat16", nn.Fused}} {
			t.Run(fmt.Sprint(name, "/", way.dtype, " ", way.kernels), func(t *testing.T) {
				o := model.Options{Device: "cuda:0", Elsewhere: true, DType: way.dtype}
				graphs, err := language.SpeakingGraphs(dir, o, way.kernels)
				if err != nil {
					t.Fatal(err)
				}
				for name, m := range graphs {
					modeltest.Kernels(t, name, m)
				}
			})
		}
	}
}
