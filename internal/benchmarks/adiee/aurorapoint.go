package adiee

import (
	"cmp"
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
var AuroraPoint = &protocol.Benchmark{
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
	Flags:        []string{"images"},
	Load:         loadAuroraPoint,
	Size:         2000,
	PublishedCSV: publishedCSV,
}

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
	var p protocol.Problems
	for i, r := range rows {
		text := map[string]string{}
		for _, field := range []string{"input", "gen", "prompt"} {
			if text[field], err = r.Filled(field); err != nil {
				p.Add(r.Where, "%v", err)
			}
		}
		score, err := r.Number("score")
		if err != nil || !r.Has("score") {
			p.Add(r.Where, "%v", cmp.Or(err, errors.New("score is null: a number was expected")))
		} else if err := auroraScale.Check("score", score); err != nil {
			p.Add(r.Where, "%v", err)
		}
		group := -1
		if r.Has("model") {
			model, err := r.Filled("model")
			if err != nil {
				p.Add(r.Where, "%v", err)
			}
			if group = slices.Index(s.Names, model); group < 0 {
				group = len(s.Names)
				s.Names = append(s.Names, model)
			}
		}
		if named := group >= 0; named != rows[0].Has("model") {
			p.Add(r.Where, "this row has a model or row 0 has, but not both: per_model_mean wants one of all")
		}
		key := protocol.Key{ID: strconv.Itoa(i)}
		s.Keys, s.Human, s.Group = append(s.Keys, key), append(s.Human, score), append(s.Group, group)
		s.UnitItems = append(s.UnitItems, []int{i})
		s.byGen[text["gen"]] = append(s.byGen[text["gen"]], i)
		it := protocol.NewItem(key, text["prompt"], protocol.Picture{Path: filepath.Join(root, text["input"])},
			protocol.Picture{Path: filepath.Join(root, text["gen"])})
		it.Group = text["input"] + "\n" + text["prompt"]
		s.items = append(s.items, it)
	}
	return s, p.Err()
}

func (s *aurora) Read(path string) (protocol.Predictions, error) {
	scores, err := protocol.ReadScores(path, len(s.Keys), []string{"score"}, func(k protocol.Key) (int, error) {
		if i, err := strconv.Atoi(k.ID); err == nil && i >= 0 && i < len(s.Keys) {
			return i, nil
		}
		switch at := s.byGen[k.ID]; len(at) {
		case 0:
			return 0, fmt.Errorf("the id %q is not rated: a number from 0 to %d, or a path such as %q, was expected",
				k.ID,
				len(s.Keys)-1, protocol.PictureOf(s.items[0], "edit").Path)
		case 1:
			return at[0], nil
		}
		return 0, fmt.Errorf("the id %q is the path of several ratings: a number from 0 to %d was expected", k.ID,
			len(s.Keys)-1)
	}, nil)
	if err != nil {
		return nil, err
	}
	return &auroraPredictions{s, scores}, nil
}

func (s *aurora) Guess(rng *rand.Rand) protocol.Predictions {
	return &auroraPredictions{s, protocol.RandomScores(rng, len(s.Keys))}
}

// Items implements Scorable.
func (s *aurora) Items() ([]*edit.Edit, error) { return s.items, checkFiles(s.items) }

// checkFiles names the pictures that are not there.
func checkFiles(items []*edit.Edit) error {
	var p protocol.Problems
	seen := map[string]bool{}
	for _, it := range items {
		for _, role := range []string{"source", "edit"} {
			if path := protocol.PictureOf(it, role).Path; !seen[path] {
				seen[path] = true
				protocol.FilePicture(path, true, &p)
			}
		}
	}
	return p.Err()
}

type auroraPredictions struct {
	*aurora
	scores []float64
}

func (j *auroraPredictions) Units() int             { return len(j.UnitItems) }
func (j *auroraPredictions) Complete(unit int) bool { return j.HasAll(j.scores, unit) }

func (j *auroraPredictions) Numbers(units []int) []protocol.Number {
	rho, global := j.Correlations(j.scores, units)
	return []protocol.Number{{Name: "global", Value: global},
		{Name: "per_model_mean", Value: stats.Mean(protocol.Defined(rho)),
			Terms: j.Over(rho, "models")}}
}

// auroraJSON is the JSON result of AURORA-Bench's point-wise part.
type auroraJSON struct {
	protocol.Common
	Global       protocol.Value            `json:"global"`
	PerModelMean protocol.Value            `json:"per_model_mean"`
	PerModel     map[string]protocol.Value `json:"per_model"`
	Undefined    []string                  `json:"undefined"`
}

func (j *auroraPredictions) Result() *protocol.Result {
	rho, _ := j.Correlations(j.scores, j.AllUnits())
	r := &protocol.Result{Notes: slices.Clone(j.Notes), Missing: j.Missing(j.scores),
		Numbers: j.Numbers(j.AllUnits()), Scatters: j.Scatters(j.scores)}
	r.N = len(j.Keys) - len(r.Missing)
	perModel, t := map[string]float64{}, protocol.Table{Title: "per model", Columns: []string{"spearman"}}
	undefined := []string{}
	for g, name := range j.Names {
		perModel[name] = rho[g]
		t.Rows = append(t.Rows, protocol.TableRow{Name: name, Cells: rho[g : g+1]})
		if rho[g] != rho[g] {
			undefined = append(undefined, name)
		}
	}
	r.Tables = []protocol.Table{t}
	if len(j.Names) == 0 {
		r.Notes = append(r.Notes, "the ratings name no models: per_model_mean is undefined")
	} else if len(undefined) > 0 {
		r.Notes = append(r.Notes, undefinedNote(undefined, len(j.Names)))
	}
	r.JSON = auroraJSON{r.Common("aurora-point"), protocol.Value(r.Numbers[0].Value),
		protocol.Value(r.Numbers[1].Value), protocol.Values(perModel),
		undefined}
	r.Examples = j.Examples(j.scores, 4, showItems(j.items))
	return r
}
