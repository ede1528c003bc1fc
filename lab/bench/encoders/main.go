// Command encoders is our side of the encoders' part of `make bench`: it embeds picture files, decoding included, and
// prints one JSON line. encoders_torch.py does the same with transformers.
//
//	encoders --model DIR --batch 16 --repeat 64 --steps 3 A.png B.png...
package main

import (
	"context"
	"encoding/json"
	"flag"
	"log"
	"os"
	"time"

	"assay/data"
	"assay/encoders"
)

func main() {
	log.SetFlags(0)
	path := flag.String("model", "", "CLIP or DINOv2 checkpoint")
	batch, repeat, steps := flag.Int(
		"batch",
		16,
		"pictures of one run",
	), flag.Int(
		"repeat",
		64,
		"pictures of a repetition",
	), flag.Int(
		"steps",
		3,
		"timed repetitions",
	)
	flag.Parse()
	if err := run(*path, *batch, *repeat, *steps, flag.Args()); err != nil {
		log.Fatal("encoders: ", err)
	}
}

func run(path string, batch, repeat, steps int, files []string) error {
	m, err := encoders.Open(path, encoders.Options{Batch: batch})
	if err != nil {
		return err
	}
	defer m.Close()
	images := make([]data.Image, repeat)
	for i := range images {
		images[i].Path = files[i%len(files)]
	}
	var first []float32
	once := func() error {
		got, problems, err := m.Files(context.Background(), ".", images)
		for _, p := range problems {
			if err == nil {
				err = p
			}
		}
		if err == nil {
			first = got[0]
		}
		return err
	}
	if err := once(); err != nil {
		return err
	}
	var seconds []float64
	for range steps {
		start := time.Now()
		if err := once(); err != nil {
			return err
		}
		seconds = append(seconds, time.Since(start).Seconds())
	}
	return json.NewEncoder(os.Stdout).
		Encode(map[string]any{"seconds": seconds, "pictures": repeat, "embedding": first[:4]})
}
