package language_test

import (
	"path/filepath"
	"testing"

	"assay/internal/modeltest"
	"assay/model"
	"assay/model/language"
)

// TestCUDAKernelsOfAnswers: every node of the GPU's generation graphs has a CUDA kernel: all families, both types,
// weights of four and eight bits.
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
		for _, dtype := range []string{"float32", "bfloat16"} {
			t.Run(name+"/"+dtype, func(t *testing.T) {
				o := model.Options{Device: "cuda:0", Elsewhere: true, DType: dtype}
				graphs, err := language.SpeakingGraphs(dir, o)
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
