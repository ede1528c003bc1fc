package models

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/losses"
)

// openWith opens the oracle's scorer for training, with additional configuration keys.
func openWith(t *testing.T, folder, text string) (*config.Config, Model) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	text = fmt.Sprintf("init: %s\nout: out\ndata: {train: t.jsonl}\ndevice: cpu\nthreads: 2\n%s",
		filepath.Join(folder, "scorer"), text)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c := load(t, path)
	m, err := Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return c, m
}

// TestTermsAreTheLoss: the default objective written as a list of terms has bit-identical scores, losses and
// gradients.
func TestTermsAreTheLoss(t *testing.T) {
	ctx, folder := context.Background(), filepath.Join(oracle.Folders(t)[0], "llavanext")
	c, usual := openWith(t, folder, "loss: {text: 1, score: 10}\n")
	_, terms := openWith(t, folder, "losses: [{kind: l1, weight: 10}, {kind: text}]\n")
	var batch []dataset.Example
	items := [][]losses.Item{nil, nil}
	for i, o := range oracle.Read[[]oracle.Case](t, filepath.Join(folder, "cases.json"))[:3] {
		batch = append(batch, caseExample(c, folder, o))
		items[0] = append(items[0], losses.Item{Edits: []int{i}, Label: o.Label / 10, Weight: 0.25})
	}
	want, err := usual.Step(ctx, batch, StepInput{Weight: 0.25, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	got, err := terms.Step(ctx, batch, StepInput{Items: items, Weight: 0.25, Seed: 1, Draws: 2})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Score, want.Score) || !slices.Equal(got.CE, want.CE) ||
		!slices.Equal(got.Terms[0], want.ScoreLoss) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i, p := range usual.Params() {
		if !slices.Equal(got.Grads[i].Float32s(), want.Grads[i].Float32s()) {
			t.Errorf("the gradient of %s is another", p.Name)
		}
	}
}

// TestPairGradients composes the gradients of comparisons from those of single scores: d loss = sum_e slope_e d
// score_e, with the slopes of the formulas.
func TestPairGradients(t *testing.T) {
	ctx, folder := context.Background(), filepath.Join(oracle.Folders(t)[0], "llavanext")
	c, usual := openWith(t, folder, "loss: {text: 0, score: 1}\n")
	_, terms := openWith(t, folder, "losses: [{kind: bradley_terry, scale: 4}, "+
		"{kind: plackett_luce, scale: 2, weight: 3}]\n")
	var batch []dataset.Example
	var slopes []*StepResult // of each score: the L1 loss of a label far below has the slope 1
	for _, o := range oracle.Read[[]oracle.Case](t, filepath.Join(folder, "cases.json"))[:3] {
		e := caseExample(c, folder, o)
		batch = append(batch, e)
		e.Label = -1e6
		r, err := usual.Step(ctx, []dataset.Example{e}, StepInput{Weight: 1, Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		slopes = append(slopes, r)
	}
	items := [][]losses.Item{
		{{Edits: []int{0, 2}, Outcome: [3]float64{1, 0, 0}, Weight: 0.5},
			{Edits: []int{1, 2}, Outcome: [3]float64{0, 1, 0}, Weight: 0.5}},
		{{Edits: []int{2, 0, 1}, Ranks: []int{0, 1, 2}, Weight: 1}},
	}
	got, err := terms.Step(ctx, batch, StepInput{Items: items, Weight: 1, Seed: 1, Draws: 2})
	if err != nil {
		t.Fatal(err)
	}
	s, d := got.Score, make([]float64, 3)
	sigmoid := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	pair := func(a, b int, p float64) {
		g := 0.5 * 4 * (sigmoid(4*(s[a]-s[b])) - p)
		d[a], d[b] = d[a]+g, d[b]-g
	}
	pair(0, 2, 1)
	pair(1, 2, 0.5)
	for _, left := range [][]int{{2, 0, 1}, {0, 1}} {
		sum := 0.0
		for _, e := range left {
			sum += math.Exp(2 * s[e])
		}
		for i, e := range left {
			d[e] += 3 * 2 * math.Exp(2*s[e]) / sum
			if i == 0 {
				d[e] -= 3 * 2
			}
		}
	}
	for i, p := range usual.Params() {
		off, size := 0.0, 0.0 // they may cancel: that of the last bias is 0
		for j, x := range got.Grads[i].Float32s() {
			want, all := 0.0, 0.0
			for e, r := range slopes {
				g := d[e] * float64(r.Grads[i].Float32s()[j])
				want, all = want+g, all+math.Abs(g)
			}
			off, size = max(off, math.Abs(float64(x)-want)), max(size, all)
		}
		if !(off <= 1e-5*size) {
			t.Errorf("gradient of %s is %g off of %g", p.Name, off, size)
		}
	}
}
