package released_test

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"testing"

	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/model"
	"assay/released"
)

// formulas are the fusions of two dimensions, as in docs/judges.md.
var formulas = map[string]func(a, b float64) float64{
	"mean":         func(a, b float64) float64 { return (a + b) / 2 },
	"sum":          func(a, b float64) float64 { return a + b },
	"min":          math.Min,
	"product":      func(a, b float64) float64 { return a * b },
	"sqrt_product": func(a, b float64) float64 { return math.Sqrt(a * b) },
	"weights":      func(a, b float64) float64 { return 0.7*a - 0.2*b },
}

// twoQuestions imports a judge of two questions with a fusion; import does not support weights, scorer.yaml does.
func twoQuestions(t *testing.T, o released.Options, fusion string) string {
	t.Helper()
	o.Out, o.Fusion = filepath.Join(t.TempDir(), "scorer"), fusion
	if fusion == "weights" {
		o.Fusion = "mean"
	}
	if _, err := released.Import("choices", o); err != nil {
		t.Fatal(err)
	}
	if fusion == "weights" {
		file := filepath.Join(o.Out, model.ConfigFile)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		changed := bytes.Replace(text, []byte("fusion: mean"), []byte("fusion: weights\n  weights: [0.7, -0.2]"), 1)
		if err := os.WriteFile(file, changed, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return o.Out
}

// TestFusionGradients: score and pixel gradient of a fusion equal those of its dimensions, each opened separately,
// combined by the formula and its central differences.
func TestFusionGradients(t *testing.T) {
	long.Test(t) // every fusion opens its own sessions
	each(t, func(t *testing.T, s suite) {
		logits := filepath.Join(s.dir, "logits")
		c := oracle.Read[map[string]*choicesJudge](t, filepath.Join(logits, "judges.json"))["yes_no"]
		o := c.options(t, s, logits)
		o.Prompts = t.TempDir()
		questions := map[string]string{"done": "Was [INSTRUCTION] done?", "kept": "[INSTRUCTION]: is the rest as it was?"}
		for name, text := range questions {
			if err := os.WriteFile(filepath.Join(o.Prompts, name+".txt"), []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		q := c.Cases[0]
		pair := edit.New(s.picture(t, q.Source), s.picture(t, q.Edited), q.Instruction)
		gradient := func(dir, dimension string) (float64, []float32) {
			scorer := openDir(t, dir, dimension)
			score, g, err := scorer.PixelGradient(t.Context(), prepare(t, scorer, pair))
			if err != nil {
				t.Fatal(err)
			}
			return score, g.Float32s()
		}
		alone := twoQuestions(t, o, "mean")
		a, da := gradient(alone, "done")
		b, db := gradient(alone, "kept")
		for fusion, f := range formulas {
			score, got := gradient(twoQuestions(t, o, fusion), "")
			near(t, fusion, score, f(a, b))
			const h = 1e-6
			byA, byB := (f(a+h, b)-f(a-h, b))/(2*h), (f(a, b+h)-f(a, b-h))/(2*h)
			want := make([]float32, len(da))
			for i := range want {
				want[i] = float32(byA*float64(da[i]) + byB*float64(db[i]))
			}
			oracle.Close(t, fusion+"'s gradient", got, want, 0, 1e-4)
		}
	})
}
