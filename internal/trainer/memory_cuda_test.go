package trainer

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/trainer/models"
	"assay/model/exec"
)

// planFor plans the pictures' run for a GPU with that many bytes; 0: for the CPU.
func planFor(t *testing.T, memory int64, extra string) *models.Plan {
	t.Helper()
	c := load(t, pictureRun(t, "llavanext", extra))
	c.BatchSize = max(16, int(c.MicroBatch))
	f := models.Factory(models.OpenPlan)
	if memory > 0 {
		f = models.OpenPlanFor(memory)
	}
	p, err := DryRun(context.Background(), c, f)
	if err != nil {
		t.Fatal(err)
	}
	if p.Need != models.Total(p.Bytes) {
		t.Errorf("%d bytes in all, %v", p.Need, p.Bytes)
	}
	return p
}

// TestMicroBatchFillsGPU: auto takes as many samples as fit into nine tenths of a GPU's memory, up to exec.MaxTokens
// tokens; on the CPU EnoughCPU tokens.
func TestMicroBatchFillsGPU(t *testing.T) {
	long.Test(t)
	cpu, large := planFor(t, 0, ""), planFor(t, 80e9, "")
	if tokens := float64(cpu.MicroBatch) * cpu.Tokens.Mean; tokens > models.EnoughCPU {
		t.Errorf("%.0f tokens on the CPU", tokens)
	}
	want := min(16, int(exec.MaxTokens/large.Tokens.Mean))
	if large.MicroBatch != want || large.MicroBatch <= cpu.MicroBatch {
		t.Errorf("%d samples on a large GPU, %d on the CPU, want %d", large.MicroBatch, cpu.MicroBatch, want)
	}
	need := func(n int) int64 { return planFor(t, 80e9, fmt.Sprintf("micro_batch: %d\n", n)).Need }
	for n := large.MicroBatch - 1; n > 1; n /= 2 { // a GPU that fits n, and more if they need no other region of the arena
		p := planFor(t, need(n)*10/9+1<<10, "")
		if p.MicroBatch < n || p.Need != need(n) || !*p.Fits || p.MicroBatch < 16 && need(p.MicroBatch+1) == p.Need {
			t.Errorf("%d samples of %d bytes in a GPU of %d, want at least %d", p.MicroBatch, p.Need, p.Memory, n)
		}
	}
}

// TestRecomputeAuto: the fewest layers are recomputed with which the run fits into nine tenths of a GPU, or all of
// them if that is not enough.
func TestRecomputeAuto(t *testing.T) {
	long.Test(t)
	const micro = "micro_batch: 3000\ndtype: bfloat16\n"
	kept, all := planFor(t, 80e9, micro), planFor(t, 80e9, micro+"recompute: layers\n")
	if kept.Recompute != nil || all.Recompute != nil || all.Need >= kept.Need {
		t.Fatalf("%d bytes are needed with recomputation, %d without", all.Need, kept.Need)
	}
	for _, c := range []struct {
		memory     int64
		first      int
		need, most int64
	}{
		{80e9, 0, kept.Need, kept.Need},
		{(kept.Need - 1) * 10 / 9, 1, all.Need, kept.Need - 1},
		{all.Need/9*10 + 1<<10, 2, all.Need, all.Need}, // the last layer runs over few rows
		{1e9, 3, all.Need, all.Need},
	} {
		t.Run(fmt.Sprint(c.memory), func(t *testing.T) {
			p := planFor(t, c.memory, micro+"recompute: auto\n")
			if p.Recompute == nil || *p.Recompute != (models.RecomputedLayers{First: c.first, Of: 3}) ||
				p.MicroBatch != 3000 || p.Need < c.need || p.Need > c.most {
				t.Errorf("%v with %d bytes, micro-batch %d; want the first %d of 3 layers, %d to %d bytes", p.Recompute, p.Need,
					p.MicroBatch, c.first, c.need, c.most)
			}
		})
	}
}

