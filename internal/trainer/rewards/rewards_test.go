package rewards

import (
	"context"
	"errors"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
)

// picky is a judge that cannot process some texts, or anything.
type picky struct {
	edit.Judge
	never bool
}

func (p *picky) Prepare(e *edit.Edit) (edit.Inputs, error) {
	if p.never || strings.Contains(e.Instruction, "<image>") {
		return nil, errors.New("a special token")
	}
	return asked{}, nil
}

type asked struct{}

func (asked) Size(edit.Inputs) int { return 1 }

func (*picky) Score(_ context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	return []edit.Score{{Score01: 0.75}}, make([]error, len(inputs)), nil
}

func (*picky) Close() error { return nil }

// TestJudgeOfAnyAnswer: an answer that the judge cannot process has reward 0; pictures that it cannot process are an
// error.
func TestJudgeOfAnyAnswer(t *testing.T) {
	judge := &picky{}
	r, err := Open([]config.RewardConfig{{Kind: config.RewardJudge, Judge: "picky"}},
		func(string) (edit.Judge, error) { return judge, nil })
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	of := func(answer string) (float64, bool, error) {
		values, read, err := r.Of(t.Context(), &dataset.Conversation{}, []*data.Picture{data.NewPicture(1, 1)}, answer)
		if err != nil {
			return 0, false, err
		}
		return values[0], read, nil
	}
	for answer, want := range map[string]float64{"blur it": 0.75, "blur <image>": 0, " ": 0} {
		if v, read, err := of(answer); err != nil || v != want || read != (want > 0) {
			t.Errorf("%q: got %v, %v, %v, want %v", answer, v, read, err, want)
		}
	}
	judge.never = true
	if _, _, err := of("blur it"); err == nil {
		t.Error("pictures that the judge refuses: got no error")
	}
}

// TestSum: a term without a weight counts once, one with weight 0 does not count.
func TestSum(t *testing.T) {
	r, err := Open([]config.RewardConfig{{Kind: config.RewardMatch}, {Kind: config.RewardMatch, Weight: new(0.0)},
		{Kind: config.RewardMatch, Weight: new(0.5)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Sum([]float64{1, 10, 100}); got != 51 {
		t.Errorf("got a sum of %g, want 51", got)
	}
}
