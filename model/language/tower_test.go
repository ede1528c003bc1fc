package language_test

import (
	"context"
	"math"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/model"
	"assay/model/language"
	"assay/model/text"
)

var towers = []string{"llavanext", "qwen2_vl", "qwen2_5_vl", "qwen3_vl"}

// TestTowersInHalf: the logits of a question about a picture, with the tower in half precision, equal those of float32
// except for rounding. It runs in float16, as [TestHalfCache] does.
func TestTowersInHalf(t *testing.T) {
	for i, family := range towers {
		if i > 0 && testing.Short() {
			break
		}
		want := about(t, family, false)
		got := about(t, family, true)
		most, far := 0.0, 0.0
		for k, w := range want {
			most, far = max(most, math.Abs(float64(w))), max(far, math.Abs(float64(w-got[k])))
		}
		if far == 0 || !(far <= 2e-3*most) {
			t.Errorf("%s: logits are %g off, the largest is %g; expected only a rounding difference", family, far, most)
		}
	}
}

// about returns the logits after a question about a picture.
func about(t *testing.T, family string, half bool) []float32 {
	t.Helper()
	o := model.Options{Device: "cpu", Threads: 1}
	if half {
		o = model.Options{Device: "cuda:0", On: "cpu", DType: "bfloat16", Threads: 1}
	}
	l, err := language.Open(filepath.Join("../../testdata/oracle", family, "backbone"), "", o)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if half {
		l.ComputeHalf()
	}
	c, err := l.NewCache(1, 2048)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	picture, err := data.Open("../../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := l.Prompt([]text.Message{{Role: "user", Content: []text.Content{{Image: true}, {Text: "What is it?"}}}},
		[]*data.Picture{picture})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.ImageFeatures(context.Background(), p); err != nil {
		t.Fatal(err)
	}
	logits, err := l.Forward(context.Background(), c, 0, language.Stretch{Prompt: p, To: len(p.IDs), Logits: 1})
	if err != nil {
		t.Fatalf("%s, half %v: %v", family, half, err)
	}
	return logits[0]
}
