package qwenvl_test

import (
	"testing"

	"assay/internal/long"
	"assay/internal/modeltest"
	"assay/internal/oracle"
	"assay/model/backbone"
	_ "assay/model/families"
)

// folders maps the fixtures of the members to their case files.
var folders = map[string][]string{
	"qwen2_vl":   {"cases.json"},
	"qwen2_5_vl": {"cases.json", "cases_frames.json"},
	"qwen3_vl":   {"cases.json"},
}

func TestGradients(t *testing.T) {
	long.Test(t)
	prepare := func(t *testing.T, m backbone.Architecture, frames []*oracle.Field) []float64 {
		pixels, err := m.(interface {
			PrepareFloat([]*oracle.Field) ([]float64, error)
		}).PrepareFloat(frames)
		if err != nil {
			t.Fatal(err)
		}
		return pixels
	}
	for name, files := range folders {
		t.Run(name, func(t *testing.T) { modeltest.Gradients(t, name, files, prepare) })
	}
}

func TestGradientsTogether(t *testing.T) {
	for name, scorer := range map[string]string{
		"qwen2_vl":   "scorer_sequence",
		"qwen2_5_vl": "scorer",
		"qwen3_vl":   "scorer",
	} {
		t.Run(name, func(t *testing.T) { modeltest.GradientsTogether(t, name, scorer) })
	}
}
