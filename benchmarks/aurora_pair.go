package benchmarks

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
)

var auroraPair = &Benchmark{
	Name:  "aurora-pair",
	Title: "AURORA-Bench, pair-wise: 1,600 pairs, left, right or tie",
	Needs: []string{
		"--ratings: human_ratings_pairwise.json, [{input, gens: [a, b], prompt, winner: model or \"tie\", models: [a, " +
			"b]}], or its folder",
		"--images (with --scorer): the folder that input and gens start at; the ratings' folder if left out",
	},
	Published: "McGill-NLP: the repository AURORA, its human ratings",
	Predicts: `{"id": 0, "left": 7.5, "right": 3}, or {"id": 0, "model": "left", "score": 7.5}, or {"id": 0, ` +
		`"answer": "A>B"}, id counting the ratings from 0`,
	Rules: []string{
		"adiee (scores on 0..10): t = round-half-to-even(s/5); the greater t wins, else a tie",
		"threshold (scores): |left - right| <= eps is a tie; eps maximises the accuracy (Deutsch et al. 2023), or --epsilon",
		thresholdAsRun,
		"answers: left is right on A>B, A>>B; right on B>A, B>>A; tie on A=B, A=B=Good, A=B=Bad; no answer is wrong",
	},
	Flags:   []string{"images", "epsilon"},
	Load:    loadAuroraPair,
	Size:    1600,
	Counted: []string{"answers"},
}

var (
	threeAnswers = map[string][]string{left: {"A>B", "A>>B"}, right: {"B>A", "B>>A"}, tie: {"A=B", "A=B=Good", "A=B=Bad"}}
	auroraRules  = []pairRule{adieeRule(threeClasses, left, right, func(l, r float64) string { return tie }),
		thresholdRules[0], thresholdRules[1], answerRule("answers", threeClasses, threeAnswers)}
)

// auroraPairs is AURORA-Bench's pair-wise part.
type auroraPairs struct {
	pairs
	epsilon float64
	items   []Item
	models  [][]string // of the two edits of each pair
}

func loadAuroraPair(o Options) (Set, error) {
	rows, root, err := o.rows("human_ratings_pairwise.json")
	if err != nil {
		return nil, err
	}
	s := &auroraPairs{epsilon: o.Epsilon}
	s.pairs = pairs{side: threeSides, rules: auroraRules, answers: []string{"A>B", "B>A", "A=B"},
		notes: repeats(rows)}
	s.find = s.slotsOf
	s.show = func(i int) ([]CaptionedPicture, string) {
		a, b := s.items[2*i], s.items[2*i+1]
		return []CaptionedPicture{{"source", a.Source}, {"left", a.Edit}, {"right", b.Edit}}, a.Instruction
	}
	var p problems
	for i, r := range rows {
		if err := s.readRating(r, strconv.Itoa(i), root); err != nil {
			p.add(r.where, "%v", err)
		}
	}
	return s, p.err()
}

func (s *auroraPairs) readRating(r row, id, root string) error {
	input, err := r.filled("input")
	if err != nil {
		return err
	}
	prompt, err := r.text("prompt")
	if err != nil {
		return err
	}
	gens, err := r.texts("gens")
	if err != nil {
		return err
	}
	models, err := r.texts("models")
	if err != nil {
		return err
	}
	if slices.Contains(gens, "") {
		return errors.New("a name in gens is empty")
	}
	if len(gens) != 2 || len(models) != 2 {
		return fmt.Errorf("%d gens and %d models: two each were expected", len(gens), len(models))
	}
	if models[0] == models[1] {
		return fmt.Errorf("both models are called %q: the winner must tell them apart", models[0])
	}
	winner, err := r.text("winner")
	if err != nil {
		return err
	}
	verdict := tie
	switch winner {
	case "tie":
	case models[0]:
		verdict = left
	case models[1]:
		verdict = right
	default:
		return fmt.Errorf("winner is %q: \"tie\", %q or %q was expected", winner, models[0], models[1])
	}
	s.add(id, verdict)
	s.models = append(s.models, models)
	for k, side := range []string{left, right} {
		s.items = append(s.items, Item{Key: Key{id, side}, Group: id, Instruction: prompt,
			Source: Picture{Path: filepath.Join(root, input)}, Edit: Picture{Path: filepath.Join(root, gens[k])}})
	}
	return nil
}

// slotsOf finds the sides of a pair by "left" and "right", or by their models.
func (s *auroraPairs) slotsOf(k Key) ([]slot, error) {
	if i, ok := s.index[k.ID]; ok && k.Model != "" {
		if side := slices.Index(s.models[i], k.Model); side >= 0 {
			return []slot{{i, side}}, nil
		}
	}
	return s.bySide(k)
}

// Items implements Scorable.
func (s *auroraPairs) Items() ([]Item, error) { return s.items, checkFiles(s.items) }

// Read implements Set.
func (s *auroraPairs) Read(path string) (Predictions, error) {
	j, err := s.read(path, s.epsilon)
	return namedPairs{j, "aurora-pair", ""}, err
}

// Guess implements Guessable.
func (s *auroraPairs) Guess(rng *rand.Rand) Predictions {
	return namedPairs{s.guess(rng, s.epsilon), "aurora-pair", ""}
}
