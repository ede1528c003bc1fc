package heuristics

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// The relation of a picture of a chain to an instruction: the "why" of its label.
const (
	ChainSource     = "chain_source"      // k = j1
	ChainEarlier    = "chain_earlier"     // k < j1
	ChainPartial    = "chain_partial"     // j1 < k < j2
	ChainTarget     = "chain_target"      // k = j2
	ChainOverEdited = "chain_over_edited" // k > j2
	ChainForeign    = "chain_foreign"     // a picture of another chain
)

// MaxChain is the largest number of pictures in a chain. Published chains have six.
const MaxChain = 64

// ChainLabel is the paper's equation 4: how well picture k of a chain satisfies the instructions that lead from
// picture j1 to picture j2. Pictures are numbered from 0; instruction j, from 1, turns picture j-1 into picture j.
//
//	f = 0                      k < j1
//	    (k - j1) / (j2 - j1)   j1 <= k <= j2
//	    overEdited             k > j2 (0.5 in the paper)
//
// It is NaN unless 0 <= j1 < j2 and 0 <= k.
func ChainLabel(j1, j2, k int, overEdited float64) float64 {
	switch {
	case j1 < 0 || j2 <= j1 || k < 0:
		return math.NaN()
	case k < j1:
		return 0
	case k <= j2:
		return float64(k-j1) / float64(j2-j1)
	}
	return overEdited
}

// Turn is one labelled sample of a chain.
type Turn struct {
	From, To     int   // j1, j2: source and target
	Shown        int   // k: the judged picture; if foreign, its index among the foreign pictures of (j1, j2), from 0
	Foreign      bool  // the judged picture belongs to another chain
	Instructions []int // indices of the joined instructions, from 0, in joining order
	Label        float64
	Why          string
}

// Turns draws the samples of one chain. They depend only on the seed, the chain's name and its number of pictures,
// and are sorted by From, To, Foreign and Shown. All samples of one (j1, j2) have their instructions in the same
// order.
func (c Chains) Turns(seed uint64, chain string, pictures int) ([]Turn, error) {
	if pictures > MaxChain {
		return nil, fmt.Errorf("a chain of %d pictures: want at most %d", pictures, MaxChain)
	}
	rng := chainRand(seed, chain)
	var all []Turn
	for j1 := range pictures {
		for j2 := j1 + 1; j2 < pictures; j2++ {
			order := make([]int, j2-j1)
			for i := range order {
				order[i] = j1 + i
			}
			if c.Shuffle {
				rng.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
			}
			for k := range pictures {
				all = append(all, Turn{j1, j2, k, false, order, ChainLabel(j1, j2, k, c.OverEditedLabel), chainWhy(j1, j2, k)})
			}
			for k := range c.Foreign {
				all = append(all, Turn{j1, j2, k, true, order, c.ForeignLabel, ChainForeign})
			}
		}
	}
	if c.Samples == 0 && !c.Balanced {
		return all, nil
	}
	picked := c.pick(rng, all)
	slices.Sort(picked)
	out := make([]Turn, len(picked))
	for i, at := range picked {
		out[i] = all[at]
	}
	return out, nil
}

// pick draws indices into all, without replacement.
func (c Chains) pick(rng *rand.Rand, all []Turn) []int {
	order := rng.Perm(len(all))
	want := len(all)
	if c.Samples > 0 {
		want = min(want, c.Samples)
	}
	if !c.Balanced {
		return order[:want]
	}
	byLabel := map[float64][]int{}
	var labels []float64 // in random order, so that none is favoured when samples are few
	for _, i := range order {
		l := all[i].Label
		if byLabel[l] == nil {
			labels = append(labels, l)
		}
		byLabel[l] = append(byLabel[l], i)
	}
	slices.Sort(labels)
	rng.Shuffle(len(labels), func(i, j int) { labels[i], labels[j] = labels[j], labels[i] })
	rounds := len(all)
	if c.Samples == 0 { // as many as there are in equal numbers
		for _, l := range labels {
			rounds = min(rounds, len(byLabel[l]))
		}
	}
	var out []int
	for round := 0; round < rounds && len(out) < want; round++ {
		for _, l := range labels {
			if round < len(byLabel[l]) && len(out) < want {
				out = append(out, byLabel[l][round])
			}
		}
	}
	return out
}

// Join joins the texts of the turn's instructions, stripping trailing full stops from all but the last.
func (c Chains) Join(t Turn, instructions []string) string {
	parts := make([]string, len(t.Instructions))
	for i, at := range t.Instructions {
		parts[i] = strings.TrimSpace(instructions[at])
		if i+1 < len(parts) {
			parts[i] = strings.TrimRight(parts[i], ". ")
		}
	}
	return strings.Join(parts, c.Joint)
}

func chainWhy(j1, j2, k int) string {
	switch {
	case k < j1:
		return ChainEarlier
	case k == j1:
		return ChainSource
	case k < j2:
		return ChainPartial
	case k == j2:
		return ChainTarget
	}
	return ChainOverEdited
}

// chainRand returns the generator of one chain, so that its samples do not depend on which chains were drawn before.
func chainRand(seed uint64, chain string) *rand.Rand {
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, seed))
	h.Write([]byte(chain)) // never fails
	return rand.New(rand.NewPCG(h.Sum64(), seed))
}
