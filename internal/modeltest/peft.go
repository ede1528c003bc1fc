package modeltest

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/optim"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/lora"
	"assay/model"
	"assay/model/batch"
)

// peftRun is run.json of tools/oracle/peft_ways.py.
type peftRun struct {
	Scorer      string     `json:"scorer"`
	Cases       []int      `json:"cases"`
	Losses      []float64  `json:"losses"`
	LR          float64    `json:"lr"`
	Betas       [2]float64 `json:"betas"`
	WeightDecay float64    `json:"weight_decay"`
}

// peft repeats five training steps of PEFT with its other kinds of adapters: DoRA, initialization from the weights,
// and fully trained modules and biases.
func (f Family) peft(t *testing.T, o model.Options) {
	root := filepath.Join(packed.Unpack(t, "../../internal/modeltest/testdata/peft.zip"), f.Folder)
	ways, err := os.ReadDir(root)
	if os.IsNotExist(err) {
		t.Skip("no runs of this family")
	}
	for i, way := range ways {
		t.Run(way.Name(), func(t *testing.T) { longIf(i > 0, t); f.peftWay(t, filepath.Join(root, way.Name()), o) })
	}
}

func (f Family) peftWay(t *testing.T, dir string, o model.Options) {
	family, err := filepath.Abs(filepath.Join("..", "..", "testdata", "oracle", f.Folder))
	if err != nil {
		t.Fatal(err)
	}
	run := oracle.Read[peftRun](t, filepath.Join(dir, "run.json"))
	scorer := peftScorer(t, family, run.Scorer, filepath.Join(dir, "start"))
	u := openTuner(t, scorer, model.TuneOptions{Options: o})
	names, values := u.Params()
	params := optim.NewParams(names, values)
	opt := optim.NewAdamW(params, run.Betas, 1e-8, run.WeightDecay)
	cases := oracle.Read[[]oracle.Case](t, filepath.Join(family, "cases.json"))
	var sample *batch.Sample
	for k, want := range run.Losses {
		r := &reference{Case: cases[run.Cases[k%len(run.Cases)]], family: family}
		sample = r.sample(t, u)
		in := model.StepInput{Labels: []float64{r.Label / 10}, Weight: 1}
		got, err := u.Step(context.Background(), []*batch.Sample{sample}, in)
		if err != nil {
			t.Fatal(err)
		}
		if d := math.Abs(got.Loss[0] - want); !(d <= 1e-4*want) {
			t.Errorf("step %d: loss %g, want %g as in PEFT", k, got.Loss[0], want)
		}
		grads := make([][]float32, len(names))
		for i, n := range names {
			grads[i] = got.Grads[n].Float32s()
		}
		opt.Update(params, grads, run.LR)
	}
	final := oracle.Tensors(t, filepath.Join(dir, "final", "tensors.safetensors"))
	for i, n := range names {
		comparePeft(t, final, n, values[i].Float32s())
	}
	score, err := u.Scorer.Score01(context.Background(), []*batch.Sample{sample})
	if err != nil {
		t.Fatal(err)
	}
	saved := filepath.Join(t.TempDir(), "saved")
	if err := os.Mkdir(saved, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := u.SaveScorer(saved); err != nil {
		t.Fatal(err)
	}
	peftSaved(t, saved, final, strings.Contains(dir, "pissa") || strings.Contains(dir, "olora"))
	again := openTuner(t, saved, model.TuneOptions{Options: o})
	if other, err := again.Scorer.Score01(context.Background(), []*batch.Sample{sample}); err != nil ||
		!(math.Abs(other[0]-score[0]) <= 1e-5) {
		t.Errorf("score %v, after saving and reopening %v: %v", score, other, err)
	}
	peftMerged(t, dir, saved, filepath.Join(family, "backbone"))
}

// peftSaved compares an adapter's files with PEFT's. An adapter whose initialization was subtracted from the weights
// is converted when saved, so its tensors are not compared.
func peftSaved(t *testing.T, saved string, final map[string]*tensor.Dense, converted bool) {
	if _, err := lora.Load(saved); err != nil {
		t.Fatal(err)
	}
	if converted {
		return
	}
	all := oracle.Tensors(t, filepath.Join(saved, lora.WeightsFile))
	for n, v := range all {
		comparePeft(t, final, n, v.Float32s())
	}
	for n := range final {
		if all[strings.TrimSuffix(n, "@13")] == nil && !strings.HasPrefix(n, "scorer.") {
			t.Errorf("PEFT saves %s, we do not", n)
		}
	}
}

// peftScorer writes a scorer directory: the fixture's scorer with another adapter.
func peftScorer(t *testing.T, family, scorer, adapter string) string {
	t.Helper()
	dir := t.TempDir()
	c, err := model.ReadScorerConfig(filepath.Join(family, scorer, model.ConfigFile))
	if err == nil {
		err = model.WriteConfig(filepath.Join(dir, model.ConfigFile), c)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{filepath.Join(family, scorer, model.HeadFile), filepath.Join(adapter, lora.ConfigFile),
		filepath.Join(adapter, lora.WeightsFile)} {
		raw, err := os.ReadFile(file)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(file)), raw, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// comparePeft compares a tensor with PEFT's after the last step. The fixture may have only every 13th element.
func comparePeft(t *testing.T, final map[string]*tensor.Dense, name string, got []float32) {
	t.Helper()
	if strings.HasSuffix(name, ".k_proj.bias") { // adds the same to all scores of a row: its gradient is only rounding
		return
	}
	for _, n := range []string{name, "scorer." + name, name + "@13", biasOfWrapped(name)} {
		w := final[n]
		if w == nil {
			continue
		}
		if strings.HasSuffix(n, "@13") {
			var some []float32
			for i := 0; i < len(got); i += 13 {
				some = append(some, got[i])
			}
			got = some
		}
		oracle.Close(t, name, got, w.Float32s(), 1e-4, 0)
		return
	}
	t.Errorf("PEFT does not train %s", name)
}

// biasOfWrapped returns PEFT's name for the bias of a layer with an adapter.
func biasOfWrapped(name string) string {
	return strings.TrimSuffix(name, ".bias") + ".base_layer.bias"
}

// peftMerged compares the merged checkpoint with PEFT's, if the fixture has it.
func peftMerged(t *testing.T, dir, adapter, backbone string) {
	path := filepath.Join(dir, "final", "merged.safetensors")
	if _, err := os.Stat(path); err != nil {
		return
	}
	out := filepath.Join(t.TempDir(), "merged")
	if _, err := lora.MergeCheckpoint(context.Background(), lora.MergeOptions{Backbone: backbone, Adapter: adapter,
		Out: out}); err != nil {
		t.Fatal(err)
	}
	got := oracle.Tensors(t, filepath.Join(out, "model.safetensors"))
	byPath := map[string]*tensor.Dense{}
	for name, v := range got {
		byPath[lora.Canonical(name)] = v
	}
	for name, want := range oracle.Tensors(t, path) {
		if byPath[name] == nil {
			t.Errorf("merged: got no %s, want it", name)
			continue
		}
		oracle.Close(t, "merged "+name, byPath[name].Float32s(), want.Float32s(), 1e-4, 2e-5)
	}
}