// TestRecomputeAutoTrains: a run on this machine, where everything fits, writes the same bytes as one without
// recomputation, and records its choice in plan.json. So does a run with all layers recomputed.
func TestRecomputeAutoTrains(t *testing.T) {
	long.Test(t)
	var want []byte
	for _, how := range []string{"none", "auto", "layers"} {
		path := pictureRun(t, "qwen2_vl", "recompute: "+how+"\n")
		r, err := plainTrain(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		files, err := filepath.Glob(filepath.Join(r.Scorer, "*.safetensors"))
		if err != nil || len(files) == 0 {
			t.Fatal(files, err)
		}
		for _, name := range files {
			one, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, one...)
		}
		if want == nil {
			want = got
		} else if !bytes.Equal(got, want) {
			t.Errorf("recompute: %s results in a different scorer", how)
		}
		plan, err := os.ReadFile(filepath.Join(filepath.Dir(path), "out", "plan.json"))
		if err != nil {
			t.Fatal(err)
		}
		if says := strings.Contains(string(plan), "the first 0 of 3 layers"); says != (how == "auto") {
			t.Errorf("recompute: %s: plan.json is %s", how, plan)
		}
	}
}

// TestPlansForGPU: weights are counted in the compute dtype, and host memory separately.
func TestPlansForGPU(t *testing.T) {
	half, whole := planFor(t, 80e9, "dtype: bfloat16\n"), planFor(t, 80e9, "dtype: float32\n")
	if a, b := half.Bytes["weights"], whole.Bytes["weights"]; a*3 > b*2 || a*2 < b {
		t.Errorf("weights of %d bytes in bfloat16, %d in float32", a, b)
	}
	for _, what := range []string{"gradients and optimizer", "image features", "pictures", "program"} {
		if whole.Host[what] == 0 || whole.Bytes[what] != 0 {
			t.Errorf("%s: %d bytes of the host, %d of the device", what, whole.Host[what], whole.Bytes[what])
		}
	}
	for _, what := range []string{"parameters", "sums of gradients"} { // the host has the optimizer state
		if n := whole.Bytes[what]; n < 4*whole.Trainable || n > 4*whole.Trainable+(65<<20) {
			t.Errorf("%s: %d bytes for %d parameters", what, n, whole.Trainable)
		}
	}
	const staged = "features of two steps"
	cpu := planFor(t, 0, "")
	if a, b := half.Bytes[staged], whole.Bytes[staged]; a == 0 || b != 2*a || cpu.Bytes[staged] != 0 {
		t.Errorf("%s: %d bytes in bfloat16, %d in float32, %d on the CPU, want some, twice that, 0", staged, a, b,
			cpu.Bytes[staged])
	}
	if cpu.Host != nil || cpu.Bytes["program"] == 0 {
		t.Errorf("on the CPU: %v, %v", cpu.Host, cpu.Bytes)
	}
}

// TestPlansOfModeHead: the backbone counts as it computes hidden states, on the requested GPU.
func TestPlansOfModeHead(t *testing.T) {
	cpu, gpu := planFor(t, 0, "mode: head\n"), planFor(t, 80e9, "mode: head\n")
	const states = ", while hidden states are computed"
	for _, what := range []string{"weights", "scoring", "vision tower", "image features", "pictures", "program"} {
		if cpu.Bytes[what+states] == 0 {
			t.Errorf("%s is not counted: %v", what, cpu.Bytes)
		}
	}
	if cpu.Device != "cpu (Gorgonia)" || cpu.Tokens.Max == 0 || cpu.Parameters <= cpu.Trainable {
		t.Errorf("%+v", cpu)
	}
	if !strings.HasPrefix(gpu.Device, "cuda:0, ") || gpu.Memory != 80e9 || gpu.Fits == nil || !*gpu.Fits {
		t.Errorf("%+v", gpu)
	}
	path := pictureRun(t, "llavanext", "mode: head\n")
	table := filepath.Join(filepath.Dir(path), "table.jsonl")
	rows := strings.SplitAfter(mustRead(t, table), "\n")
	if err := os.WriteFile(table, []byte(strings.Join(rows[:4], "")), 0o666); err != nil {
		t.Fatal(err)
	}
	four, err := DryRun(context.Background(), load(t, path), models.OpenPlanFor(80e9))
	if err != nil {
		t.Fatal(err)
	}
	if got, all := four.Bytes["scoring"+states], gpu.Bytes["scoring"+states]; got == 0 || got >= all {
		t.Errorf("4 rows: got %d bytes for scoring, want less than the %d for 16 of %d rows", got, all, len(rows))
	}
	if err := planFor(t, 1e6, "mode: head\n").Err(); err == nil || !strings.Contains(err.Error(), "would not fit") {
		t.Errorf("a megabyte: %v", err)
	}
}
