package chat

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"assay/internal/strictjson"
	"assay/internal/workers"
)

// Several is the number of answers to one question. The zero value is one.
type Several struct {
	N      int // answers; 0: one
	BestOf int // answers generated; the N with the best mean token log-probability are returned. 0: N
}

// maxChoices limits the answers to one question.
const maxChoices = 64

// Read reads n and best_of from a JSON object, as in OpenAI's protocol. o holds the options read from it before.
func (s *Several) Read(from *strictjson.Object, o Options) {
	for key, into := range map[string]*int{"n": &s.N, "best_of": &s.BestOf} {
		n := 1 // so that a value that is not a number is reported once
		if from.Opt(key, &n); n < 1 || n > maxChoices {
			from.Failf(key, "%d: want 1 to %d", n, maxChoices)
		}
		if from.Has(key) {
			*into = n
		}
	}
	if s.BestOf > 0 && s.BestOf < max(s.N, 1) {
		from.Failf("best_of", "%d: want n (%d) or more", s.BestOf, max(s.N, 1))
	}
	if s.Made() > 1 && o.Temperature != nil && *o.Temperature == 0 {
		from.Failf("n", "%d answers at temperature 0 are all the same: want 1, or a temperature above 0", s.Made())
	}
}

// Made is the number of answers to generate.
func (s Several) Made() int { return max(s.N, s.BestOf, 1) }

// Choice is one of several answers.
type Choice struct {
	Index int `json:"index"` // the answer is what Chat returns for the options' seed plus Index
	*Answer
}

// Choices asks for several answers at the same time: answer i has the seed o.Seed + i and is what Chat returns for
// that seed. They are in the order of their indexes or, with BestOf above N, of their mean log-probabilities, best
// first. A local model runs the prompt once. The usage counts the prompt once and all answers generated.
func Choices(ctx context.Context, m Model, messages []Message, o Options, s Several) (
	choices []Choice, used Usage, err error) {
	choices = make([]Choice, s.Made())
	ranked := s.BestOf > max(s.N, 1)
	o.LogProbs = o.LogProbs || ranked
	err = workers.Each(len(choices), len(choices), func(i int) (err error) {
		each := o
		each.Seed += uint64(i)
		choices[i].Index = i
		choices[i].Answer, err = m.Chat(ctx, messages, each)
		return err
	})
	if err != nil {
		return nil, used, err
	}
	used = choices[0].Usage
	for _, c := range choices[1:] {
		used.Completion += c.Usage.Completion
		used.Cached = min(used.Cached, c.Usage.Cached)
	}
	if !ranked {
		return choices, used, nil
	}
	for _, c := range choices {
		if len(c.LogProbs) == 0 {
			return nil, used, errors.New("best_of: an answer has no log-probabilities")
		}
	}
	slices.SortStableFunc(choices, func(a, b Choice) int { return cmp.Compare(b.MeanLogProb(), a.MeanLogProb()) })
	return choices[:max(s.N, 1)], used, nil
}

// MeanLogProb is the mean log-probability of an answer's tokens.
func (a *Answer) MeanLogProb() float64 {
	sum := 0.0
	for _, v := range a.LogProbs {
		sum += v
	}
	return sum / float64(len(a.LogProbs))
}
