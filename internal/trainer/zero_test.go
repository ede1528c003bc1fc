package trainer

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/optim"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/distributed"
	"assay/internal/trainer/models"
	"assay/onnx"
)

// broad is fake with additional tensors of several optimizer blocks, with arbitrary gradients.
type broad struct {
	*fake
	all []optim.Param
}

func newBroad() *broad {
	b := &broad{fake: newFake()}
	b.all = append(slices.Clone(b.params), broadParams()...)
	return b
}

// broadParams returns tensors of several optimizer blocks.
func broadParams() (out []optim.Param) {
	for i, shape := range [][]int{{3, 70_000}, {5}, {2*optim.Block + 300}, {20_000}} {
		t := tensor.New(tensor.WithShape(shape...), tensor.Of(tensor.Float32))
		values := t.Float32s()
		for j := range values {
			values[j] = float32(j%97)/97 - 0.5
		}
		out = append(out, optim.Param{Name: fmt.Sprintf("layers.%d.weight", i+1), Value: t})
	}
	return out
}

func (b *broad) Params() []optim.Param                                         { return b.all }
func (b *broad) factory(context.Context, *config.Config) (models.Model, error) { return b, nil }

func (b *broad) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	r, err := b.fake.Step(ctx, batch, in)
	for _, p := range b.all[2:] {
		g := p.Value.Clone().(*tensor.Dense)
		values := g.Float32s()
		clear(values)
		for i := range batch {
			h := fnv.New64a()
			fmt.Fprint(h, p.Name, batch[i].Edit.Instruction, batch[i].Question)
			x := h.Sum64()
			for j := range values {
				x = x*6364136223846793005 + 1442695040888963407
				values[j] += float32(in.Weight) * float32(int32(x>>32)) / (1 << 31)
			}
		}
		r.Grads = append(r.Grads, g)
	}
	return r, err
}

func (b *broad) SaveScorer(dir string) error {
	h := sha256.New()
	for _, p := range b.all {
		h.Write(onnx.Float32Bytes(p.Floats()))
	}
	return os.WriteFile(filepath.Join(dir, "weights.txt"), []byte(hex.EncodeToString(h.Sum(nil))), 0o666)
}

// trainBroad trains with n ranks, each interrupted after its own number of steps if stop is not 0.
func trainBroad(t *testing.T, path string, n, stop int) (errs []error) {
	t.Helper()
	c := newCrew(n)
	errs = make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		b, o := newBroad(), Options{Config: load(t, path), Factory: nil}
		o.Factory = b.factory
		if n > 1 {
			o.Strategy = strategyOf(mate{c, i})
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		b.steps = func(done int) {
			if done == stop && i == n-1 {
				cancel()
			}
		}
		wg.Go(func() { _, errs[i] = Train(ctx, o) })
	}
	wg.Wait()
	return errs
}

// saved returns the tensor file of the last checkpoint.
func saved(t *testing.T, path string) []byte {
	t.Helper()
	dir, _, err := checkpoints.Latest(filepath.Join(filepath.Dir(path), "out", config.CheckpointsDir))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, checkpoint.TensorFile))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestSharedOptimizer: for any optimizer and number of ranks, parameters and checkpoints are byte-identical to those
// of one process. Any number of ranks can resume from them.
func TestSharedOptimizer(t *testing.T) {
	long.Test(t)
	for _, name := range []string{"adamw", "lion", "adamw_8bit", "adafactor"} {
		write := func() string {
			path := writeRun(t, 60, "steps: 5\nvalidate: {every: 2}\ncheckpoint: {steps: 2, minutes: 100}\nclip_norm: 1\n")
			text, err := os.ReadFile(path)
			if err == nil {
				was, is := "optimizer: {lr: 0.01}", "optimizer: {name: "+name+", lr: 0.01, weight_decay: 0.1, decay: weights}"
				text = bytes.Replace(text, []byte(was), []byte(is), 1)
				err = os.WriteFile(path, text, 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
			return withMicro(t, path, 1)
		}
		quiet := write()
		if err := trainBroad(t, quiet, 1, 0)[0]; err != nil {
			t.Fatal(err)
		}
		want, state := outcome(t, quiet), saved(t, quiet)
		for _, n := range []int{2, 3, 7} {
			path := write()
			for i, err := range trainBroad(t, path, n, 0) {
				if err != nil {
					t.Fatalf("%s, rank %d of %d: %v", name, i, n, err)
				}
			}
			if d := cmp.Diff(want, outcome(t, path)); d != "" {
				t.Errorf("%s, %d ranks: %s", name, n, d)
			}
			if !bytes.Equal(state, saved(t, path)) {
				t.Errorf("%s, %d ranks: another state is saved", name, n)
			}
		}
		path := write()
		for turn, n := range []int{3, 1, 2} {
			for i, err := range trainBroad(t, path, n, []int{2, 7, 0}[turn]) {
				if turn < 2 && exit.Code(err) != exit.Interrupted || turn == 2 && err != nil {
					t.Fatalf("%s, turn %d, rank %d: %v", name, turn, i, err)
				}
			}
		}
		if d := cmp.Diff(want, outcome(t, path)); d != "" {
			t.Errorf("%s, resumed: %s", name, d)
		}
		if !bytes.Equal(state, saved(t, path)) {
			t.Errorf("%s, resumed: another state is saved", name)
		}
	}
}

// TestSharedStop: a loss that is not finite ends all ranks with the same error, and the state is saved.
func TestSharedStop(t *testing.T) {
	path := withMicro(t, writeRun(t, 60, "steps: 12\n"), 1)
	_, errs, _ := together(t, 3, func(_ int, o *Options, f *fake) {
		o.Config = load(t, path)
		f.poison = "row41"
	})
	for i, err := range errs {
		if err == nil || !distributed.Agreed(err) || !strings.Contains(err.Error(), "row41") ||
			!strings.Contains(err.Error(), "are saved in") {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	if s, _, _, err := checkpoint.Find(load(t, path).Out); err != nil || s == nil || s.Step == 0 {
		t.Errorf("%+v, %v", s, err)
	}
}
