package main

import (
	"context"
	"errors"
	"flag"

	"assay/data"
	"assay/encoders"
)

// embed times the embedding of picture files, including decoding. encoders_torch.py does the same with transformers.
func embed(args []string) error {
	f := flag.NewFlagSet("encoders", flag.ExitOnError)
	path := f.String("model", "", "CLIP or DINOv2 checkpoint")
	batch := f.Int("batch", 16, "pictures per run")
	repeat := f.Int("repeat", 64, "pictures per repetition")
	steps := f.Int("steps", 3, "timed repetitions")
	f.Parse(args)
	files := f.Args()
	if len(files) == 0 {
		return errors.New("encoders: no picture files")
	}
	m, err := encoders.Open(*path, encoders.Options{Batch: *batch})
	if err != nil {
		return err
	}
	defer m.Close()
	images := make([]data.Image, *repeat)
	for i := range images {
		images[i].Path = files[i%len(files)]
	}
	facts := map[string]any{"pictures": *repeat}
	return report(*steps, facts, func() error {
		embeddings, problems, err := m.Files(context.Background(), ".", images)
		if err = errors.Join(err, errors.Join(problems...)); err == nil {
			facts["embedding"] = embeddings[0][:4]
		}
		return err
	})
}
