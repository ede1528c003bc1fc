package benchmarks

import (
	"errors"
	"fmt"
	"slices"
)

// read reads lines of {id, answer}, {id, left, right}, or {id, model, score}, model being the side.
func (p *pairs) read(path string, epsilon float64) (*pairsPredictions, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	j := p.blank()
	j.epsilon = epsilon
	var list problems
	answered, scored := map[int]string{}, map[slot]string{}
	for _, r := range rows {
		if err := j.readRow(r, answered, scored); err != nil {
			list.add(r.where, "%v", err)
		}
	}
	if len(answered) > 0 && len(scored) > 0 {
		j.checkMixed(answered, scored, &list)
	}
	return j, list.err()
}

func (j *pairsPredictions) readRow(r row, answered map[int]string, scored map[slot]string) error {
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
		if err := j.readAnswer(r, slots[0].pair, answered); err != nil || !isSides && !isScore {
			return err
		}
	}
	var values []float64
	switch {
	case isSides:
		for _, side := range []string{left, right} {
			v, err := r.number(side)
			if err != nil {
				return err
			}
			values = append(values, v)
		}
	case isScore && key.Model == "":
		if values, err = r.numbers("score"); err != nil {
			return err
		}
		if len(values) != 2 {
			return fmt.Errorf("%d scores: one per side was expected", len(values))
		}
	case isScore:
		v, err := r.number("score")
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
		scored[s] = r.where
		j.scores[s.side][s.pair] = values[k]
		j.anyScore = true
	}
	return nil
}

// kindsOf says what a line has, and refuses what would hide the rest of it.
func kindsOf(r row, key Key) (isAnswer, isSides, isScore bool, err error) {
	_, isAnswer = r.fields["answer"]
	_, isLeft := r.fields["left"]
	_, isRight := r.fields["right"]
	_, isScore = r.fields["score"]
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
func rowKey(r row) (Key, error) {
	id, err := r.id("id")
	if err != nil {
		return Key{}, err
	}
	k := Key{ID: id}
	if r.has("model") {
		k.Model, err = r.text("model")
	}
	return k, err
}
