package encoders

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/heuristics"
	"assay/internal/oracle"
)

// oraclePair is an entry of pairs.json.
type oraclePair struct {
	ID        int     `json:"id"`
	Input     string  `json:"input"`
	Edited    string  `json:"edited"`
	GT        string  `json:"gt"`
	Before    string  `json:"caption_before"`
	After     string  `json:"caption_after"`
	IDsBefore []int64 `json:"ids_before"`
	IDsAfter  []int64 `json:"ids_after"`
	ClipI     float64 `json:"clip_i"`
	ClipD     float64 `json:"clip_d"`
	DinoI     float64 `json:"dino_i"`
}

// reference is one fixture: an encoder with its pictures and transformers' results for them.
type reference struct {
	dir    string
	model  *Model
	pairs  []oraclePair
	expect map[string]*tensor.Dense
}

func open(t *testing.T, path string) *Model {
	t.Helper()
	m, err := Open(path, Options{Batch: 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func openReference(t *testing.T, folder, name string) *reference {
	t.Helper()
	dir := filepath.Join(folder, name)
	return &reference{dir: dir, model: open(t, filepath.Join(dir, "model")),
		pairs: oracle.Read[[]oraclePair](t, filepath.Join(dir, "pairs.json")), expect: oracle.Tensors(t,
			filepath.Join(dir, "expect.safetensors"))}
}

func (r *reference) picture(t *testing.T, path string) *data.Picture {
	t.Helper()
	p, err := data.Open(filepath.Join(r.dir, path), data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// embed checks pixels and embeddings of the pictures that the fixture has, and returns them by "pair{i}.{role}".
func (r *reference) embed(t *testing.T) map[string][]float32 {
	t.Helper()
	var names []string
	var pictures []*data.Picture
	for _, p := range r.pairs {
		for role, path := range map[string]string{"input": p.Input, "edited": p.Edited, "gt": p.GT} {
			name := fmt.Sprintf("pair%d.%s", p.ID, role)
			if r.expect[name+".image_embed"] == nil {
				continue
			}
			x := r.picture(t, path)
			oracle.Close(t, name+" pixels", r.model.processor.pixels(x), oracle.Floats(t, r.expect, name+".pixel_values"), 1e-6,
				0)
			names, pictures = append(names, name), append(pictures, x)
		}
	}
	got, err := r.model.Images(context.Background(), pictures)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]float32{}
	for i, name := range names {
		oracle.Close(t, name, got[i], oracle.Floats(t, r.expect, name+".image_embed"), 1e-5, 0)
		out[name] = got[i]
	}
	return out
}

func near(t *testing.T, what string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-5) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}

func TestCLIPOracle(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		r := openReference(t, folder, "clip")
		images := r.embed(t)
		var texts []string
		for _, p := range r.pairs {
			texts = append(texts, p.Before, p.After)
			for text, want := range map[string][]int64{p.Before: p.IDsBefore, p.After: p.IDsAfter} {
				if ids, err := r.model.texts.encode(text); err != nil || fmt.Sprint(ids) != fmt.Sprint(want) {
					t.Errorf("%q becomes %v, want %v (%v)", text, ids, want, err)
				}
			}
		}
		got, err := r.model.Texts(context.Background(), texts)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range r.pairs {
			name := fmt.Sprintf("pair%d.", p.ID)
			before, after := got[2*i], got[2*i+1]
			oracle.Close(t, name+"before", before, oracle.Floats(t, r.expect, name+"before.text_embed"), 1e-5, 0)
			oracle.Close(t, name+"after", after, oracle.Floats(t, r.expect, name+"after.text_embed"), 1e-5, 0)
			edited := images[name+"edited"]
			near(t, name+"clip_i", heuristics.Cosine(edited, images[name+"gt"]), p.ClipI)
			near(t, name+"clip_d", heuristics.ClipDirection(images[name+"input"], edited, before, after), p.ClipD)
		}
	})
}

func TestDINOv2Oracle(t *testing.T) {
	oracle.Each(t, func(t *testing.T, folder string) {
		r := openReference(t, folder, "dinov2")
		images := r.embed(t)
		for _, p := range r.pairs {
			name := fmt.Sprintf("pair%d.", p.ID)
			near(t, name+"dino_i", heuristics.Cosine(images[name+"edited"], images[name+"gt"]), p.DinoI)
		}
	})
}
