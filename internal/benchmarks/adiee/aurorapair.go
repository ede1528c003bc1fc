package adiee

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"

	"assay/internal/benchmarks/protocol"
)

// AuroraPair is AURORA-Bench's pairwise part.
var AuroraPair = family.Benchmark("aurora-pair", loadAuroraPair)

var (
	threeAnswers = map[string][]string{protocol.Left: {"A>B", "A>>B"}, protocol.Right: {"B>A", "B>>A"},
		protocol.Tie: {"A=B", "A=B=Good", "A=B=Bad"}}
	auroraRules = []protocol.PairRule{protocol.ADIEERule(protocol.ThreeClasses, protocol.Left, protocol.Right,
		func(l, r float64) string { return protocol.Tie }),
		protocol.ThresholdRules[0], protocol.ThresholdRules[1], protocol.AnswerRule("answers", protocol.ThreeClasses,
			threeAnswers)}
)

// auroraPairs is AURORA-Bench's pair-wise part.
type auroraPairs struct {
	protocol.PairSet
	models [][]string // of the two edits of each pair
}

func loadAuroraPair(o protocol.Options) (protocol.Set, error) {
	rows, root, err := o.Lines("human_ratings_pairwise.json")
	if err != nil {
		return nil, err
	}
	s := &auroraPairs{PairSet: protocol.PairSet{Name: "aurora-pair", Epsilon: o.Epsilon, Side: protocol.ThreeSides,
		Rules: auroraRules, Answers: []string{"A>B", "B>A", "A=B"}, Notes: protocol.Repeats(rows)}}
	s.Find = s.slotsOf
	var p protocol.Problems
	p.Each(rows, func(r *protocol.Line) error { return s.readRating(r, root) })
	return s, p.Err()
}

func (s *auroraPairs) readRating(r *protocol.Line, root string) error {
	input, prompt := r.Filled("input"), r.Text("prompt")
	gens, models, winner := r.Texts("gens"), r.Texts("models"), r.Text("winner")
	verdict := protocol.Tie
	switch {
	case r.Err() != nil:
		return nil
	case slices.Contains(gens, ""):
		return errors.New("a name in gens is empty")
	case len(gens) != 2 || len(models) != 2:
		return fmt.Errorf("%d gens and %d models: want two each", len(gens), len(models))
	case models[0] == models[1]:
		return fmt.Errorf("both models are called %q: the winner must tell them apart", models[0])
	case winner == models[0]:
		verdict = protocol.Left
	case winner == models[1]:
		verdict = protocol.Right
	case winner != "tie":
		return fmt.Errorf("winner is %q: want \"tie\", %q or %q", winner, models[0], models[1])
	}
	s.Add(strconv.Itoa(len(s.IDs)), verdict)
	s.Together(input)
	s.models = append(s.models, models)
	at := func(name string) protocol.Picture { return protocol.Picture{Path: filepath.Join(root, name)} }
	s.AddEdits(prompt, at(input), [2]protocol.Picture{at(gens[0]), at(gens[1])})
	return nil
}

// slotsOf finds the sides of a pair by "left" and "right", or by their models.
func (s *auroraPairs) slotsOf(k protocol.Key) ([]protocol.Slot, error) {
	if i, ok := s.Index[k.ID]; ok && k.Model != "" {
		if side := slices.Index(s.models[i], k.Model); side >= 0 {
			return []protocol.Slot{{Pair: i, Side: side}}, nil
		}
	}
	return s.BySide(k)
}
