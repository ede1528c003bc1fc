package protocol

import (
	"errors"
	"fmt"
	"slices"

	"assay/edit"
)

// ReadPairs reads lines of {id, answer}, {id, left, right}, or {id, model, score}, model being the side.
func (p *PairSet) ReadPairs(path string) (*PairPredictions, error) {
	rows, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	judge, err := JudgeOf(path)
	if err != nil {
		return nil, err
	}
	j := p.Blank()
	var list Problems
	answered, scored := map[int]string{}, map[Slot]string{}
	list.Each(rows, func(r *Line) error { return j.readRow(r, answered, scored) })
	if len(answered) > 0 && len(scored) > 0 {
		j.checkMixed(answered, scored, &list)
	}
	if judge != nil && judge.Range != (edit.Range{}) {
		j.setRange(judge.Range)
	}
	return j, list.Err()
}

func (j *PairPredictions) readRow(r *Line, answered map[int]string, scored map[Slot]string) error {
	key := r.Key()
	if r.err != nil {
		return r.err
	}
	slots, err := j.slots(key)
	if err != nil {
		return err
	}
	isAnswer, isSides, isScore, err := kindsOf(r, key)
	if err != nil {
		return err
	}
	if isAnswer {
		if err := j.readAnswer(r, slots[0].Pair, answered); err != nil || !isSides && !isScore {
			return err
		}
	}
	var values []float64
	switch {
	case isSides:
		values = []float64{r.Number(Left), r.Number(Right)}
	case isScore && key.Model == "":
		if values = r.Numbers("score"); r.err == nil && len(values) != 2 {
			r.Fail("%d scores: want one per side", len(values))
		}
	case isScore:
		values = slices.Repeat([]float64{r.Number("score")}, len(slots))
	default:
		r.Fail("no prediction: want \"answer\", \"left\" and \"right\", or \"model\" and \"score\"")
	}
	if r.err != nil {
		return r.err
	}
	for k, s := range slots {
		if first, ok := scored[s]; ok {
			return fmt.Errorf("a second prediction for %v (the first is in %s): want one", key, first)
		}
		scored[s] = r.Where
		j.Scores[s.Side][s.Pair] = values[k]
		j.AnyScore = true
	}
	return nil
}

// kindsOf reports what a line has, and refuses combinations of which a part would be ignored.
func kindsOf(r *Line, key Key) (isAnswer, isSides, isScore bool, err error) {
	_, isAnswer = r.Fields["answer"]
	_, isLeft := r.Fields["left"]
	_, isRight := r.Fields["right"]
	_, isScore = r.Fields["score"]
	isSides = isLeft || isRight
	switch {
	case isSides && isScore:
		err = errors.New("both left and right and score: want one or the other")
	case (isSides || isAnswer) && key.Model != "":
		err = fmt.Errorf("this line is for %q only: want its score, not an answer or both sides", key.Model)
	}
	return isAnswer, isSides, isScore, err
}
