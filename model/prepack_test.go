package model

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
)

// large marks a network as that of a model that is not small, with or without packed weights.
func large(n *exec.Network, packs bool) {
	n.Plan.Small, n.Plan.Prepack, n.Plan.Limits = false, packs, batch.NewLimits(false, false, 2)
}

// exampleEdit has two pictures that differ.
func exampleEdit() *edit.Edit {
	a, b := data.NewPicture(64, 64), data.NewPicture(64, 64)
	for i := range a.Pix {
		a.Pix[i], b.Pix[i] = byte(i*7), byte(i*i)
	}
	return edit.New(a, b, "blur it")
}

// TestStepsOverPackedWeights: loss and gradients of a step equal those with unpacked weights, up to rounding.
func TestStepsOverPackedWeights(t *testing.T) {
	var want *StepResult
	for _, packs := range []bool{false, true} {
		u := sharedTuner(t, "llavanext")
		defer u.Close()
		large(u.net, packs)
		other := exec.Recipe{Name: "packing", Build: u.stepGraph(1).Build} // not the graph that NewTuner has built
		b, err := u.run.Sessions.Graph(other)
		if err != nil || b.Packed != packs {
			t.Fatalf("a step packs its weights: %v, %v; want %v", err, b, packs)
		}
		s, err := u.Sample(exampleEdit(), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		got, err := u.Step(context.Background(), []*batch.Sample{s}, StepInput{Labels: []float64{0.3}, Weight: 1})
		if err != nil {
			t.Fatal(err)
		}
		if want == nil {
			want = got
			continue
		}
		if d := math.Abs(got.Loss[0] - want.Loss[0]); !(d <= 1e-5*math.Abs(want.Loss[0])) {
			t.Errorf("loss %v, unpacked %v", got.Loss, want.Loss)
		}
		for name, g := range got.Grads {
			far, norm := 0.0, 0.0
			for i, v := range g.Float32s() {
				w := float64(want.Grads[name].Float32s()[i])
				far, norm = math.Hypot(far, float64(v)-w), math.Hypot(norm, w)
			}
			if !(far <= 1e-5*norm+1e-9) {
				t.Errorf("the gradient of %s is %g from the unpacked one, of norm %g", name, far, norm)
			}
		}
	}
}

// TestScoresOverPackedWeights: a score equals that with unpacked weights, up to rounding. (The threads' order of
// summing these narrow layers varies, so that batches are not tested.)
func TestScoresOverPackedWeights(t *testing.T) {
	dirs, err := filepath.Glob("../testdata/oracle/llavanext/scorer*")
	if err != nil || len(dirs) == 0 {
		t.Fatal(err)
	}
	var want float64
	for _, packs := range []bool{false, true} {
		s, err := OpenScorer(dirs[0], Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		large(s.net, packs)
		if b, err := s.run.Sessions.Graph(s.forwardGraph(forwardSpec{})); err != nil || b.Packed != packs {
			t.Fatalf("scoring packs its weights: %v, %v; want %v", err, b, packs)
		}
		one, err := s.Sample(exampleEdit(), Ask{})
		if err != nil {
			t.Fatal(err)
		}
		alone, err := s.Score01(context.Background(), []*batch.Sample{one})
		if err != nil {
			t.Fatal(err)
		}
		if packs && !(math.Abs(alone[0]-want) <= 1e-5) {
			t.Errorf("score %g, with unpacked weights %g", alone[0], want)
		}
		want = alone[0]
	}
}

// TestWhatPacks: models whose weights are a small part of the machine's memory pack them.
func TestWhatPacks(t *testing.T) {
	u := sharedTuner(t, "llavanext")
	defer u.Close()
	_, bytes := u.net.Weights()
	n := u.net
	n.Plan.Small = false
	if !n.PacksFor(bytes*exec.PackedShare) || n.PacksFor(bytes*exec.PackedShare-1) {
		t.Errorf("%d bytes of weights: packed at %v and %v", bytes, bytes*exec.PackedShare, bytes*exec.PackedShare-1)
	}
	if n.Plan.Recompute = true; n.PacksFor(bytes * exec.PackedShare) {
		t.Error("a network that recomputes its layers packs")
	}
	n.Plan.Prepack = true
	prefixed := &nn.Graph{Variant: nn.Variant{Follows: []int{-1, 0}}}
	if !u.stepPacks(&nn.Graph{}, 1) || u.stepPacks(&nn.Graph{}, 2) || !u.stepPacks(prefixed, 2) {
		t.Error("steps over one group pack, those over two of which none follows do not")
	}
}

// TestWhereBlocksBegin: a model that is not small attends in blocks from fewer rows in scoring than in steps.
func TestWhereBlocksBegin(t *testing.T) {
	u := sharedTuner(t, "llavanext")
	defer u.Close()
	n := u.net
	for _, small := range []bool{true, false} {
		n.Plan.Small = small
		want := map[bool]int{true: nn.BlocksFrom, false: nn.ScoresInBlocksFrom}
		if n.BlocksFrom(true) != nn.BlocksFrom || n.BlocksFrom(false) != want[small] {
			t.Errorf("small=%v: from %d rows in steps, from %d in scoring", small, n.BlocksFrom(true), n.BlocksFrom(false))
		}
	}
}
