package model

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/model/batch"
)

// TestFilledUp scores pairs of several lengths as on a GPU: padded, in few runs, with the same scores as one by one.
func TestFilledUp(t *testing.T) {
	long.Test(t)
	for _, family := range []string{"llavanext", "qwen2_5_vl", "qwen3_vl"} {
		dirs, err := filepath.Glob(filepath.Join("../testdata/oracle", family, "scorer*"))
		if err != nil || len(dirs) == 0 {
			t.Fatal(err, family)
		}
		for _, dir := range dirs {
			state, err := LoadScorerState(dir)
			if err != nil {
				t.Fatal(err)
			}
			s, err := NewScorer(state, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			image := func(name string) edit.Picture {
				return data.File{Image: data.Image{Path: name + ".png"}, Folder: "../testdata/oracle/images"}
			}
			var samples []*batch.Sample
			var alone []float64
			for i, instruction := range []string{
				"blur it", "make the picture blurred", "no", "blur the picture of the coffee as a lens would",
			} {
				output := []string{"coffee_blur", "coffee_blur_gt"}[i%2]
				sample, err := s.Sample(edit.New(image("coffee"), image(output), instruction), Ask{})
				if err != nil {
					t.Fatal(err)
				}
				score, err := s.Score01(context.Background(), []*batch.Sample{sample})
				if err != nil {
					t.Fatal(err)
				}
				samples, alone = append(samples, sample), append(alone, score...)
			}
			before := len(s.net.Plan.Limits.Batches(s.net.Packer, samples, s.net.OneGraph()))
			l := &s.net.Plan.Limits
			l.Rows, l.Shared, l.Near = batch.CUDALimits.Rows, batch.CUDALimits.Shared, batch.CUDALimits.Near
			if after := len(s.net.Plan.Limits.Batches(s.net.Packer, samples, s.net.OneGraph())); after >= before {
				t.Errorf("%s: %d runs, %d before", dir, after, before)
			}
			together, err := s.Score01(context.Background(), samples)
			if err != nil {
				t.Fatal(err)
			}
			for i := range alone {
				if !(math.Abs(alone[i]-together[i]) <= 1e-6) {
					t.Errorf("%s: edit %d: %g together, %g alone", dir, i, together[i], alone[i])
				}
			}
		}
	}
}
