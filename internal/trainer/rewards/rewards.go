// Package rewards computes the rewards of a model's answers: the input is a conversation and an answer, the output a
// number for each term of the configuration. Terms compare the answer with a truth from the table, check whether a
// text judge's grammar parses it, or let a judge score the edit that it describes.
package rewards

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"assay/data"
	"assay/edit"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/textjudge"
)

// Opener opens a judge by its name or folder.
type Opener func(name string) (edit.Judge, error)

// Reward is the sum of some terms.
type Reward struct {
	terms []term
}

type term struct {
	config.RewardConfig
	reader *textjudge.Reader // nil: texts are compared verbatim
	judge  edit.Judge
}

// Open opens the judges of a configuration's rewards. open may be nil if no judge scores.
func Open(terms []config.RewardConfig, open Opener) (r *Reward, err error) {
	r = &Reward{}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	for _, c := range terms {
		t := term{RewardConfig: c}
		switch {
		case c.Kind == config.RewardJudge && open == nil:
			return r, errors.New("grpo.rewards: no judges are built into this program")
		case c.Kind == config.RewardJudge:
			t.judge, err = open(c.Judge)
		case c.Judge != "":
			t.reader, err = textjudge.OpenReader(c.Judge)
		}
		if err != nil {
			return r, fmt.Errorf("grpo.rewards, %s: %w", c.Name(), err)
		}
		r.terms = append(r.terms, t)
	}
	return r, nil
}

// Close closes the judges.
func (r *Reward) Close() (err error) {
	for i := range r.terms {
		if r.terms[i].judge != nil {
			err = errors.Join(err, r.terms[i].judge.Close())
		}
	}
	return err
}

// Fingerprint identifies what the terms depend on besides the configuration.
func (r *Reward) Fingerprint() map[string]string {
	out := map[string]string{}
	for i := range r.terms {
		switch t := &r.terms[i]; {
		case t.judge != nil:
			print, err := t.judge.Fingerprint()
			if err != nil {
				print = err.Error()
			}
			out["reward "+t.Name()] = print
		case t.reader != nil:
			out["reward "+t.Name()] = t.reader.Digest
		}
	}
	return out
}

// Check returns an error if a conversation lacks what the terms compare with.
func (r *Reward) Check(c *dataset.Conversation) error {
	for i := range r.terms {
		t := &r.terms[i]
		if t.Kind != config.RewardMatch && t.Kind != config.RewardDistance {
			if t.judge != nil && len(c.Pictures) == 0 {
				return fmt.Errorf("reward %s: the conversation has no picture for the judge", t.Name())
			}
			continue
		}
		truth, err := c.Truth(t.Column)
		if err == nil {
			_, err = t.read(truth)
		}
		if err != nil {
			return fmt.Errorf("the truth of reward %s: %w", t.Name(), err)
		}
	}
	return nil
}

// Of returns the value of each term for an answer, and whether all terms could parse it. pictures are the
// conversation's.
func (r *Reward) Of(
	ctx context.Context, c *dataset.Conversation, pictures []*data.Picture, answer string,
) (values []float64, read bool, err error) {
	values, read = make([]float64, len(r.terms)), true
	for i := range r.terms {
		t := &r.terms[i]
		v, ok, err := t.of(ctx, c, pictures, answer)
		if err != nil {
			return nil, false, fmt.Errorf("reward %s: %w", t.Name(), err)
		}
		values[i], read = v, read && ok
	}
	return values, read, nil
}

// Sum returns the weighted sum of the terms' values.
func (r *Reward) Sum(values []float64) (sum float64) {
	for i, v := range values {
		sum += r.terms[i].Factor() * v
	}
	return sum
}

// of returns the term's value; ok is false if the answer cannot be parsed.
func (t *term) of(
	ctx context.Context, c *dataset.Conversation, pictures []*data.Picture, answer string,
) (v float64, ok bool, err error) {
	if t.Kind == config.RewardJudge {
		return t.score(ctx, pictures, answer)
	}
	said, unread := t.read(answer)
	if t.Kind == config.RewardFormat {
		if unread != nil {
			return 0, false, nil
		}
		return 1, true, nil
	}
	truth, err := c.Truth(t.Column)
	if err != nil {
		return 0, false, err
	}
	wanted, err := t.read(truth)
	switch {
	case err != nil:
		return 0, false, fmt.Errorf("the truth %q: %w", truth, err)
	case unread != nil:
		return 0, false, nil
	case t.Kind == config.RewardDistance:
		return t.near(said, wanted), true, nil
	case t.reader == nil && strings.TrimSpace(answer) == strings.TrimSpace(truth),
		t.reader != nil && maps.Equal(said, wanted):
		return 1, true, nil
	}
	return 0, true, nil
}

// read parses the numbers in a text: by the judge's grammar or, for a distance, as one number. Texts that are
// compared verbatim have none.
func (t *term) read(text string) (map[string]float64, error) {
	switch {
	case t.reader != nil:
		return t.reader.Read(text)
	case t.Kind != config.RewardDistance:
		return nil, nil
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err == nil && (math.IsNaN(v) || math.IsInf(v, 0)) {
		err = strconv.ErrRange
	}
	if err != nil {
		return nil, fmt.Errorf("%q is not a number", text)
	}
	return map[string]float64{"": v}, nil
}

// near returns 1 - (mean distance of all numbers / range), but at least 0.
func (t *term) near(said, wanted map[string]float64) float64 {
	sum := 0.0
	for name, w := range wanted {
		v, ok := said[name]
		if !ok {
			return 0
		}
		sum += math.Abs(v - w)
	}
	return max(0, 1-sum/float64(max(1, len(wanted)))/(t.Range[1]-t.Range[0]))
}

// score returns a judge's score, 0 to 1, of an edit: the answer is its instruction, the last picture its output, and
// the others its sources (a single picture is both). An answer that the judge cannot process has reward 0.
func (t *term) score(ctx context.Context, pictures []*data.Picture, answer string) (v float64, ok bool, err error) {
	if strings.TrimSpace(answer) == "" {
		return 0, false, nil
	}
	e := &edit.Edit{Instruction: answer, Output: pictures[len(pictures)-1]}
	for _, p := range pictures[:max(1, len(pictures)-1)] {
		e.Sources = append(e.Sources, p)
	}
	inputs, err := t.judge.Prepare(e)
	if err != nil { // the answer contains a special token of the judge, unless the pictures cannot be judged at all
		e.Instruction = "edit"
		if _, always := t.judge.Prepare(e); always != nil {
			return 0, false, err
		}
		return 0, false, nil
	}
	scores, errs, err := t.judge.Score(ctx, []edit.Inputs{inputs})
	if err = errors.Join(err, errors.Join(errs...)); err != nil {
		return 0, false, err
	}
	if v = scores[0].Score01; math.IsNaN(v) {
		return 0, false, fmt.Errorf("%s has no score: it only returns classes or dimensions", t.Judge)
	}
	return v, true, nil
}
