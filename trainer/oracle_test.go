package trainer

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/internal/oracle"
	_ "assay/model/families"
	"assay/optim"
)

// caseFiles are the fixtures' files of cases with what is expected of them.
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

// scorerConfig is a run that goes on from a scorer of the fixtures, on the CPU.
func scorerConfig(t *testing.T, folder, scorer string) *Config {
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

func caseExample(c *Config, folder string, o oracle.Case) Example {
	return Example{
		Base:     folder,
		Question: c.Question[0],
		Answer:   c.Answer[0],
		Label:    o.Label / 10,
		Row: data.Row{
			ID:          fmt.Sprint(o.ID),
			Source:      data.Image{Path: o.Source},
			Edit:        data.Image{Path: o.Edited},
			Instruction: o.Instruction,
		},
	}
}

// headOf reads the head of a scorer directory.
func headOf(t *testing.T, c *Config) *GorgoniaHead {
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
	h, err := newGorgoniaHead(c.Head, params)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// TestGorgoniaHeadOfTheOracle gives Gorgonia the oracle's hidden states: scores and gradients are PyTorch's.
func TestGorgoniaHeadOfTheOracle(t *testing.T) {
	eachCase(t, func(t *testing.T, folder string, o oracle.Case, want map[string]*tensor.Dense) {
		c := scorerConfig(t, folder, o.Scorer)
		h := headOf(t, c)
		r, err := h.Run([][]float32{want["hidden_score"].Float32s()}, []float64{o.Label / 10}, c.Loss.Score)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(r.Score[0]*10 - o.Score); d > 2e-5 {
			t.Errorf("%s, case %d: score %g, want %g", o.Scorer, o.ID, r.Score[0]*10, o.Score)
		}
		for i, p := range h.params {
			if d := far(r.Grads[i].Float32s(), want["grad."+p.Name].Float32s()); d > 1e-5 {
				t.Errorf("%s, case %d: gradient of %s is %g off", o.Scorer, o.ID, p.Name, d)
			}
		}
	})
}

// TestGorgoniaHeadIsTheStepGraphs compares the head's two implementations behind the same backbone.
func TestGorgoniaHeadIsTheStepGraphs(t *testing.T) {
	ctx := context.Background()
	for _, scorer := range []string{"scorer", "scorer_sequence", "scorer_adiee"} {
		folder := filepath.Join(oracle.Folders(t)[0], "llavanext")
		c := scorerConfig(t, folder, scorer)
		m, err := OpenModel(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		var batch []Example
		for _, o := range oracle.Read[[]oracle.Case](t, filepath.Join(folder, "cases.json"))[:3] {
			batch = append(batch, caseExample(c, folder, o))
		}
		step, err := m.Step(ctx, batch, 0.25, 1)
		if err != nil {
			t.Fatal(err)
		}
		tuner := m.(*scorerModel).tuner
		samples, err := prepareExamples(tuner, batch)
		if err != nil {
			t.Fatal(err)
		}
		states, err := tuner.Scorer().Hidden(ctx, samples)
		if err != nil {
			t.Fatal(err)
		}
		h := headOf(t, c)
		var labels []float64
		for _, e := range batch {
			labels = append(labels, e.Label)
		}
		r, err := h.Run(states, labels, 0.25*c.Loss.Score)
		if err != nil {
			t.Fatal(err)
		}
		if d := max(far(r.Score, step.Score), far(r.Loss, step.ScoreLoss)); d > 1e-5 {
			t.Errorf("%s: scores %v and %v, losses %v and %v", scorer, r.Score, step.Score, r.Loss, step.ScoreLoss)
		}
		for i, p := range h.params {
			for j, q := range m.Params() {
				if p.Name != q.Name {
					continue
				}
				if d := far(r.Grads[i].Float32s(), step.Grads[j].Float32s()); d > 1e-5 {
					t.Errorf("%s: gradient of %s is %g off", scorer, p.Name, d)
				}
			}
		}
	}
}
