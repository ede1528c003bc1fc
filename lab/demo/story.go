package main

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay"
	"assay/data"
	"assay/internal/page"
	"assay/internal/trainer/records"
	"assay/lab/internal/miniature"
)

// story is the first part of the page: one task, some of its outputs, and the course of training.
type story struct {
	Instruction string
	Source      template.URL
	File        string // file of the source
	Outputs     []shownOutput
	Curve       template.HTML
	Before      float64 // loss over the first steps
	After       float64 // loss over the last steps
	Steps       int64
}

// storyKinds are the kinds of outputs in the story, with names for the reader.
var storyKinds = []struct {
	kind  miniature.Kind
	words string
}{
	{miniature.Perfect, "as asked"},
	{miniature.Half, "half of it"},
	{miniature.Over, "too much"},
	{miniature.Damaged, "as asked, and damaged"},
	{miniature.WrongAttribute, "something similar"},
	{miniature.Noop, "nothing done"},
}

// shownKinds is the number of outputs in the story.
const shownKinds = 5

// newStory chooses the first example with all kinds, else the one with the most kinds.
func newStory(examples []example) *story {
	var best *story
	for _, e := range examples {
		s := &story{Instruction: e.Instruction, Source: e.Source, File: e.File}
		for _, k := range storyKinds {
			i := slices.IndexFunc(e.Outputs, func(o shownOutput) bool { return o.Kind == k.kind })
			if i >= 0 && len(s.Outputs) < shownKinds {
				s.Outputs = append(s.Outputs, e.Outputs[i])
			}
		}
		if best == nil || len(s.Outputs) > len(best.Outputs) {
			best = s
		}
	}
	return best
}

// Words returns the name of the kind in the story.
func (o shownOutput) Words() string {
	for _, k := range storyKinds {
		if k.kind == o.Kind {
			return k.words
		}
	}
	return string(o.Kind)
}

// heatmaps adds to each output of the story a map of where changes to the picture would change the score most.
func (s *story) heatmaps(ctx context.Context, scorer string) error {
	j, err := assay.Open(ctx, scorer, assay.Options{})
	if err != nil {
		return err
	}
	defer j.Close()
	for i := range s.Outputs {
		o := &s.Outputs[i]
		e, err := assay.ReadEdit(ctx, s.File, o.File, s.Instruction)
		if err != nil {
			return err
		}
		g, err := j.Gradient(ctx, e)
		if err != nil {
			return err
		}
		p, err := data.Open(o.File, data.Limits{})
		if err != nil {
			return err
		}
		if o.Heatmap, err = page.PNG(g.Output.Heatmap(p).EncodePNG); err != nil {
			return err
		}
	}
	return nil
}

// curve reads the course of training from the run directory of a scorer.
func (s *story) curve(scorer string) error {
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(scorer), records.MetricsFile))
	if err != nil {
		return err
	}
	loss := page.Series{Name: "loss", Color: "--accent"}
	for line := range strings.Lines(string(raw)) {
		var m struct {
			Kind  string         `json:"kind"`
			Step  int64          `json:"step"`
			Score records.Number `json:"score_loss"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return fmt.Errorf("%s: %w", records.MetricsFile, err)
		}
		if m.Kind == "train" {
			loss.X, loss.Y = append(loss.X, float64(m.Step)), append(loss.Y, float64(m.Score))
			s.Steps = m.Step
		}
	}
	loss.Y = smooth(loss.Y, max(1, len(loss.Y)/40))
	s.Before, s.After = loss.Y[0], loss.Y[len(loss.Y)-1]
	s.Curve = page.Chart("loss of the score over the steps of training", "step", loss)
	return nil
}

// smooth returns the moving average over each value and n values on either side.
func smooth(v []float64, n int) []float64 {
	out := make([]float64, len(v))
	for i := range v {
		part := v[max(0, i-n):min(len(v), i+n+1)]
		for _, x := range part {
			out[i] += x / float64(len(part))
		}
	}
	return out
}
