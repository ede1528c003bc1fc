package adiee

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// AuroraPoint is AURORA-Bench's pointwise part.
var AuroraPoint = family.Benchmark("aurora-point", loadAuroraPoint)

// aurora is AURORA-Bench's point-wise part.
type aurora struct {
	protocol.Ratings
	items []*edit.Edit
	byGen map[string][]int
}

// auroraScale bounds the human scores.
var auroraScale = protocol.Bounds{Low: 0, High: 2}

func loadAuroraPoint(o protocol.Options) (protocol.Set, error) {
	rows, root, err := o.Lines("human_ratings_updated_prompt.json")
	if err != nil {
		return nil, err
	}
	s := &aurora{byGen: map[string][]int{}}
	s.Notes = protocol.Repeats(rows)
	var sources protocol.Sources
	var p protocol.Problems
	p.Each(rows, func(r *protocol.Line) error {
		input, gen, prompt, score := r.Filled("input"), r.Filled("gen"), r.Filled("prompt"), r.Number("score")
		if !r.Has("score") {
			r.Fail("score is null: want a number")
		}
		group := -1
		if r.Has("model") {
			model := r.Filled("model")
			if group = slices.Index(s.Names, model); group < 0 {
				group = len(s.Names)
				s.Names = append(s.Names, model)
			}
		}
		i := len(s.Keys)
		key := protocol.Key{ID: strconv.Itoa(i)}
		s.Keys, s.Human, s.Group = append(s.Keys, key), append(s.Human, score), append(s.Group, group)
		sources.Add(input, i)
		s.byGen[gen] = append(s.byGen[gen], i)
		it := protocol.NewItem(key, prompt, protocol.Picture{Path: filepath.Join(root, input)},
			protocol.Picture{Path: filepath.Join(root, gen)})
		it.Group = input + "\n" + prompt
		s.items = append(s.items, it)
		if named := group >= 0; named != rows[0].Has("model") {
			return errors.New("either this row or row 0 has a model, but not both: per_model_mean needs a model in all rows")
		}
		return auroraScale.Check("score", score)
	})
	s.UnitItems = sources.Samples
	return s, p.Err()
}

func (s *aurora) Read(path string) (protocol.Predictions, error) {
	j, err := s.ReadScores(path, []string{"score"}, func(k protocol.Key) (int, error) {
		if i, err := strconv.Atoi(k.ID); err == nil && i >= 0 && i < len(s.Keys) {
			return i, nil
		}
		switch at := s.byGen[k.ID]; len(at) {
		case 0:
			return 0, fmt.Errorf("the id %q is not rated: want a number from 0 to %d, or a path such as %q", k.ID,
				len(s.Keys)-1, protocol.PictureOf(s.items[0], "edit").Path)
		case 1:
			return at[0], nil
		}
		return 0, fmt.Errorf("the id %q is the path of several ratings: want a number from 0 to %d", k.ID,
			len(s.Keys)-1)
	})
	return auroraPredictions{j, s.items}, err
}

func (s *aurora) Guess(rng *rand.Rand) protocol.Predictions {
	return auroraPredictions{s.Ratings.Guess(rng), s.items}
}

// Items implements Scorable.
func (s *aurora) Items() ([]*edit.Edit, error) { return s.items, protocol.CheckFiles(s.items) }

type auroraPredictions struct {
	*protocol.RatingPredictions
	items []*edit.Edit
}

func (j auroraPredictions) Numbers(units []int) []protocol.Number {
	rho, global := j.Correlations(units)
	return []protocol.Number{{Name: "global", Value: global},
		{Name: "per_model_mean", Value: stats.Mean(protocol.Defined(rho)), Terms: j.Over(rho, "models")}}
}

// auroraJSON is the JSON result of AURORA-Bench's point-wise part.
type auroraJSON struct {
	protocol.Common
	Global       protocol.Value `json:"global"`
	PerModelMean protocol.Value `json:"per_model_mean"`
	protocol.GroupsJSON
}

func (j auroraPredictions) Result() *protocol.Result {
	numbers := j.Numbers(stats.UpTo(j.Units()))
	r, groups := j.RatingPredictions.Result("per model", numbers, j.items)
	if len(j.Names) == 0 {
		r.Notes = append(r.Notes, "the ratings name no models: per_model_mean is undefined")
	}
	r.JSON = auroraJSON{r.Common("aurora-point"), protocol.Value(numbers[0].Value), protocol.Value(numbers[1].Value),
		groups}
	return r
}
