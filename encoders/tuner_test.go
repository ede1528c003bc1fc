package encoders

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/checkpoints"
	"assay/data"
	"assay/internal/oracle"
)

// contrastCase is a batch with PyTorch's results (tools/oracle/contrast.py).
type contrastCase struct {
	Pictures, Captions []string
	Weights, Loss      []float64
	Grads              map[string][]float32
}

// Losses and gradients through full towers match PyTorch, with unequal weights and, for CLIP, two equal captions.
func TestContrastAsPyTorch(t *testing.T) {
	cases := oracle.Read[map[string]contrastCase](t, "testdata/contrast.json")
	for name, dir := range map[string]string{"clip": "clip", "views": "dinov2"} {
		t.Run(name, func(t *testing.T) {
			c := cases[name]
			tuner, err := NewTuner(filepath.Join("../testdata/oracle", dir, "model"), Options{Threads: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer tuner.Close()
			var pictures []*data.Picture
			for _, p := range c.Pictures {
				x, err := data.Open(filepath.Join("../testdata/oracle/images", p), data.Limits{})
				if err != nil {
					t.Fatal(err)
				}
				pictures = append(pictures, x)
			}
			step := func() (*Contrast, error) { return tuner.Views(context.Background(), pictures, c.Weights) }
			if c.Captions != nil {
				step = func() (*Contrast, error) {
					return tuner.Captions(context.Background(), pictures, c.Captions, c.Weights)
				}
			}
			r, err := step()
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range c.Loss {
				if !(math.Abs(r.Loss[i]-want) <= 1e-5) {
					t.Errorf("loss of row %d is %g, want %g", i, r.Loss[i], want)
				}
			}
			if len(c.Grads) == 0 {
				t.Fatal("no gradients to compare with")
			}
			for name, want := range c.Grads {
				if r.Grads[name] == nil {
					t.Fatalf("no gradient of %s", name)
				}
				oracle.Close(t, name, r.Grads[name].Float32s(), want, 1e-5, 1e-4)
			}
		})
	}
}

// A tuner embeds with its current weights, and saves them.
func TestTunerSavesWhatItEmbedsWith(t *testing.T) {
	ctx := context.Background()
	picture, err := data.Open("../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	tuner, err := NewTuner("../testdata/oracle/clip/model", Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer tuner.Close()
	names, values := tuner.Params()
	before, err := tuner.Images(ctx, []*data.Picture{picture})
	if err != nil {
		t.Fatal(err)
	}
	oracle.Close(t, "before", before[0], images(t, open(t, "../testdata/oracle/clip/model"), picture), 1e-6, 0)
	for i := range names {
		for k, v := range values[i].Float32s() {
			values[i].Float32s()[k] = 1.25 * v
		}
	}
	after, err := tuner.Images(ctx, []*data.Picture{picture})
	if err != nil {
		t.Fatal(err)
	}
	if before[0][0] == after[0][0] {
		t.Error("changed weights change nothing")
	}
	dir := t.TempDir()
	if err := tuner.SaveInto(dir); err != nil {
		t.Fatal(err)
	}
	oracle.Close(t, "after", images(t, open(t, dir), picture), after[0], 1e-5, 0)
}

func images(t *testing.T, m *Model, picture *data.Picture) []float32 {
	t.Helper()
	x, err := m.Images(context.Background(), []*data.Picture{picture})
	if err != nil {
		t.Fatal(err)
	}
	return x[0]
}

func TestTunerRefuses(t *testing.T) {
	clip, err := NewTuner("../testdata/oracle/clip/model", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer clip.Close()
	dino, err := NewTuner("../testdata/oracle/dinov2/model", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dino.Close()
	picture, ctx := data.NewPicture(8, 8), context.Background()
	if _, err := clip.Captions(ctx, []*data.Picture{picture}, []string{"a", "b"}, []float64{1, 1}); err == nil {
		t.Error("one picture for two captions was accepted")
	}
	if _, err := clip.Views(ctx, []*data.Picture{picture, picture}, []float64{1, 1}); err == nil {
		t.Error("a CLIP accepted views")
	}
	if _, err := dino.Captions(ctx, []*data.Picture{picture}, []string{"a"}, []float64{1}); err == nil {
		t.Error("an encoder without texts accepted captions")
	}
	if _, err := dino.Views(ctx, []*data.Picture{picture}, []float64{1}); err == nil {
		t.Error("one view was accepted")
	}
	if _, err := NewTuner(t.TempDir(), Options{}); err == nil {
		t.Error("an empty folder was opened")
	}
}

// TestTunerOfJoinedSwiGLU: a checkpoint whose SwiGLU is one matrix is refused by the tensor's name; with two it opens.
func TestTunerOfJoinedSwiGLU(t *testing.T) {
	e, _ := readExpectation(t)
	joined := 0
	for name := range e.Expect {
		dir := filepath.Join(fixtures, name)
		w, err := checkpoints.OpenWeights(dir)
		if err != nil {
			t.Fatal(err)
		}
		want := slices.ContainsFunc(w.Names(), func(n string) bool { return strings.Contains(n, ".mlp.weights_in.") })
		w.Close()
		if !strings.HasPrefix(name, "dino") {
			continue
		}
		tuner, err := NewTuner(dir, Options{Threads: 1})
		if err == nil {
			tuner.Close()
		}
		if want {
			joined++
		}
		if (err != nil) != want || err != nil && !strings.Contains(err.Error(), ".mlp.weights_in.") {
			t.Errorf("%s: got %v, want an error that names mlp.weights_in: %v", name, err, want)
		}
	}
	if joined == 0 {
		t.Error("no fixture has weights_in")
	}
}
