package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/lab/dialogue"
	"assay/lab/internal/miniature"
	"assay/model"
	"assay/model/backbone"
)

// An interrupted run and an uninterrupted one end with the same bytes, which are published with a card.
func TestBackboneResumesToTheSameBits(t *testing.T) {
	long.Test(t)
	world := testWorld(t)
	run := func(out string, stop int64) error {
		o := course{out: out, size: 32, seed: 3, steps: 4, batch: 2, lr: 1e-3, threads: 1, every: 2}
		c := o.config()
		c.Backbone, c.Pair, c.PairSize = filepath.Join(t.TempDir(), "fresh"), model.Frames, []int{32, 32}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		_, err := trainer.Train(ctx, trainer.Options{
			Config:  c,
			Factory: func(context.Context, *config.Config) (models.Model, error) { return newBackboneModel(c, world, 100) },
			Data: dataset.New(
				drawn{n: 100},
				drawn{4, degreeAsked(world, o.seed)},
				map[string]string{"photos": "patterns", "held": "[others]"},
			),
			Force:    true, // the path of the fresh checkpoint differs
			Progress: func(string, int64, string) dataset.Progress { return &until{stop, cancel} },
		})
		return err
	}
	whole := resumes(t, run, "model.safetensors")
	out := filepath.Join(t.TempDir(), "published")
	if err := publish("backbone", whole, out, ""); err != nil {
		t.Fatal(err)
	}
	card, err := os.ReadFile(filepath.Join(out, "README.md"))
	if err != nil || !strings.Contains(string(card), "4 steps, 8 pairs") || !strings.Contains(string(card), "seed: 3") ||
		strings.Contains(string(card), "no value") {
		t.Errorf("%v, card:\n%s", err, card)
	}
	opened, err := backbone.OpenBackbone(out)
	if err != nil {
		t.Fatal(err)
	}
	opened.Close()
}

// The shipped backbone stays small and distinguishes a perfect edit from none, on photographs that it was trained on,
// in other crops.
func TestShippedBackbone(t *testing.T) {
	long.Test(t)
	dir := "../../backbones/tiny"
	staysSmall(t, dir, 8<<20)
	tuner, err := dialogue.New(dir, model.Frames, []int{64, 64}, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Close()
	o := course{photos: "../../examples/photos", held: []string{"tissue", "rocket"}, size: 64}
	world, err := o.world(false)
	if err != nil {
		t.Fatal(err)
	}
	mean := map[miniature.Kind]float64{}
	for _, kind := range []miniature.Kind{miniature.Perfect, miniature.Noop, miniature.WrongAttribute} {
		var samples []*dialogue.Sample
		for i := range 60 {
			rng := generator(98, forValidation, i)
			task, err := world.Task(rng, "")
			if err != nil {
				t.Fatal(err)
			}
			c, ok := task.Candidate(rng, kind)
			if !ok {
				continue
			}
			s, err := tuner.Prepare(asked(task.Source, c.Picture, task.Instruction))
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, s)
		}
		scores, err := judge(t.Context(), tuner, samples)
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range scores {
			mean[kind] += s / float64(len(scores))
		}
	}
	if !(mean[miniature.Perfect] >= 0.6) || mean[miniature.Noop] > 0.1 || mean[miniature.WrongAttribute] > 0.35 {
		t.Errorf("probabilities of yes: %v", mean)
	}
}
