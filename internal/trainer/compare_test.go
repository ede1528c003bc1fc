package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/trainer/objective"
	"assay/internal/trainer/optimizer"
	"assay/losses"
)

// openWith opens the oracle's scorer for training, with additional configuration keys.
func openWith(t *testing.T, folder, text string) (*config.Config, models.Model) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	text = fmt.Sprintf("init: %s\nout: out\ndata: {train: t.jsonl}\ndevice: cpu\nthreads: 2\n%s",
		filepath.Join(folder, "scorer"), text)
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	c := load(t, path)
	m, err := models.Open(context.Background(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return c, m
}

// TestMicroBatchesOfGroups: the gradient of a batch does not depend on how its groups are split into micro-batches,
// even with random draws.
func TestMicroBatchesOfGroups(t *testing.T) {
	ctx, folder := context.Background(), filepath.Join(oracle.Folders(t)[0], "llavanext")
	c, m := openWith(t, folder, "losses: [{kind: davidson}, {kind: l1}, {kind: text, weight: 0.5}]\nbatch_size: 4\n")
	var batch []dataset.Example
	for i, o := range oracle.Read[[]oracle.Case](t, filepath.Join(folder, "cases.json"))[:4] {
		e := caseExample(c, folder, o)
		e.Unit, e.Annotations = i/2, data.Annotations{Labels: map[string]float64{"": e.Label}}
		batch = append(batch, e)
	}
	var sums [2][][]float32
	for k, micro := range []int{2, 4} {
		o, err := optimizer.New(c, m, m.Params(), m.Params())
		if err != nil {
			t.Fatal(err)
		}
		o.MakeGrads()
		groups := &dataset.Groups{Pairs: make([][]dataset.Comparison, 1), Bound: 4}
		parts := (&dataset.BatchSampler{Groups: groups}).Split(batch, micro)
		if len(parts) != 4/micro {
			t.Fatal(len(parts), "parts")
		}
		items := make([][][]losses.Item, len(parts))
		for i, p := range parts {
			items[i] = objective.New(c.Losses, groups).Items(p)
		}
		objective.Normalize(items)
		for i, p := range parts {
			r, err := m.Step(ctx, p, models.StepInput{Items: items[i], Weight: 1.0 / 4, Seed: 1, Draws: 2})
			if err != nil {
				t.Fatal(err)
			}
			o.Add(r.Grads)
		}
		sums[k] = o.Grads
	}
	for i, p := range m.Params() {
		if d := oracle.Far(sums[0][i], sums[1][i]); !(d <= 1e-5) {
			t.Errorf("gradient of %s is %g off", p.Name, d)
		}
	}
}
