package rewardbench

import (
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// EditRewardCompass is EditReward-Compass.
var EditRewardCompass = &protocol.Benchmark{
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
	protocol.PairSet
	dimension  []string // of each pair
	dimensions []string
	items      []edit.Pair // winner and loser
}

func loadCompass(o protocol.Options) (protocol.Set, error) {
	rows, root, err := o.Lines("reward_eval.json", "*.json")
	if err != nil {
		return nil, err
	}
	s := &compass{}
	s.Notes = protocol.Repeats(rows)
	s.Side = map[string]string{"preference": protocol.Left, "tie": protocol.Tie}
	var p protocol.Problems
	for _, r := range rows {
		if err := s.addPair(r, root); err != nil {
			p.Add(r.Where, "%v", err)
		}
	}
	slices.Sort(s.dimensions)
	s.Rules = []protocol.PairRule{s.rule("all")}
	for _, d := range s.dimensions {
		s.Rules = append(s.Rules, s.rule(d))
	}
	s.Show = func(i int) ([]protocol.CaptionedPicture, string) {
		a, b := s.items[i][0], s.items[i][1]
		return []protocol.CaptionedPicture{protocol.Caption("source", a, "source"), protocol.Caption("winner", a, "edit"),
			protocol.Caption("loser", b, "edit")}, a.Instruction
	}
	return s, p.Err()
}

// addPair adds a pair of the data.
func (s *compass) addPair(r protocol.Line, root string) error {
	text := map[string]string{}
	for _, field := range []string{"dimension", "source_image", "prompt", "winner", "loser", "label"} {
		v, err := r.Filled(field)
		if err != nil {
			return err
		}
		text[field] = v
	}
	if s.Side[text["label"]] == "" {
		return fmt.Errorf("label is %q: preference or tie was expected", text["label"])
	}
	id := strconv.Itoa(len(s.IDs))
	picture := func(field string) protocol.Picture {
		path := filepath.FromSlash(text[field])
		if !filepath.IsAbs(path) {
			path = filepath.Join(root, path)
		}
		return protocol.Picture{Path: path}
	}
	item := func(side, output string) *edit.Edit {
		it := protocol.NewItem(protocol.Key{ID: id, Model: side}, text["prompt"], picture("source_image"), picture(output))
		it.Group = id
		return it
	}
	s.Add(id, text["label"])
	s.dimension = append(s.dimension, text["dimension"])
	s.items = append(s.items, edit.Pair{item(protocol.Left, "winner"), item(protocol.Right, "loser")})
	if !slices.Contains(s.dimensions, text["dimension"]) {
		s.dimensions = append(s.dimensions, text["dimension"])
	}
	return nil
}

// rule is the accuracy on the pairs of a dimension, or on all.
func (s *compass) rule(dimension string) protocol.PairRule {
	classes := []string{"preference", "tie"}
	decide := func(p *protocol.PairSet, j *protocol.PairPredictions, units []int) protocol.Verdicts {
		v := protocol.Verdicts{Rows: classes}
		for _, i := range units {
			if !s.of(i, dimension) || !j.HasScores(i) {
				continue
			}
			a, b := j.Scores[0][i], j.Scores[1][i]
			predicted := "the loser"
			switch {
			case math.Abs(a-b) < compassMargin && p.Human[i] == "tie":
				predicted = "tie"
			case a > b:
				predicted = "preference"
			case a == b:
				predicted = "tie"
			}
			v.Truth, v.Predicted = append(v.Truth, p.Human[i]), append(v.Predicted, predicted)
			v.Right = append(v.Right, predicted == p.Human[i])
		}
		return v
	}
	return protocol.PairRule{Name: dimension, Columns: append(classes, "the loser"), Decide: decide}
}

func (s *compass) of(i int, dimension string) bool {
	return dimension == "all" || s.dimension[i] == dimension
}

// Items implements Scorable.
func (s *compass) Items() ([]*edit.Edit, error) {
	var p protocol.Problems
	var items []*edit.Edit
	for _, pair := range s.items {
		protocol.FilePicture(protocol.PictureOf(pair[0], "source").Path, true, &p)
		for _, it := range pair {
			protocol.FilePicture(protocol.PictureOf(it, "edit").Path, true, &p)
			items = append(items, it)
		}
	}
	return items, p.Err()
}

// Read implements Set.
func (s *compass) Read(path string) (protocol.Predictions, error) {
	j, err := s.ReadPairs(path, math.NaN())
	return compassPredictions{j, s}, err
}

// Guess implements Guessable.
func (s *compass) Guess(rng *rand.Rand) protocol.Predictions {
	return compassPredictions{s.GuessPairs(rng, math.NaN()), s}
}

// compassPredictions are the scores of pairs.
type compassPredictions struct {
	*protocol.PairPredictions
	set *compass
}

// Result implements Predictions.
func (j compassPredictions) Result() *protocol.Result {
	r := j.PairResult("editreward-compass")
	for k, n := range r.Numbers {
		of := 0
		var missing []protocol.Key
		for i, id := range j.IDs {
			if j.set.of(i, n.Name) {
				if of++; !j.Complete(i) {
					missing = append(missing, protocol.Key{ID: id})
				}
			}
		}
		c := protocol.NewCoverage(of, missing)
		r.Numbers[k].Coverage = &c
	}
	return r
}
