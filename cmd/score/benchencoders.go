package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"assay/benchmarks"
	"assay/data"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/cli"
)

// similarities are the baselines that encoders give. A higher value means a better edit; predictions are 10 times the cosine.
var similarities = []string{"clip_d", "clip_t", "clip_i", "dino_i"}

// encoderFlags name the encoders of the baselines.
type encoderFlags struct{ clip, dino, captions string }

// similarityScorer judges edits by one similarity of CLIP's or DINOv2's embeddings: clip_t of the instruction (or, where
// captions are given, the caption of the wanted result) and the edit; clip_i and dino_i of source and edit, since benchmarks
// have no target; clip_d of the change of the picture and the change of the captions.
type similarityScorer struct {
	name     string
	model    *encoders.Model
	captions map[string][2]string // by item id: before, after
}

func openSimilarity(name string, e encoderFlags, r runtimeFlags) (*similarityScorer, error) {
	path, flag := e.clip, "--clip"
	if name == "dino_i" {
		path, flag = e.dino, "--dino"
	}
	if path == "" {
		return nil, cli.Usagef("--baseline %s needs %s: a Hugging Face checkpoint directory or an .onnx file", name, flag)
	}
	if name == "clip_d" && e.captions == "" {
		return nil, cli.Usagef("--baseline clip_d needs --captions: JSON lines of id, source_caption and target_caption")
	}
	s := &similarityScorer{name: name}
	var err error
	if e.captions != "" {
		if s.captions, err = readCaptions(e.captions); err != nil {
			return nil, err
		}
	}
	if s.model, err = encoders.Open(path, encoders.Options{Device: r.device, Threads: r.threads}); err != nil {
		return nil, err
	}
	if (name == "clip_t" || name == "clip_d") && !s.model.HasTexts() {
		return nil, errors.Join(fmt.Errorf("%s has no text encoder: %s needs one", path, name), s.model.Close())
	}
	return s, nil
}

func readCaptions(path string) (map[string][2]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][2]string{}
	d := json.NewDecoder(f)
	for line := 1; ; line++ {
		var row struct {
			ID     string `json:"id"`
			Before string `json:"source_caption"`
			After  string `json:"target_caption"`
		}
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil || row.ID == "" {
			return nil, fmt.Errorf("%s: entry %d: id, source_caption and target_caption are wanted (%v)", path, line, err)
		}
		out[row.ID] = [2]string{row.Before, row.After}
	}
}

// Score implements benchmarks.Scorer.
func (s *similarityScorer) Score(ctx context.Context, group []benchmarks.Item) ([]benchmarks.Prediction, error) {
	var pictures []*data.Picture
	for _, it := range group {
		for _, side := range []struct {
			what string
			p    benchmarks.Picture
		}{{"source", it.Source}, {"edit", it.Edit}} {
			p, err := decode(it, side.what, side.p)
			if err != nil {
				return nil, err
			}
			pictures = append(pictures, p)
		}
	}
	image, err := s.model.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	out := make([]benchmarks.Prediction, len(group))
	for i, it := range group {
		v, err := s.similarity(ctx, it, image[2*i], image[2*i+1])
		if err != nil {
			return nil, fmt.Errorf("%v: %w", it.Key, err)
		}
		out[i] = benchmarks.Prediction{Key: it.Key, Score: 10 * v}
	}
	return out, nil
}

func (s *similarityScorer) similarity(ctx context.Context, it benchmarks.Item, source, edit []float32) (float64, error) {
	if s.name == "clip_i" || s.name == "dino_i" {
		return heuristics.Cosine(source, edit), nil
	}
	caption, known := s.captions[it.ID]
	texts := []string{it.Instruction}
	if known {
		texts = caption[:]
	} else if s.name == "clip_d" {
		return 0, fmt.Errorf("no captions for id %q", it.ID)
	}
	text, err := s.model.Texts(ctx, texts)
	if err != nil {
		return 0, err
	}
	if s.name == "clip_t" {
		return heuristics.Cosine(edit, text[len(text)-1]), nil
	}
	return heuristics.ClipDirection(source, edit, text[0], text[1]), nil
}
