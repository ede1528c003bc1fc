package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/encoders"
	"assay/internal/exit"
	"assay/internal/long"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/lab/internal/miniature"
	"assay/model/fresh"
)

// testWorld returns a world with generated photographs.
func testWorld(t *testing.T) *miniature.World {
	t.Helper()
	p := data.NewPicture(48, 48)
	for i := range p.Pix {
		p.Pix[i] = byte(i * i / 7)
	}
	world, err := miniature.New([]miniature.Photo{{Name: "pattern", Caption: "a pattern", Picture: p}}, 32, true)
	if err != nil {
		t.Fatal(err)
	}
	return world
}

// until cancels a run after a number of examples; 0: never.
type until struct {
	left   int64
	cancel func()
}

func (u *until) Add(n int64, _ string) {
	if u.left -= n; u.left == 0 {
		u.cancel()
	}
}

func (u *until) Close() {}

// resumes runs a training in one go and with an interruption, and compares a file of the two results. It returns the
// first run directory.
func resumes(t *testing.T, run func(out string, stop int64) error, file string) string {
	t.Helper()
	whole, parts := filepath.Join(t.TempDir(), "whole"), filepath.Join(t.TempDir(), "parts")
	if err := run(whole, 0); err != nil {
		t.Fatal(err)
	}
	if err := run(parts, 4); !errors.Is(err, exit.ErrInterrupted) {
		t.Fatalf("want an interrupted run, got %v", err)
	}
	if err := run(parts, 0); err != nil {
		t.Fatal(err)
	}
	a, errA := os.ReadFile(filepath.Join(whole, config.ScorerDir, file))
	b, errB := os.ReadFile(filepath.Join(parts, config.ScorerDir, file))
	if errA != nil || errB != nil || !bytes.Equal(a, b) {
		t.Errorf("the resumed run has a different result (%v, %v)", errA, errB)
	}
	return whole
}

// An interrupted run and an uninterrupted one end with the same bytes, which open as an encoder.
func TestEncodersResumeToTheSameBits(t *testing.T) {
	long.Test(t)
	world := testWorld(t)
	tower := fresh.Transformer{Hidden: 16, Layers: 1, Heads: 2, Intermediate: 32}
	for name, factory := range map[string]func(c *config.Config) (*encoderModel, error){
		"clip": func(c *config.Config) (*encoderModel, error) {
			return newCLIPModel(c, world, fresh.CLIPSizes{Picture: 32, Patch: 8, Vision: tower, Text: tower, Projection: 8,
				Context: 77, Vocab: 600})
		},
		"dino": func(c *config.Config) (*encoderModel, error) {
			return newDINOModel(c, world, fresh.DINOSizes{Picture: 32, Patch: 8, Transformer: tower})
		},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(out string, stop int64) error {
				o := course{out: out, size: 32, seed: 3, steps: 4, batch: 2, lr: 1e-3, threads: 1, every: 2}
				c := o.config()
				c.Backbone = filepath.Join(t.TempDir(), "fresh") // made again each time, with the same bytes
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				_, err := trainer.Train(ctx, trainer.Options{Config: c,
					Factory:  func(context.Context, *config.Config) (models.Model, error) { return factory(c) },
					Data:     dataset.New(drawn{n: 100}, drawn{4, degreeOf(world, o.seed)}, nil),
					Force:    true, // the path of the fresh checkpoint differs
					Progress: func(string, int64, string) dataset.Progress { return &until{stop, cancel} }})
				return err
			}
			whole := resumes(t, run, "model.safetensors")
			m, err := encoders.Open(filepath.Join(whole, config.ScorerDir), encoders.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			if m.HasTexts() != (name == "clip") {
				t.Errorf("texts: %v", m.HasTexts())
			}
		})
	}
}

// The pictures of an example differ by an edit, which their captions describe.
func TestVariantsHaveTheirCaptions(t *testing.T) {
	world := testWorld(t)
	for i := range 20 {
		pictures, captions := make([]*data.Picture, variants), make([]string, variants)
		if err := drawVariants(world, generator(1, forTraining, i), pictures, captions); err != nil {
			t.Fatal(err)
		}
		for k, p := range pictures {
			if p == nil || captions[k] == "" {
				t.Fatalf("example %d: variant %d lacks a picture or a caption", i, k)
			}
		}
		if captions[0] == captions[1] || bytes.Equal(pictures[0].Pix, pictures[1].Pix) {
			t.Errorf("example %d: %q was done without a change", i, captions[1])
		}
	}
}
