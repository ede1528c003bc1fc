package released_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/oracle"
	"assay/model"
	"assay/released"
)

type choicesJudge struct {
	Backbone  string
	Prompt    string
	Answers   []string
	Values    []float64
	Alpha     string
	AnswerIDs []int64 `json:"answer_ids"`
	Cases     []struct {
		ID            int
		Source        string
		Edited        string
		Instruction   string
		Requirement   string
		Probabilities []float64
		Score         float64
		IDs           []int64 `json:"input_ids"`
	}
	Errors []struct{ Answers []string }
}

// options writes the prompt with our marks, and returns the options to import a judge of the fixtures.
func (c *choicesJudge) options(t *testing.T, s suite, dir string) released.Options {
	t.Helper()
	marks := strings.NewReplacer("{prompt}", model.InstructionMark, "{requirement}", model.RequirementMark)
	o := released.Options{
		Base:    filepath.Join(dir, c.Backbone),
		Prompts: filepath.Join(t.TempDir(), "question.txt"),
		Choices: c.Answers,
		Values:  c.Values,
	}
	if _, err := os.Stat(o.Base); err != nil { // packed fixtures are not next to the other families
		o.Base = filepath.Join(s.folder, "llavanext", "backbone")
	}
	if c.Alpha == "dropped" {
		o.Alpha = "drop"
	}
	if err := os.WriteFile(o.Prompts, []byte(marks.Replace(c.Prompt)), 0o666); err != nil {
		t.Fatal(err)
	}
	return o
}

func TestChoices(t *testing.T) {
	each(t, func(t *testing.T, s suite) {
		dir := filepath.Join(s.dir, "logits")
		expect := oracle.Tensors(t, filepath.Join(dir, "expect.safetensors"))
		for name, c := range oracle.Read[map[string]*choicesJudge](t, filepath.Join(dir, "judges.json")) {
			o := c.options(t, s, dir)
			scorer := open(t, "choices", o)
			o.Joint = true
			joint := open(t, "choices", o)
			o.Joint = false
			for _, want := range c.Cases {
				t.Run(fmt.Sprintf("%s/%d", name, want.ID), func(t *testing.T) {
					sample := prepare(t, scorer, &edit.Edit{
						Sources: []edit.Picture{s.picture(t, want.Source)}, Output: s.picture(t, want.Edited),
						Instruction: want.Instruction, Requirement: want.Requirement,
					})
					r, j := readings(t, scorer, sample)[0], judge(t, scorer, sample)
					if !slices.Equal(r.IDs, want.IDs) {
						t.Errorf("asks %v, want %v", r.IDs, want.IDs)
					}
					near(t, "score", j.Score01, want.Score)
					for i, p := range j.Dimensions[0].Probabilities {
						near(t, "probability of "+c.Answers[i], p, want.Probabilities[i])
					}
					at := fmt.Sprintf("%s.case%d", name, want.ID)
					floats(t, expect, at+".hidden", r.State)
					floats(t, expect, at+".answer_logits", r.Outputs["question"])
					pixels(t, scorer, expect, at, sample)
					// The joint likelihood of a single token is the token's.
					sample = prepare(t, joint, &edit.Edit{
						Sources: []edit.Picture{s.picture(t, want.Source)}, Output: s.picture(t, want.Edited),
						Instruction: want.Instruction, Requirement: want.Requirement,
					})
					near(t, "joint score", judge(t, joint, sample).Score01, want.Score)
					pixels(t, joint, expect, at, sample)
				})
			}
			for _, e := range c.Errors {
				o.Choices, o.Values, o.Out = e.Answers, []float64{1, 0}, filepath.Join(t.TempDir(), "scorer")
				if _, err := released.Import("choices", o); err == nil || !strings.Contains(err.Error(), "one token") {
					t.Errorf("%v: error %v, want one about tokens", e.Answers, err)
				}
				if _, err := os.Stat(o.Out); err == nil {
					t.Errorf("%v: %s was created", e.Answers, o.Out)
				}
			}
		}
	})
}
