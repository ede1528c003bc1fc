package benchmarks

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
)

var editRewardCompass = &Benchmark{
	Name:  "editreward-compass",
	Title: "EditReward-Compass: 2,251 pairs of edits, one better or both equal, by dimension",
	Needs: []string{
		"--ratings: the file of pairs, [{dimension, source_image, prompt, winner, loser, label}], label being preference " +
			"or tie; pictures are paths",
		"--images (with --scorer or --judge): the folder that the paths start at; the file's own if left out",
	},
	Published: "bxhsort: the repository Edit-Compass-and-EditReward-Compass; " +
		"DogNeverSleep: the data set EditReward-Compass",
	Predicts: `{"id": "0", "left": 7.5, "right": 6}, the scores of winner and loser, id counting the pairs from 0; or ` +
		`{"id": "0", "model": "left", "score": 7.5}`,
	Rules: []string{
		"DIMENSION (IA, VC, VQ): share of its pairs that are right: of a preference the winner scores strictly higher, of " +
			"a tie the scores differ by less than 0.00001",
		"all: the same over all pairs; the authors' program prints the dimensions alone",
	},
	Flags:    []string{"images"},
	Load:     loadCompass,
	Size:     2251,
	Headline: "all",
}

// compassMargin is below what two scores are equal.
const compassMargin = 1e-5

// compass is EditReward-Compass.
type compass struct {
	pairs
	dimension  []string // of each pair
	dimensions []string
	items      [][2]Item // winner and loser
}

func loadCompass(o Options) (Set, error) {
	rows, root, err := o.rows("reward_eval.json", "*.json")
	if err != nil {
		return nil, err
	}
	s := &compass{}
	s.notes = repeats(rows)
	s.side = map[string]string{"preference": left, "tie": tie}
	var p problems
	for _, r := range rows {
		if err := s.addPair(r, root); err != nil {
			p.add(r.where, "%v", err)
		}
	}
	slices.Sort(s.dimensions)
	s.rules = []pairRule{s.rule("all")}
	for _, d := range s.dimensions {
		s.rules = append(s.rules, s.rule(d))
	}
	s.show = func(i int) ([]CaptionedPicture, string) {
		a, b := s.items[i][0], s.items[i][1]
		return []CaptionedPicture{{"source", a.Source}, {"winner", a.Edit}, {"loser", b.Edit}}, a.Instruction
	}
	return s, p.err()
}

// addPair adds a pair of the data.
func (s *compass) addPair(r row, root string) error {
	text := map[string]string{}
	for _, field := range []string{"dimension", "source_image", "prompt", "winner", "loser", "label"} {
		v, err := r.filled(field)
		if err != nil {
			return err
		}
		text[field] = v
	}
	if s.side[text["label"]] == "" {
		return fmt.Errorf("label is %q: preference or tie was expected", text["label"])
	}
	id := strconv.Itoa(len(s.ids))
	picture := func(field string) Picture {
		path := filepath.FromSlash(text[field])
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return Picture{Path: path}
	}
	item := func(side, edit string) Item {
		return Item{Key: Key{id, side}, Group: id, Instruction: text["prompt"], Source: picture("source_image"),
			Edit: picture(edit)}
	}
	s.add(id, text["label"])
	s.dimension = append(s.dimension, text["dimension"])
	s.items = append(s.items, [2]Item{item(left, "winner"), item(right, "loser")})
	if !slices.Contains(s.dimensions, text["dimension"]) {
		s.dimensions = append(s.dimensions, text["dimension"])
	}
	return nil
}

// rule is the accuracy on the pairs of a dimension, or on all.
func (s *compass) rule(dimension string) pairRule {
	classes := []string{"preference", "tie"}
	decide := func(p *pairs, j *pairsPredictions, units []int) verdicts {
		v := verdicts{rows: classes}
		for _, i := range units {
			if !s.of(i, dimension) || !j.hasScores(i) {
				continue
			}
			a, b := j.scores[0][i], j.scores[1][i]
			predicted := "the loser"
			switch {
			case math.Abs(a-b) < compassMargin && p.human[i] == "tie":
				predicted = "tie"
			case a > b:
				predicted = "preference"
			case a == b:
				predicted = "tie"
			}
			v.truth, v.predicted = append(v.truth, p.human[i]), append(v.predicted, predicted)
			v.right = append(v.right, predicted == p.human[i])
		}
		return v
	}
	return pairRule{name: dimension, columns: append(classes, "the loser"), decide: decide}
}

func (s *compass) of(i int, dimension string) bool {
	return dimension == "all" || s.dimension[i] == dimension
}

// Items implements Scorable.
func (s *compass) Items() ([]Item, error) {
	var p problems
	var items []Item
	for _, pair := range s.items {
		filePicture(pair[0].Source.Path, true, &p)
		for _, it := range pair {
			filePicture(it.Edit.Path, true, &p)
			items = append(items, it)
		}
	}
	return items, p.err()
}

// Read implements Set.
func (s *compass) Read(path string) (Predictions, error) {
	j, err := s.read(path, math.NaN())
	return compassPredictions{j, s}, err
}

// Guess implements Guessable.
func (s *compass) Guess(rng *rand.Rand) Predictions {
	return compassPredictions{s.guess(rng, math.NaN()), s}
}

// compassPredictions are the scores of pairs.
type compassPredictions struct {
	*pairsPredictions
	set *compass
}

// Result implements Predictions.
func (j compassPredictions) Result() *Result {
	r := j.result("editreward-compass")
	for k, n := range r.Numbers {
		of := 0
		var missing []Key
		for i, id := range j.ids {
			if j.set.of(i, n.Name) {
				if of++; !j.Complete(i) {
					missing = append(missing, Key{ID: id})
				}
			}
		}
		c := coverage(of, missing)
		r.Numbers[k].Coverage = &c
	}
	return r
}
