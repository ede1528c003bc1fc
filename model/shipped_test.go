package model_test

import (
	"context"
	"math"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/modeltest"
	"assay/model"
	"assay/model/batch"
)

// The shipped scorer tells requested edits from others, on pictures that it was not trained on.
func TestShippedScorer(t *testing.T) {
	s, err := model.OpenScorer("../backbones/tiny-scorer", model.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	open := func(name string) *data.Picture {
		p, err := data.Open("../testdata/oracle/images/"+name+".png", data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	for _, c := range []struct{ source, edit, right, wrong string }{
		{"coffee", "coffee_blur", "blur the picture", "make the picture grey"},
		{"rocket", "rocket_grey", "make it grey", "rotate it clockwise"},
		{"hubble", "hubble_bright_small", "make it brighter", "make it darker"},
	} {
		var samples []*batch.Sample
		for _, instruction := range []string{c.right, c.wrong} {
			sample, err := s.Sample(edit.New(open(c.source), open(c.edit), instruction), model.Ask{})
			if err != nil {
				t.Fatal(err)
			}
			samples = append(samples, sample)
		}
		scores, err := s.Score01(context.Background(), samples)
		if err != nil {
			t.Fatal(err)
		}
		if !(scores[0] >= 0.6) || scores[1] > 0.3 {
			t.Errorf("%s: %q %.2f, %q %.2f", c.edit, c.right, scores[0], c.wrong, scores[1])
		}
	}
}

// TestWhy: a reason after the score token trains, and the score does not see it.
func TestWhy(t *testing.T) {
	s, err := model.OpenScorer("../backbones/tiny-scorer", model.Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := data.Open("../testdata/oracle/images/coffee.png", data.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	sample := func(why string) (*batch.Sample, error) {
		return s.Sample(edit.New(p, p, "make it grey"), model.Ask{Answer: "[SCORE] [WHY]", Why: why})
	}
	plain, err := sample("")
	if err != nil {
		t.Fatal(err)
	}
	reason, err := sample("nothing has changed")
	if err != nil {
		t.Fatal(err)
	}
	if n := len(reason.IDs) - len(plain.IDs); n < 2 || reason.ScoreIndex != plain.ScoreIndex {
		t.Errorf("got %d more tokens, score index %d; want at least 2, and %d", n, reason.ScoreIndex, plain.ScoreIndex)
	}
	scores, err := s.Score01(context.Background(), []*batch.Sample{plain, reason})
	if err != nil {
		t.Fatal(err)
	}
	if !(math.Abs(scores[0]-scores[1]) <= 1e-5) {
		t.Errorf("got scores %v, want equal ones", scores)
	}
	if _, err := sample("<|im_end|>"); err == nil {
		t.Error("a special token in a reason: got no error, want one")
	}
}

// The gradients of many edits at once are bit-identical to those of each edit alone.
func TestShippedScorerGradientsTogether(t *testing.T) {
	s, err := model.OpenScorer("../backbones/tiny-scorer", model.Options{Threads: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	var edits []*edit.Edit
	for _, name := range []string{"coffee", "chelsea", "rocket", "hubble_bright_small"} {
		p, err := data.Open("../testdata/oracle/images/"+name+".png", data.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		for _, instruction := range []string{"flip it horizontally", "make the picture grey", "rotate it clockwise"} {
			edits = append(edits, edit.New(p, p.FlipHorizontal(), instruction),
				edit.New(p.FlipHorizontal(), p, instruction))
		}
	}
	modeltest.TogetherAsAlone(t, s, edits)
}
