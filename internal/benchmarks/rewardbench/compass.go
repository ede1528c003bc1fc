package rewardbench

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"

	"assay/internal/benchmarks/protocol"
)

// EditRewardCompass is EditReward-Compass.
var EditRewardCompass = family.Benchmark("editreward-compass", loadCompass)

// compassMargin is the difference below which two scores are equal.
const compassMargin = 1e-5

// compass is EditReward-Compass; left of a pair is the winner.
type compass struct {
	protocol.PairSet
	dimension []string // of each pair
}

func loadCompass(o protocol.Options) (protocol.Set, error) {
	rows, root, err := o.Lines("reward_eval.json", "*.json")
	if err != nil {
		return nil, err
	}
	s := &compass{PairSet: protocol.PairSet{Name: "editreward-compass", Epsilon: math.NaN(),
		Captions: [2]string{"winner", "loser"}, Notes: protocol.Repeats(rows),
		Side: map[string]string{"preference": protocol.Left, "tie": protocol.Tie}}}
	var p protocol.Problems
	p.Each(rows, func(r *protocol.Line) error { return s.addPair(r, root) })
	dimensions := slices.Clone(s.dimension)
	slices.Sort(dimensions)
	for _, d := range append([]string{"all"}, slices.Compact(dimensions)...) {
		s.Rules = append(s.Rules, s.rule(d))
	}
	return s, p.Err()
}

// addPair adds a pair of the data.
func (s *compass) addPair(r *protocol.Line, root string) error {
	dimension, prompt, label := r.Filled("dimension"), r.Filled("prompt"), r.Filled("label")
	picture := func(field string) protocol.Picture {
		path := filepath.FromSlash(r.Filled(field))
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return protocol.Picture{Path: path}
	}
	source, outputs := picture("source_image"), [2]protocol.Picture{picture("winner"), picture("loser")}
	if s.Side[label] == "" {
		return fmt.Errorf("label is %q: want preference or tie", label)
	}
	s.Add(strconv.Itoa(len(s.IDs)), label)
	s.Together(source.Path)
	s.dimension = append(s.dimension, dimension)
	s.AddEdits(prompt, source, outputs)
	return nil
}

// rule returns the accuracy rule on the pairs of a dimension, or on all.
func (s *compass) rule(dimension string) protocol.PairRule {
	classes := []string{"preference", "tie"}
	about := func(i int) bool { return dimension == "all" || s.dimension[i] == dimension }
	return protocol.ScoreRule(dimension, classes, append(classes, "the loser"), about,
		func(human string, winner, loser float64) string {
			switch {
			case math.Abs(winner-loser) < compassMargin && human == "tie", winner == loser:
				return "tie"
			case winner > loser:
				return "preference"
			}
			return "the loser"
		})
}
