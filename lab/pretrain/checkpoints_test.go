package main

import (
	"os"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/long"
	"assay/lab/internal/miniature"
)

// staysSmall fails if a checkpoint has more bytes than most.
func staysSmall(t *testing.T, dir string, most int64) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	total := int64(0)
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			t.Fatal(err)
		}
		total += info.Size()
	}
	if total > most {
		t.Errorf("%s takes %d bytes, more than %d", dir, total, most)
	}
}

// openBackbone opens one of the checkpoints made by pretrain. It must stay small.
func openBackbone(t *testing.T, name string) *encoders.Model {
	t.Helper()
	dir := filepath.Join("../../backbones", name)
	staysSmall(t, dir, 3<<20)
	m, err := encoders.Open(dir, encoders.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

// candidates returns edits of a kind, on photographs that the encoders were trained on, in other crops.
func candidates(t *testing.T, kind miniature.Kind) []edit {
	t.Helper()
	o := course{photos: "../../examples/photos", held: []string{"tissue", "rocket"}, size: 64}
	world, err := o.world(false)
	if err != nil {
		t.Fatal(err)
	}
	var edits []edit
	for i := range 60 {
		rng := generator(99, forValidation, i)
		task, err := world.Task(rng, "")
		if err != nil {
			t.Fatal(err)
		}
		target := task.Target(rng)
		if c, ok := task.Candidate(rng, kind); ok {
			edits = append(
				edits,
				edit{task.Source, c.Picture, target.Picture, task.SourceCaption(), task.Caption(target), c.Degree},
			)
		}
	}
	return edits
}

func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// The CLIP in backbones/ distinguishes the requested edit from another one by the direction.
func TestTinyCLIPKnowsDirections(t *testing.T) {
	long.Test(t)
	m := openBackbone(t, "tiny-clip")
	means := map[miniature.Kind]float64{}
	for _, kind := range []miniature.Kind{miniature.Perfect, miniature.WrongFamily, miniature.WrongAttribute} {
		d, err := directions(t.Context(), m, candidates(t, kind))
		if err != nil {
			t.Fatal(err)
		}
		means[kind] = mean(d)
	}
	if !(means[miniature.Perfect] >= 0.5) || means[miniature.WrongFamily] > 0.25 ||
		means[miniature.WrongAttribute] > 0.35 {
		t.Errorf("mean CLIP-D by kind: %v", means)
	}
}

// For the image encoder in backbones/, a picture with the edit is nearer to the target than one without.
func TestTinyDINOKnowsEdits(t *testing.T) {
	m := openBackbone(t, "tiny-dino")
	if m.HasTexts() {
		t.Error("it has a text tower")
	}
	nearer, edits := 0, candidates(t, miniature.Perfect)
	for _, e := range edits {
		x, err := m.Images(t.Context(), []*data.Picture{e.source, e.edit, e.target})
		if err != nil {
			t.Fatal(err)
		}
		if heuristics.Cosine(x[1], x[2]) > heuristics.Cosine(x[0], x[2]) {
			nearer++
		}
	}
	if nearer < len(edits)*9/10 {
		t.Errorf("%d of %d edits are nearer to the target than their sources", nearer, len(edits))
	}
}
