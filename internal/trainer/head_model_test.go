package trainer

import (
	"context"
	"math"
	"os"
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/head"
	"assay/internal/trainer/models"
	"assay/model"
)

// countingBackbone returns the fake's features as hidden states.
type countingBackbone struct{ computed, opened, closed int }

func (b *countingBackbone) Hidden(_ context.Context, batch []dataset.Example) ([][]float32, error) {
	var out [][]float32
	for i := range batch {
		out = append(out, features(&batch[i]))
	}
	b.computed += len(batch)
	return out, nil
}

func (b *countingBackbone) Close() error { b.closed++; return nil }

func headFactory(b *countingBackbone, fingerprint string) models.Factory {
	return func(_ context.Context, c *config.Config) (models.Model, error) {
		var params []optim.Param
		sizes := c.Head.Sizes(fakeWidth)
		for i, name := range []string{"layers.0", "layers.1"} {
			w := make([]float32, sizes[i]*sizes[i+1])
			for j := range w {
				w[j] = float32(math.Sin(float64(7*i+j))) / 4
			}
			params = append(
				params,
				optim.Param{
					Name:  name + ".weight",
					Value: tensor.New(tensor.WithShape(sizes[i+1], sizes[i]), tensor.WithBacking(w)),
				},
				optim.Param{
					Name:  name + ".bias",
					Value: tensor.New(tensor.WithShape(sizes[i+1]), tensor.WithBacking(make([]float32, sizes[i+1]))),
				},
			)
		}
		known, err := models.OpenStore(c, nil)
		if err != nil {
			return nil, err
		}
		return models.NewHeadModel(models.HeadOptions{Head: c.Head, Params: params, Batch: 4, Weight: c.Loss.Score,
			Store: known, Backbone: map[string]string{"backbone": fingerprint},
			Open: func(context.Context) (head.Hidden, error) { b.opened++; return b, nil },
			Save: func(dir string, params []optim.Param) error {
				return (&fake{params: params}).SaveScorer(dir)
			}})
	}
}

func TestHeadAloneLearns(t *testing.T) {
	long.Test(t)
	path := writeRun(t, 60, "mode: head\nepochs: 60\n")
	c := load(t, path)
	c.Head = model.HeadConfig{Hidden: []int{64}, Activation: "relu", Kind: "classification", Values: []float64{0, 0.5, 1}}
	b := &countingBackbone{}
	run := func(fingerprint string, fresh bool) *Result {
		t.Helper()
		r, err := Train(context.Background(), Options{Config: c, Factory: headFactory(b, fingerprint), Fresh: fresh})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := run("a", false)
	// 47 training rows with 2 questions and 2 answers, 12 validation rows
	if b.opened != 1 || b.closed != 1 || b.computed != 47*4+12 {
		t.Errorf("the backbone: %+v", b)
	}
	if r.Loss > 7 { // cross-entropy of three even classes: 10 ln 3 = 11
		t.Errorf("loss %g", r.Loss)
	}
	first := outcome(t, path)
	if run("a", true); b.opened != 1 {
		t.Error("the cache was not used")
	}
	if again := outcome(t, path); first[0] != again[0] {
		t.Error("a second run ends with other weights")
	}
	segments, err := filepath.Glob(filepath.Join(c.Out, "cache", head.StateKind, "*", "*"))
	if err != nil || len(segments) != 1 {
		t.Fatal(segments, err)
	}
	raw, err := os.ReadFile(segments[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(segments[0], raw[:len(raw)-7], 0o666); err != nil { // as after a crash
		t.Fatal(err)
	}
	b.computed = 0
	if run("a", true); b.computed != 1 {
		t.Error("computed again:", b.computed)
	}
	b.computed = 0
	if run("another backbone", true); b.computed != 200 {
		t.Error("with another backbone computed:", b.computed)
	}
}

func TestHeadPreparationIsInterruptible(t *testing.T) {
	c := load(t, writeRun(t, 60, "mode: head\nsteps: 3\n"))
	c.Head.Hidden = []int{16}
	ctx, cancel := context.WithCancel(context.Background())
	b := &countingBackbone{}
	inner := headFactory(b, "a")
	_, err := Train(
		ctx,
		Options{
			Config:   c,
			Factory:  inner,
			Progress: func(string, int64, string) dataset.Progress { return cancelAfter{cancel, new(int)} },
		},
	)
	if exit.Code(err) != exit.Interrupted {
		t.Fatal(err)
	}
	before := b.computed
	if before == 0 || before > 100 {
		t.Fatal("computed", before)
	}
	if _, err := Train(context.Background(), Options{Config: c, Factory: inner}); err != nil {
		t.Fatal(err)
	}
	if b.computed != 200 {
		t.Error("computed in all", b.computed)
	}
}

type cancelAfter struct {
	cancel func()
	n      *int
}

func (p cancelAfter) Add(n int64, _ string) {
	if *p.n += int(n); *p.n > 50 {
		p.cancel()
	}
}
func (cancelAfter) Close() {}
