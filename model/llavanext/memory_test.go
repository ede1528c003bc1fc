package llavanext_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/lora"
	"assay/model"
	"assay/model/batch"
	"assay/model/fresh"
)

// stepEnv tells a child process to run one training step on the checkpoint in that folder.
const stepEnv = "ASSAY_TEST_STEP"

func TestMain(m *testing.M) {
	if dir := os.Getenv(stepEnv); dir != "" {
		if err := oneStep(dir, os.Getenv(stepEnv+"_RECOMPUTE") != ""); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// oneStep runs a LoRA step over about 700 tokens and prints the peak resident memory in KiB, then the sums of the
// gradients.
func oneStep(dir string, recompute bool) error {
	config := (&model.OnePassConfig{
		Backbone: dir,
		Pair:     model.Sequence,
		Question: model.InstructionMark,
		Answer:   "[SCORE]",
		Head:     model.HeadConfig{Hidden: []int{16}},
	}).Scorer()
	p, err := model.NewScorerState(config,
		lora.NewConfig(8, 16, lora.Names{Regex: `.*language_model.*\.(q_proj|v_proj)`}), 1)
	if err != nil {
		return err
	}
	for _, t := range p.Adapter.Tensors { // B is zero in a fresh adapter: A would get no gradient
		for i, v := 0, t.Data().([]float32); i < len(v); i++ {
			v[i] += 0.01 * float32(i%7)
		}
	}
	u, err := model.NewTuner(p,
		model.TuneOptions{Options: model.Options{Threads: 1}, TextLoss: 1, ScoreLoss: 10, Recompute: recompute})
	if err != nil {
		return err
	}
	defer u.Close()
	a, b := data.NewPicture(64, 64), data.NewPicture(64, 64)
	for i := range a.Pix {
		a.Pix[i], b.Pix[i] = byte(i*7), byte(i*i)
	}
	s, err := u.Sample(edit.New(a, b, "blur it"), model.Ask{})
	if err != nil {
		return err
	}
	r, err := u.Step(context.Background(), []*batch.Sample{s}, model.StepInput{Labels: []float64{0.3}, Weight: 1})
	if err != nil {
		return err
	}
	// Not getrusage: its peak starts at that of the parent process.
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	fmt.Println("peak", strings.Fields(peak)[0], "tokens", len(s.IDs))
	names, _ := u.Params()
	for _, n := range names {
		sum := 0.0
		for _, v := range r.Grads[n].Data().([]float32) {
			sum += float64(v)
		}
		fmt.Println(n, strconv.FormatFloat(sum, 'g', 9, 64))
	}
	return nil
}

// TestRecomputeLowersMemory runs the same step with and without recomputation, in separate processes.
func TestRecomputeLowersMemory(t *testing.T) {
	long.Test(t)
	dir, text := filepath.Join(t.TempDir(), "backbone"), filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("blur it"), 0o666); err != nil {
		t.Fatal(err)
	}
	sizes, err := fresh.Defaults(fresh.LlavaNext)
	if err != nil {
		t.Fatal(err)
	}
	sizes.Hidden, sizes.Intermediate, sizes.Layers, sizes.Heads, sizes.KVHeads = 128, 1536, 16, 4, 4
	sizes.VisionHidden, sizes.VisionIntermediate, sizes.VisionLayers, sizes.VisionHeads = 32, 64, 2, 2
	sizes.ImageSize, sizes.Patch, sizes.Grid = 52, 4, [][]int{{1, 1}}
	if _, err := fresh.Create(dir, sizes, []string{text}, 1); err != nil {
		t.Fatal(err)
	}
	run := func(recompute string) (peak int, rest string) {
		c := exec.Command(os.Args[0])
		c.Env = append(os.Environ(), stepEnv+"="+dir, stepEnv+"_RECOMPUTE="+recompute)
		out, err := c.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		first, rest, _ := strings.Cut(string(out), "\n")
		if _, err := fmt.Sscanf(first, "peak %d", &peak); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return peak, rest
	}
	plain, sums := run("")
	less, again := run("yes")
	a, b := strings.Fields(sums), strings.Fields(again)
	if len(a) != len(b) || len(a) < 4 {
		t.Fatalf("gradients differ:\n%s\nrecomputed:\n%s", sums, again)
	}
	for i := 0; i+1 < len(a); i += 2 {
		x, err1 := strconv.ParseFloat(a[i+1], 64)
		y, err2 := strconv.ParseFloat(b[i+1], 64)
		if err1 != nil || err2 != nil || a[i] != b[i] || !(math.Abs(x-y) <= 1e-3*(1+math.Abs(x))) {
			t.Errorf("sum of the gradient of %s: %s, recomputed %s", a[i], a[i+1], b[i+1])
		}
	}
	if saved := float64(plain-less) / 1024; saved < 100 {
		t.Errorf("recomputation saves %.0f MiB of %d MiB: about 200 are expected", saved, plain/1024)
	} else {
		t.Logf("peak %d MiB, recomputed %d MiB", plain/1024, less/1024)
	}
}
