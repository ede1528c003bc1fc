package model_test

import (
	"context"
	"math"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/lora"
	"assay/model"
	"assay/model/batch"
	"assay/model/language"

	_ "assay/model/families"
)

// choicesOver is a choices scorer with an adapter on a backbone.
func choicesOver(t *testing.T, l *lora.Config) *model.ScorerState {
	t.Helper()
	p, err := model.NewScorerState(&model.ScorerConfig{
		Format: 2, Backbone: "../testdata/oracle/qwen2_5_vl/backbone", DType: "float32", ScoreRange: edit.Range{1, 9},
		Passes: []model.PassConfig{{
			Name: "all", Pictures: []string{"source", "edit"}, Prompt: "Was it edited? [INSTRUCTION]",
			Position: "last", Heads: []string{"done"},
		}},
		Heads: map[string]model.DimensionConfig{"done": {Outputs: model.OutputChoices,
			Choices: []string{"1", "2", "3"}, Values: []float64{1, 2, 9}}},
		Score: &model.FusionConfig{Fusion: "mean"},
	}, l, 1)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOutputLayerOfAnAdapter: rows of choices come from the output layer that an adapter contains, and adapters that
// change the layer in another way are refused. Both were once ignored, and scores were the backbone's.
func TestOutputLayerOfAnAdapter(t *testing.T) {
	whole := choicesOver(t, &lora.Config{Rank: 2, Alpha: 2, Targets: lora.Names{List: []string{"q_proj"}},
		ModulesToSave: []string{"lm_head"}})
	s, err := model.NewScorer(whole, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	zeroed := false
	for name, x := range whole.Adapter.Tensors {
		if strings.Contains(name, "lm_head") {
			clear(x.Data().([]float32))
			zeroed = true
		}
	}
	if !zeroed {
		t.Fatal("the adapter does not contain lm_head")
	}
	even, err := model.NewScorer(whole, model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer even.Close()
	image := func(name string) edit.Picture {
		return data.File{Image: data.Image{Path: name + ".png"}, Folder: "../testdata/oracle/images"}
	}
	e := edit.New(image("coffee"), image("coffee_blur"), "blur it")
	var scores []float64
	for _, s := range []*model.Scorer{s, even} {
		sample, err := s.Sample(e, model.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		score, err := s.Score01(context.Background(), []*batch.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		scores = append(scores, score[0])
	}
	if want := 4.0; !(math.Abs(scores[1]-want) <= 1e-6) || !(math.Abs(scores[0]-want) >= 1e-3) {
		t.Errorf("scores %v: with rows of zeros all choices are as likely, %g", scores, want)
	}
	low := &lora.Config{Rank: 2, Alpha: 2, Targets: lora.Names{List: []string{"q_proj", "lm_head"}}}
	if _, err := model.NewScorer(choicesOver(t, low), model.Options{}); refusal(err) != "lm_head" {
		t.Errorf("a scorer of choices: %v", err)
	}
	dir := t.TempDir()
	if err := choicesOver(t, low).Adapter.Save(dir); err != nil {
		t.Fatal(err)
	}
	_, err = language.Open("../testdata/oracle/qwen2_5_vl/backbone", dir, model.Options{})
	if refusal(err) != "lm_head" {
		t.Errorf("a model that answers: %v", err)
	}
}

// refusal returns the module that an error reports as not supported.
func refusal(err error) string {
	if err == nil || !strings.Contains(err.Error(), "the output layer: that is not supported") {
		return ""
	}
	_, rest, _ := strings.Cut(err.Error(), "the adapter changes ")
	name, _, _ := strings.Cut(rest, ",")
	return name
}
