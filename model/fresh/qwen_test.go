package fresh

import (
	"context"
	"encoding/json"
	"math"
	"path/filepath"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/modeltest"
	"assay/model"
	"assay/model/batch"
)

// A fresh Qwen-VL checkpoint has the states that transformers computes from it (tools/oracle/fresh_qwen.py), for every
// way to show the pair.
func TestQwenStatesAsTransformers(t *testing.T) {
	long.Test(t)
	for _, family := range []string{Qwen2VL, Qwen25VL, Qwen3VL} {
		t.Run(family, func(t *testing.T) { testStates(t, family) })
	}
}

func testStates(t *testing.T, family string) {
	sizes, err := Defaults(family)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "backbone")
	if _, err := Create(dir, sizes, []string{"testdata/corpus.txt"}, 3); err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Tokens int
		State  []float64
	}
	if err := json.Unmarshal([]byte(read(t, "testdata", family+"_states.json")), &want); err != nil {
		t.Fatal(err)
	}
	images := map[string]*data.Picture{}
	for _, name := range []string{"astronaut", "astronaut_purple"} {
		if images[name], err = data.Open(oracle+"images/"+name+".png", data.Limits{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, pair := range []string{model.Frames, model.Sequence, model.Concat} {
		c := (&model.OnePassConfig{Backbone: dir, Pair: pair, PairSize: []int{84, 112}, Answer: "[SCORE]",
			Question: "How well was this done: " + model.InstructionMark + "?", Head: model.HeadConfig{Hidden: []int{4}},
		}).Scorer()
		parts, err := model.NewScorerState(c, nil, 1)
		if err != nil {
			t.Fatal(err)
		}
		s, err := model.NewScorer(parts, model.Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		sample, err := s.Sample(
			edit.New(images["astronaut"], images["astronaut_purple"], "make it purple"), model.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		if n := len(sample.IDs); n != want[pair].Tokens {
			t.Errorf("%s: %d tokens, want %d", pair, n, want[pair].Tokens)
		}
		states, err := s.Hidden(context.Background(), []*batch.Sample{sample})
		if err != nil {
			t.Fatal(err)
		}
		for i, v := range want[pair].State {
			if got := float64(states[0][i]); !(math.Abs(got-v) <= 1e-4) {
				t.Errorf("%s: state %d is %g, want %g", pair, i, got, v)
			}
		}
	}
}

// Gradients do not depend on the batch if heads and tokens are odd.
func TestGradientsOfOddHeads(t *testing.T) {
	sizes, err := Defaults(Qwen2VL)
	if err != nil {
		t.Fatal(err)
	}
	sizes.Hidden, sizes.Heads, sizes.KVHeads = 80, 5, 1
	dir := filepath.Join(t.TempDir(), "backbone")
	if _, err := Create(dir, sizes, []string{"testdata/corpus.txt"}, 3); err != nil {
		t.Fatal(err)
	}
	c := (&model.OnePassConfig{Backbone: dir, Pair: model.Frames, PairSize: []int{56, 56}, Answer: "[SCORE]",
		Question: model.InstructionMark, Head: model.HeadConfig{}}).Scorer()
	parts, err := model.NewScorerState(c, nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.NewScorer(parts, model.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var edits []*edit.Edit
	for _, name := range []string{"astronaut", "coffee", "chelsea"} {
		p, err := data.Open(oracle+"images/"+name+".png", data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, instruction := range []string{"1", "12"} { // a digit is a token: one of the lengths is odd
			edits = append(edits, edit.New(p, p.FlipHorizontal(), instruction))
		}
	}
	modeltest.TogetherAsAlone(t, s, edits)
}
