package released_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/model/batch"
	"assay/released"
)

type adieeCase struct {
	ID          int
	Source      string
	Edited      string
	Instruction string
	Question    string
	IDs         []int64 `json:"input_ids"`
	Said        []int64 `json:"output_ids"`
	Step        int     `json:"read_step"`
	Output      []float64
	Score       float64
	Forced      struct {
		Answer string
		IDs    []int64 `json:"input_ids"`
		At     int     `json:"read_index"`
		Output []float64
		Score  float64
	} `json:"teacher_forced"`
}

type adieeSuite struct {
	PairSize  []int `json:"pair_size"`
	Questions []string
	Cases     []adieeCase
}

func TestADIEE(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		for _, kind := range []string{"classifier", "regressor"} {
			dir := filepath.Join(s.dir, "adiee", kind)
			all := oracle.Read[adieeSuite](t, filepath.Join(dir, "cases.json"))
			expect := oracle.Tensors(t, filepath.Join(dir, "expect.safetensors"))
			for i, question := range all.Questions {
				o := released.Options{Weights: dir, PairSize: all.PairSize, Prompts: filepath.Join(t.TempDir(), "question.txt")}
				if err := os.WriteFile(o.Prompts, []byte(question), 0o666); err != nil {
					t.Fatal(err)
				}
				free := open(t, "adiee", o)
				o.Answer = all.Cases[0].Forced.Answer
				forced := open(t, "adiee", o)
				var samples []*batch.Sample
				var scores []float64
				for _, c := range all.Cases {
					pair := edit.New(s.picture(t, c.Source), s.picture(t, c.Edited), c.Instruction)
					if question != "" && c.Question != strings.ReplaceAll(question, "{instruction}", c.Instruction) {
						continue
					}
					sample := prepare(t, free, pair)
					samples, scores = append(samples, sample), append(scores, c.Score)
					t.Run(fmt.Sprintf("%s/%d/said", kind, c.ID), func(t *testing.T) { checkADIEE(t, free, sample, c, expect) })
					t.Run(fmt.Sprintf("%s/%d/forced", kind, c.ID), func(t *testing.T) {
						checkForced(t, forced, prepare(t, forced, pair), c, expect)
					})
				}
				together, err := free.ScoreSamples(t.Context(), samples)
				if err != nil {
					t.Fatal(err)
				}
				for k, j := range together { // the same in a batch, to the last bit
					if alone := judge(t, free, samples[k]); alone.Score01 != j.Score01 {
						t.Errorf("question %d: %g alone, %g among others", i, alone.Score01, j.Score01)
					}
					config := free.Config()
					near(t, "score", config.ScoreRange.Of(j.Score01), scores[k])
				}
			}
		}
	})
}

func checkADIEE(t *testing.T, s *model.Scorer, sample *batch.Sample, c adieeCase, expect map[string]*tensor.Dense) {
	r := readings(t, s, sample)[0]
	if !slices.Equal(r.IDs, c.IDs) {
		t.Errorf("asks %v, want %v", r.IDs, c.IDs)
	}
	if !slices.Equal(r.Said, c.Said) || r.At != len(c.IDs)-1+c.Step {
		t.Errorf("says %v and reads %d, want %v and %d", r.Said, r.At, c.Said, len(c.IDs)-1+c.Step)
	}
	name := fmt.Sprintf("case%d", c.ID)
	steps := oracle.Floats(t, expect, name+".step_states")
	width := len(r.State)
	oracle.Close(t, "state", r.State, steps[c.Step*width:(c.Step+1)*width], 1e-4, 1e-4)
	floats(t, expect, name+".output", r.Outputs["success"])
	config := s.Config()
	near(t, "score", config.ScoreRange.Of(judge(t, s, sample).Score01), c.Score)
	scaled(t, s, expect, name, sample)
}

func checkForced(t *testing.T, s *model.Scorer, sample *batch.Sample, c adieeCase, expect map[string]*tensor.Dense) {
	r := readings(t, s, sample)[0]
	if !slices.Equal(r.IDs, c.Forced.IDs) || r.At != c.Forced.At {
		t.Errorf("reads %d of %v, want %d of %v", r.At, r.IDs, c.Forced.At, c.Forced.IDs)
	}
	name := fmt.Sprintf("case%d.forced", c.ID)
	floats(t, expect, name+".state", r.State)
	floats(t, expect, name+".output", r.Outputs["success"])
	config := s.Config()
	near(t, "score", config.ScoreRange.Of(judge(t, s, sample).Score01), c.Forced.Score)
	scaled(t, s, expect, name, sample)
}

// scaled is pixels for fixtures with the gradient of the reported score.
func scaled(t *testing.T, s *model.Scorer, expect map[string]*tensor.Dense, name string, sample *batch.Sample) {
	t.Helper()
	config := s.Config()
	some := map[string]*tensor.Dense{}
	for _, end := range []string{".pixel_values", ".dscore_dpixel_values"} {
		if expect[name+end] == nil {
			continue
		}
		values := slices.Clone(oracle.Floats(t, expect, name+end))
		for i := range values {
			if end == ".dscore_dpixel_values" {
				values[i] /= float32(config.ScoreRange.Width())
			}
		}
		some[name+end] = tensor.New(tensor.WithShape(len(values)), tensor.WithBacking(values))
	}
	pixels(t, s, some, name, sample)
}
