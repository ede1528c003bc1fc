package released_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/model/batch"
	"assay/released"
)

// TestJoint compares choices of several tokens with transformers (tools/oracle/joint.py).
func TestJoint(t *testing.T) {
	long.Test(t)
	if os.Getenv("ASSAY_ORACLE") != "" {
		t.Skip("testdata/joint.json belongs to the repository's fixtures")
	}
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "logits")
		c := oracle.Read[map[string]*choicesJudge](t, filepath.Join(dir, "judges.json"))["yes_no"]
		o := c.options(t, s, dir)
		type reference struct {
			Case         int
			Choices      []string
			Values, Logs []float64
			Score        float64
			Norm         float64 `json:"gradient_norm"`
		}
		for _, want := range oracle.Read[[]reference](t, filepath.Join("testdata", "joint.json")) {
			t.Run(fmt.Sprint(want.Case, want.Choices), func(t *testing.T) {
				o.Choices, o.Values, o.Joint = want.Choices, want.Values, true
				scorer, of := open(t, "choices", o), c.Cases[want.Case]
				sample := prepare(t, scorer, edit.New(s.picture(t, of.Source), s.picture(t, of.Edited), of.Instruction))
				for i, v := range readings(t, scorer, sample)[0].Outputs["question"] {
					near(t, "log of the likelihood of "+want.Choices[i], float64(v), want.Logs[i])
				}
				j := judge(t, scorer, sample)
				near(t, "score", j.Score01, want.Score)
				score, g, err := scorer.PixelGradient(t.Context(), sample)
				if err != nil || score != j.Score01 {
					t.Fatalf("score %g with its gradient (%v), %g without", score, err, j.Score01)
				}
				sum := 0.0
				for _, v := range g.Data().([]float32) {
					sum += float64(v) * float64(v)
				}
				if norm := math.Sqrt(sum); !(math.Abs(norm-want.Norm) <= 1e-4*want.Norm+1e-8) {
					t.Errorf("the gradient has norm %g, want %g", norm, want.Norm)
				}
				together, err := scorer.ScoreSamples(t.Context(), []*batch.Sample{sample, sample, sample})
				if err != nil || together[2].Score01 != j.Score01 {
					t.Errorf("%v among others (%v), %g alone", together, err, j.Score01)
				}
			})
		}
		o.Choices, o.Out = []string{"Y", "Y"}, filepath.Join(t.TempDir(), "scorer")
		o.Values = []float64{1, 0}
		if _, err := released.Import("choices", o); err == nil || !strings.Contains(err.Error(), "same tokens") {
			t.Errorf("error %v, want one about the same tokens", err)
		}
	})
}
