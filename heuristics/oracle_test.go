package heuristics_test

import (
	"math"
	"path/filepath"
	"strconv"
	"testing"

	"assay/heuristics"
	"assay/internal/oracle"
)

// Similarities of transformers' embeddings, compared with those computed by the oracle.
func TestAgainstOracle(t *testing.T) {
	type pair struct {
		ID    int
		ClipI float64 `json:"clip_i"`
		ClipD float64 `json:"clip_d"`
		DinoI float64 `json:"dino_i"`
	}
	near := func(t *testing.T, what string, got, want float64) {
		if !(math.Abs(got-want) < 2e-6) { // the reference has six digits
			t.Errorf("%s: %v, want %v", what, got, want)
		}
	}
	oracle.Each(t, func(t *testing.T, folder string) {
		for _, model := range []string{"clip", "dinov2"} {
			tensors := oracle.Tensors(t, filepath.Join(folder, model, "expect.safetensors"))
			for _, p := range oracle.Read[[]pair](t, filepath.Join(folder, model, "pairs.json")) {
				v := func(name string) []float32 {
					return oracle.Floats(t, tensors, "pair"+strconv.Itoa(p.ID)+"."+name)
				}
				same := heuristics.Cosine(v("edited.image_embed"), v("gt.image_embed"))
				if model == "dinov2" {
					near(t, "dino_i", same, p.DinoI)
					continue
				}
				near(t, "clip_i", same, p.ClipI)
				near(t, "clip_d", heuristics.ClipDirection(v("input.image_embed"), v("edited.image_embed"),
					v("before.text_embed"), v("after.text_embed")), p.ClipD)
			}
		}
	})
}
