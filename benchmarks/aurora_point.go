package benchmarks

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"

	"assay/internal/stats"
)

var auroraPoint = &Benchmark{
	Name:  "aurora-point",
	Title: "AURORA-Bench, point-wise: 2,000 edits with a human score of 0 to 2",
	Needs: []string{
		"--ratings: human_ratings_updated_prompt.json, [{input, gen, prompt, score, model}], or its folder",
		"--images (with --scorer): the folder that input and gen start at; the ratings' folder if left out",
	},
	Published: "McGill-NLP: the repository AURORA, its human ratings",
	Predicts:  `{"id": 0, "score": 7.5}, id counting the ratings from 0, or being the path gen`,
	Rules: []string{
		"global: one Spearman correlation over all edits (ADIEE)",
		"per_model_mean: the mean over editing models of Spearman's correlation (EditReward)",
	},
	Flags: []string{"images"},
	Load:  loadAuroraPoint,
	Size:  2000,
}

// aurora is AURORA-Bench's point-wise part.
type aurora struct {
	points
	items []Item
	byGen map[string][]int
}

// auroraScale is that of the human scores.
var auroraScale = bounds{0, 2}

func loadAuroraPoint(o Options) (Set, error) {
	rows, root, err := o.rows("human_ratings_updated_prompt.json")
	if err != nil {
		return nil, err
	}
	s := &aurora{byGen: map[string][]int{}}
	s.notes = repeats(rows)
	var p problems
	for i, r := range rows {
		text := map[string]string{}
		for _, field := range []string{"input", "gen", "prompt"} {
			if text[field], err = r.filled(field); err != nil {
				p.add(r.where, "%v", err)
			}
		}
		score, err := r.number("score")
		if err != nil || !r.has("score") {
			p.add(r.where, "%v", cmp.Or(err, errors.New("score is null: a number was expected")))
		} else if err := auroraScale.check("score", score); err != nil {
			p.add(r.where, "%v", err)
		}
		group := -1
		if r.has("model") {
			model, err := r.filled("model")
			if err != nil {
				p.add(r.where, "%v", err)
			}
			if group = slices.Index(s.names, model); group < 0 {
				group = len(s.names)
				s.names = append(s.names, model)
			}
		}
		if named := group >= 0; named != rows[0].has("model") {
			p.add(r.where, "this row has a model or row 0 has, but not both: per_model_mean wants one of all")
		}
		key := Key{ID: strconv.Itoa(i)}
		s.keys, s.human, s.group = append(s.keys, key), append(s.human, score), append(s.group, group)
		s.units = append(s.units, []int{i})
		s.byGen[text["gen"]] = append(s.byGen[text["gen"]], i)
		s.items = append(s.items, Item{Key: key, Group: text["input"] + "\n" + text["prompt"], Instruction: text["prompt"],
			Source: Picture{Path: filepath.Join(root, text["input"])}, Edit: Picture{Path: filepath.Join(root, text["gen"])}})
	}
	return s, p.err()
}

func (s *aurora) Read(path string) (Predictions, error) {
	scores, err := readScores(path, len(s.keys), []string{"score"}, func(k Key) (int, error) {
		if i, err := strconv.Atoi(k.ID); err == nil && i >= 0 && i < len(s.keys) {
			return i, nil
		}
		switch at := s.byGen[k.ID]; len(at) {
		case 0:
			return 0, fmt.Errorf("the id %q is not rated: a number from 0 to %d, or a path such as %q, was expected", k.ID,
				len(s.keys)-1, s.items[0].Edit.Path)
		case 1:
			return at[0], nil
		}
		return 0, fmt.Errorf("the id %q is the path of several ratings: a number from 0 to %d was expected", k.ID,
			len(s.keys)-1)
	}, nil)
	if err != nil {
		return nil, err
	}
	return &auroraPredictions{s, scores}, nil
}

func (s *aurora) Guess(rng *rand.Rand) Predictions {
	return &auroraPredictions{s, guess(rng, len(s.keys))}
}

// Items implements Scorable.
func (s *aurora) Items() ([]Item, error) { return s.items, checkFiles(s.items) }

// checkFiles names the pictures that are not there.
func checkFiles(items []Item) error {
	var p problems
	seen := map[string]bool{}
	for _, it := range items {
		for _, path := range []string{it.Source.Path, it.Edit.Path} {
			if !seen[path] {
				seen[path] = true
				filePicture(path, true, &p)
			}
		}
	}
	return p.err()
}

type auroraPredictions struct {
	*aurora
	scores []float64
}

func (j *auroraPredictions) Units() int             { return len(j.units) }
func (j *auroraPredictions) Complete(unit int) bool { return j.complete(j.scores, unit) }

func (j *auroraPredictions) Numbers(units []int) []Number {
	rho, global := j.correlations(j.scores, units)
	return []Number{{Name: "global", Value: global}, {Name: "per_model_mean", Value: stats.Mean(defined(rho)),
		Terms: j.over(rho, "models")}}
}

// auroraJSON is the JSON result of AURORA-Bench's point-wise part.
type auroraJSON struct {
	Common
	Global       Value            `json:"global"`
	PerModelMean Value            `json:"per_model_mean"`
	PerModel     map[string]Value `json:"per_model"`
	Undefined    []string         `json:"undefined"`
}

func (j *auroraPredictions) Result() *Result {
	rho, _ := j.correlations(j.scores, j.all())
	r := &Result{Notes: slices.Clone(j.notes), Missing: j.missing(j.scores),
		Numbers: j.Numbers(j.all()), Scatters: j.scatters(j.scores)}
	r.N = len(j.keys) - len(r.Missing)
	perModel, t := map[string]float64{}, Table{Title: "per model", Columns: []string{"spearman"}}
	undefined := []string{}
	for g, name := range j.names {
		perModel[name] = rho[g]
		t.Rows = append(t.Rows, TableRow{Name: name, Cells: rho[g : g+1]})
		if rho[g] != rho[g] {
			undefined = append(undefined, name)
		}
	}
	r.Tables = []Table{t}
	if len(j.names) == 0 {
		r.Notes = append(r.Notes, "the ratings name no models: per_model_mean is undefined")
	} else if len(undefined) > 0 {
		r.Notes = append(r.Notes, undefinedNote(undefined, len(j.names)))
	}
	r.JSON = auroraJSON{r.common("aurora-point"), Value(r.Numbers[0].Value), Value(r.Numbers[1].Value), values(perModel),
		undefined}
	r.Examples = j.examples(j.scores, 4, showItems(j.items))
	return r
}
