package model

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/model/batch"
)

// TestStagedSteps: steps whose features are copied to the device while another step runs have the same losses and
// gradients, bit for bit, as steps without that: for pictures that repeat, and in other orders, and with validation,
// cancelled steps, skipped batches and a cleared cache in between.
func TestStagedSteps(t *testing.T) {
	long.Test(t)
	want, got := stagedSteps(t, false), stagedSteps(t, true)
	for i := range want {
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Fatalf("step %d (-want +got):\n%s", i+1, diff)
		}
	}
}

// stagedSteps returns the losses and gradients of steps on what would be a GPU.
func stagedSteps(t *testing.T, stage bool) (out [][]float32) {
	t.Helper()
	p, err := LoadScorerState("../testdata/oracle/qwen2_5_vl/scorer_sequence")
	if err != nil {
		t.Fatal(err)
	}
	p.Config.DType = "float16" // see Network.Computes
	u, err := NewTuner(p, TuneOptions{TextLoss: 1, Options: Options{Device: "cuda:0", On: "cpu", Threads: 1}})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	rng := rand.New(rand.NewPCG(1, 2))
	sets := stagedSets(rng)
	prepare := func(set int) (samples []*batch.Sample) {
		for _, e := range sets[set] {
			s, err := u.Sample(e, Ask{})
			if err != nil {
				t.Error(err)
			}
			samples = append(samples, s)
		}
		return samples
	}
	step := func(ctx context.Context, samples []*batch.Sample) (*StepResult, error) {
		in := StepInput{Labels: []float64{0.2, 0.9, 0.4}[:len(samples)], Weight: 0.5, Seed: 7}
		return u.Step(ctx, samples, in)
	}
	set, uploaded := rng.IntN(len(sets)), 0
	now := prepare(set)
	for range 40 {
		var next []*batch.Sample
		following := rng.IntN(len(sets))
		var ahead sync.WaitGroup
		ahead.Go(func() {
			if next = prepare(following); stage {
				u.Stage(next)
			}
		})
		switch rng.IntN(8) {
		case 0:
			ctx, cancel := context.WithCancel(t.Context())
			go cancel()
			_, _ = step(ctx, now) // cancelled, or done just before
		case 1:
			u.ClearCache()
		case 2:
			if _, err := u.Score01(t.Context(), prepare(set)); err != nil {
				t.Fatal(err)
			}
		case 3: // the following batch is used after this one
			ahead.Wait()
		case 4: // a step that fails before it runs
			ahead.Wait()
			uploaded += takeStaged(t, u, next)
		}
		if rng.IntN(8) > 0 {
			r, err := step(t.Context(), now)
			if err != nil {
				t.Fatal(err)
			}
			one := []float32{}
			for _, v := range r.Loss {
				one = append(one, float32(v))
			}
			for _, x := range u.List {
				one = append(one, r.Grads[x.Name].Float32s()...)
			}
			out = append(out, one)
		}
		ahead.Wait()
		now, set = next, following
	}
	if stage != (uploaded > 0) {
		t.Errorf("got %d batches on the device, want some: %t", uploaded, stage)
	}
	return out
}

// takeStaged returns the number of tensors that a step over samples would find on the device.
func takeStaged(t *testing.T, u *Tuner, samples []*batch.Sample) int {
	t.Helper()
	p, err := u.stepPacking().Pack(samples, u.net.Positions)
	if err != nil {
		t.Fatal(err)
	}
	_, views, done, err := u.run.Sessions.StepFeeds(p)
	if err != nil {
		t.Fatal(err)
	}
	done()
	return len(views)
}

// stagedSets draws batches of edits of a few pictures, each in two orders.
func stagedSets(rng *rand.Rand) (sets [][]*edit.Edit) {
	var pictures []*data.Picture
	for i := range 5 {
		p := data.NewPicture(56+28*(i%2), 56)
		for k := range p.Pix {
			p.Pix[k] = byte(rng.Uint32())
		}
		pictures = append(pictures, p)
	}
	for i := range 6 {
		var set []*edit.Edit
		for range 1 + i%3 {
			set = append(set, edit.New(pictures[rng.IntN(5)], pictures[rng.IntN(5)], "blur it"))
		}
		reversed := slices.Clone(set)
		slices.Reverse(reversed)
		sets = append(sets, set, reversed)
	}
	return sets
}
