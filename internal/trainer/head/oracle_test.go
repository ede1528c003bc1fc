package head

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/optim"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
)

// caseFiles are the fixtures' case files with the expected results.
var caseFiles = map[string]string{"cases.json": "expect.safetensors", "cases_adiee.json": "expect_adiee.safetensors"}

// eachCase runs f on every case of the family that has gradients.
func eachCase(t *testing.T, f func(t *testing.T, folder string, c oracle.Case, want map[string]*tensor.Dense)) {
	oracle.Each(t, func(t *testing.T, root string) {
		folder := filepath.Join(root, "llavanext")
		for file, expect := range caseFiles {
			all := oracle.Tensors(t, filepath.Join(folder, expect))
			for _, c := range oracle.Read[[]oracle.Case](t, filepath.Join(folder, file)) {
				want := map[string]*tensor.Dense{}
				for name, x := range all {
					if short, ok := strings.CutPrefix(name, fmt.Sprintf("case%d.", c.ID)); ok {
						want[short] = x
					}
				}
				if c.Gradients {
					f(t, folder, c, want)
				}
			}
		}
	})
}

// scorerConfig is a run that fine-tunes a scorer of the fixtures, on the CPU.
func scorerConfig(t *testing.T, folder, scorer string) *config.Config {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	text := fmt.Sprintf(
		"init: %s\nout: out\ndata: {train: t.jsonl}\ndevice: cpu\nthreads: 2\n",
		filepath.Join(folder, scorer),
	)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return load(t, path)
}

// headOf reads the head of a scorer directory.
func headOf(t *testing.T, c *config.Config) *Gorgonia {
	t.Helper()
	own, _, err := checkpoints.ReadFile(filepath.Join(c.Init, "head.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	var params []optim.Param
	for i := range len(c.Head.Hidden) + 1 {
		for _, part := range []string{"weight", "bias"} {
			name := fmt.Sprintf("layers.%d.%s", i, part)
			params = append(params, optim.Param{Name: name, Value: own[name]})
		}
	}
	h, err := NewGorgonia(c.Head, params)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestGorgoniaHeadOfTheOracle runs Gorgonia on the oracle's hidden states: scores and gradients match PyTorch's.
func TestGorgoniaHeadOfTheOracle(t *testing.T) {
	eachCase(t, func(t *testing.T, folder string, o oracle.Case, want map[string]*tensor.Dense) {
		c := scorerConfig(t, folder, o.Scorer)
		h := headOf(t, c)
		r, err := h.Run([][]float32{want["hidden_score"].Float32s()}, []float64{o.Label / 10}, c.Loss.Score)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(r.Score[0]*10 - o.Score); !(d <= 2e-5) {
			t.Errorf("%s, case %d: score %g, want %g", o.Scorer, o.ID, r.Score[0]*10, o.Score)
		}
		for i, p := range h.Params {
			if d := oracle.Far(r.Grads[i].Float32s(), want["grad."+p.Name].Float32s()); !(d <= 1e-5) {
				t.Errorf("%s, case %d: gradient of %s is %g off", o.Scorer, o.ID, p.Name, d)
			}
		}
	})
}
