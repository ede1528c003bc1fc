package trainer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/trainer/models"
)

// planFor plans the pictures' run for a GPU of so many bytes; 0: for the CPU.
func planFor(t *testing.T, memory int64, extra string) *models.Plan {
	t.Helper()
	c := load(t, pictureRun(t, "llavanext", extra))
	c.BatchSize = 16
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

// TestMicroBatchFillsGPU: auto takes as many samples as fit into nine tenths of a GPU's memory, up to mostCUDA tokens;
// on the CPU enoughCPU tokens.
func TestMicroBatchFillsGPU(t *testing.T) {
	long.Test(t)
	cpu, large := planFor(t, 0, ""), planFor(t, 80e9, "")
	if tokens := float64(cpu.MicroBatch) * cpu.Tokens.Mean; tokens > models.EnoughCPU {
		t.Errorf("%.0f tokens on the CPU", tokens)
	}
	want := min(16, int(models.MostCUDA/large.Tokens.Mean))
	if large.MicroBatch != want || large.MicroBatch <= cpu.MicroBatch {
		t.Errorf("%d samples on a large GPU, %d on the CPU, want %d", large.MicroBatch, cpu.MicroBatch, want)
	}
	for n := large.MicroBatch - 1; n > 1; n /= 2 { // a GPU in which just n fit
		fixed := planFor(t, 80e9, fmt.Sprintf("micro_batch: %d\n", n))
		p := planFor(t, fixed.Need*10/9+1<<10, "")
		if p.MicroBatch != n || !*p.Fits {
			t.Errorf("%d samples of %d bytes in a GPU of %d, want %d", p.MicroBatch, p.Need, p.Memory, n)
		}
	}
}

// TestPlansForGPU: weights are counted in the type that is computed with, and what lies on the host apart.
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
	for _, what := range []string{"parameters", "sums of gradients"} { // the host has the optimizer's
		if n := whole.Bytes[what]; n < 4*whole.Trainable || n > 4*whole.Trainable+(65<<20) {
			t.Errorf("%s: %d bytes for %d parameters", what, n, whole.Trainable)
		}
	}
	if cpu := planFor(t, 0, ""); cpu.Host != nil || cpu.Bytes["program"] == 0 {
		t.Errorf("on the CPU: %v, %v", cpu.Host, cpu.Bytes)
	}
}

// TestPlansOfModeHead: the backbone counts as it computes hidden states, and a GPU that is asked about is where it
// does.
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
	if err := planFor(t, 1e6, "mode: head\n").Err(); err == nil || !strings.Contains(err.Error(), "would not fit") {
		t.Errorf("a megabyte: %v", err)
	}
}
