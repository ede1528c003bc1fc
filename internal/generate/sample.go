package generate

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
)

// sampler chooses the tokens of one answer.
type sampler struct {
	*Config
	random *rand.Rand
	rule   func(scores []float32) error // sets tokens that may not be chosen to -inf; nil: no rule
	scores []float32                    // scratch
}

func newSampler(c *Config, seed uint64) *sampler {
	return &sampler{Config: c, random: rand.New(rand.NewPCG(seed, 0x6173736179))}
}

// next chooses the token after ids: the most likely one, or a sampled one. Every draw consumes one random number, so
// that an answer is a function of its seed and its logits.
func (s *sampler) next(logits []float32, ids []int64) (int64, error) {
	s.scores = append(s.scores[:0], logits...)
	if err := s.process(s.scores, ids); err != nil {
		return 0, err
	}
	if !s.Sample {
		return argmax(s.scores), nil
	}
	return draw(s.scores, s.random.Float64()), nil
}

// process turns raw logits into the scores that transformers samples from, in its order and in float32: repetition
// penalty, the rule (which commutes with temperature), temperature, top_k, top_p. Excluded tokens become -inf. A
// logit that is not finite before that is an error.
func (s *sampler) process(z []float32, ids []int64) error {
	penalize(z, ids, float32(s.RepetitionPenalty))
	if t := float32(s.Temperature); s.Sample && t != 1 {
		for i := range z {
			z[i] /= t
		}
	}
	for id, v := range z {
		if v-v != 0 { // infinite, or not a number
			return fmt.Errorf("the logit of token %d is %g after repetition_penalty %g and temperature %g: nothing can be "+
				"chosen", id, v, s.RepetitionPenalty, s.Temperature)
		}
	}
	if s.rule != nil {
		if err := s.rule(z); err != nil {
			return err
		}
	}
	if !s.Sample {
		return nil
	}
	if s.TopK > 0 && s.TopK < len(z) {
		keepTop(z, s.TopK)
	}
	if s.TopP < 1 {
		keepMass(z, s.TopP)
	}
	return nil
}

// penalize divides the positive scores of ids that occurred by r and multiplies the negative ones by r, once per id.
func penalize(z []float32, ids []int64, r float32) {
	if r == 1 {
		return
	}
	done := make(map[int64]bool, len(ids))
	for _, id := range ids {
		if done[id] || id >= int64(len(z)) {
			continue
		}
		if done[id] = true; z[id] < 0 {
			z[id] *= r
		} else {
			z[id] /= r
		}
	}
}

var never = float32(math.Inf(-1))

// keepTop masks every score below the k-th largest; ties with it stay.
func keepTop(z []float32, k int) {
	top := make([]float32, 0, k) // a min-heap
	sift := func(i int) {
		for {
			c := 2*i + 1
			if c >= len(top) {
				return
			}
			if c+1 < len(top) && top[c+1] < top[c] {
				c++
			}
			if top[i] <= top[c] {
				return
			}
			top[i], top[c] = top[c], top[i]
			i = c
		}
	}
	for _, v := range z {
		if len(top) < k {
			if top = append(top, v); len(top) == k {
				slices.Sort(top)
			}
		} else if v > top[0] {
			top[0] = v
			sift(0)
		}
	}
	for i, v := range z {
		if v < top[0] {
			z[i] = never
		}
	}
}

// keepMass masks, from the smallest score up, every token whose cumulative probability is at most 1 - p; the largest
// stays. Of equal scores, lower ids are masked first.
func keepMass(z []float32, p float64) {
	order := make([]int, 0, len(z))
	for i, v := range z {
		if v > never { // the others have no mass and are already masked
			order = append(order, i)
		}
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Or(cmp.Compare(z[a], z[b]), cmp.Compare(a, b)) })
	top := float64(z[order[len(order)-1]])
	total := 0.0
	for _, i := range order {
		total += math.Exp(float64(z[i]) - top)
	}
	sum, out := 0.0, float32(1-p)
	for _, i := range order[:len(order)-1] {
		sum += float64(float32(math.Exp(float64(z[i])-top) / total)) // torch adds up float32 in float64
		if float32(sum) > out {
			return
		}
		z[i] = never
	}
}

// argmax returns the index of the largest score, the first of equal ones.
func argmax(z []float32) int64 {
	best := 0
	for i, v := range z {
		if v > z[best] {
			best = i
		}
	}
	return int64(best)
}

// draw returns the token whose interval of cumulative probability, in the order of ids, contains u in [0, 1).
func draw(z []float32, u float64) int64 {
	top := float64(z[argmax(z)])
	total := 0.0
	for _, v := range z {
		total += math.Exp(float64(v) - top)
	}
	sum, last := 0.0, int64(0)
	for i, v := range z {
		if v == never {
			continue
		}
		last = int64(i)
		if sum += math.Exp(float64(v) - top); sum > u*total {
			break
		}
	}
	return last
}

// logProb returns the log softmax of raw logits at an id.
func logProb(logits []float32, id int64) float64 {
	top, sum := float64(logits[argmax(logits)]), 0.0
	for _, v := range logits {
		sum += math.Exp(float64(v) - top)
	}
	return float64(logits[id]) - top - math.Log(sum)
}
