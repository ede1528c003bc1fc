package protocol

import (
	"errors"
	"fmt"
	"slices"
)

// ReadPairs reads lines of {id, answer}, {id, left, right}, or {id, model, score}, model being the side.
func (p *PairSet) ReadPairs(path string, epsilon float64) (*PairPredictions, error) {
	rows, err := ReadLines(path)
	if err != nil {
		return nil, err
	}
	j := p.BlankPairs()
	j.epsilon = epsilon
	var list Problems
	answered, scored := map[int]string{}, map[Slot]string{}
	for _, r := range rows {
		if err := j.readRow(r, answered, scored); err != nil {
			list.Add(r.Where, "%v", err)
		}
	}
	if len(answered) > 0 && len(scored) > 0 {
		j.checkMixed(answered, scored, &list)
	}
	return j, list.Err()
}

func (j *PairPredictions) readRow(r Line, answered map[int]string, scored map[Slot]string) error {
	key, err := rowKey(r)
	if err != nil {
		return err
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
		for _, side := range []string{Left, Right} {
			v, err := r.Number(side)
			if err != nil {
				return err
			}
			values = append(values, v)
		}
	case isScore && key.Model == "":
		if values, err = r.Numbers("score"); err != nil {
			return err
		}
		if len(values) != 2 {
			return fmt.Errorf("%d scores: one per side was expected", len(values))
		}
	case isScore:
		v, err := r.Number("score")
		if err != nil {
			return err
		}
		values = slices.Repeat([]float64{v}, len(slots))
	default:
		return fmt.Errorf("no prediction: \"answer\", \"left\" and \"right\", or \"model\" and \"score\" were expected")
	}
	for k, s := range slots {
		if first, ok := scored[s]; ok {
			return fmt.Errorf("a second prediction for %v (the first is in %s): one was expected", key, first)
		}
		scored[s] = r.Where
		j.Scores[s.Side][s.Pair] = values[k]
		j.AnyScore = true
	}
	return nil
}

// kindsOf says what a line has, and refuses what would hide the rest of it.
func kindsOf(r Line, key Key) (isAnswer, isSides, isScore bool, err error) {
	_, isAnswer = r.Fields["answer"]
	_, isLeft := r.Fields["left"]
	_, isRight := r.Fields["right"]
	_, isScore = r.Fields["score"]
	isSides = isLeft || isRight
	switch {
	case isSides && isScore:
		err = errors.New("left and right, and score: one of both was expected")
	case (isSides || isAnswer) && key.Model != "":
		err = fmt.Errorf("this line is of %q alone: its score was expected, not an answer or both sides", key.Model)
	}
	return isAnswer, isSides, isScore, err
}

// rowKey reads "id" and, if it is there, "model".
func rowKey(r Line) (Key, error) {
	id, err := r.ID("id")
	if err != nil {
		return Key{}, err
	}
	k := Key{ID: id}
	if r.Has("model") {
		k.Model, err = r.Text("model")
	}
	return k, err
}
