package trainer

import (
	"context"
	"path/filepath"
	"slices"
	"testing"

	"assay/checkpoints"
	"assay/internal/long"
	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/losses"
	"assay/model"
)

// TestLearnedCuts: the cuts of an ordinal loss train with the scorer and are saved with the run, interrupted or not,
// but are not part of the scorer.
func TestLearnedCuts(t *testing.T) {
	long.Test(t)
	ctx := context.Background()
	text := "losses: [{kind: ordinal, cuts: learned, dimension: following}, {kind: gaussian, dimension: quality}]\n" +
		"optimizer: {lr: 0.01}\ncheckpoint: {steps: 1}\n"
	c := load(t, writeJudge(t, text))
	whole, err := Train(ctx, Options{Config: c, Factory: models.Open})
	if err != nil {
		t.Fatal(err)
	}
	if whole.Trains.Losses != 2 {
		t.Errorf("%+v", whole.Trains)
	}
	dir, _, err := checkpoints.Latest(filepath.Join(c.Out, config.CheckpointsDir))
	if err != nil {
		t.Fatal(err)
	}
	kept, _, err := checkpoints.ReadFile(filepath.Join(dir, checkpoint.TensorFile))
	if err != nil {
		t.Fatal(err)
	}
	name := losses.Name(0, "cuts")
	cuts := kept["parameter/"+name].Float32s()
	for i, p := range losses.Parameters(0, &c.Losses[0])[0].Value {
		if d := float64(cuts[i]) - p; d == 0 {
			t.Errorf("cut %d is still %g", i, p)
		}
	}
	head, _, err := checkpoints.ReadFile(filepath.Join(whole.Scorer, model.HeadFile))
	if err != nil || head[name] != nil {
		t.Errorf("the scorer has %s (%v)", name, err)
	}
	s, err := model.OpenScorer(whole.Scorer, model.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	again := writeJudge(t, text)
	c = load(t, again)
	stop, cancel := context.WithCancel(ctx)
	factory := func(ctx context.Context, c *config.Config) (models.Model, error) {
		m, err := models.Open(ctx, c)
		return &stopping{m.(*models.ScorerModel), cancel}, err
	}
	if _, err := Train(stop, Options{Config: c, Factory: factory}); err == nil {
		t.Fatal("not interrupted")
	}
	second, err := Train(ctx, Options{Config: load(t, again), Factory: models.Open})
	if err != nil || second.Resumed == 0 {
		t.Fatal(second, err)
	}
	resumed, _, err := checkpoints.ReadFile(filepath.Join(second.Scorer, model.HeadFile))
	if err != nil {
		t.Fatal(err)
	}
	for n, x := range head {
		if !slices.Equal(x.Float32s(), resumed[n].Float32s()) {
			t.Errorf("%s of the run that was stopped is another", n)
		}
	}
}
