package train

import (
	"os"
	"path/filepath"
	"testing"

	"assay/internal/long"
	"assay/internal/outside"
)

// TestNothingOutside: commands write only into the given folders and the user's store, and make no requests.
func TestNothingOutside(t *testing.T) {
	config, _ := writeRun(t, "steps: 2\nthreads: 1\n")
	to := filepath.Dir(config)
	grad := filepath.Join(gradCases, "llama")
	watch := func(name string, args ...string) {
		t.Run(name, func(t *testing.T) {
			if name != "train" {
				long.Test(t)
			}
			outside.Test(t, append([]string{os.Args[0]}, args...), []string{childEnv + "=1"}, to)
		})
	}
	tiny := filepath.Join("..", "..", "..", "backbones", "tiny")
	watch("train", "--config", config)
	watch("grad", "grad", "--model", filepath.Join(grad, "model.onnx"), "--out", filepath.Join(to, "grads.safetensors"),
		"--inputs", filepath.Join(grad, "inputs.safetensors"),
		"--cotangents", filepath.Join(grad, "cotangent.safetensors"))
	watch("export", "export", "--backbone", tiny, "--out", filepath.Join(to, "export"))
	watch("init", "init", "--text", config, "--out", filepath.Join(to, "fresh"))
	watch("merge", "merge", "--adapter", tiny+"-scorer", "--backbone", tiny, "--out", filepath.Join(to, "merged"))
	watch("doctor", "doctor", "--device", "cpu", "--out", filepath.Join(to, "doctor.json"))
}
