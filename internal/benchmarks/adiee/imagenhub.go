// Package adiee holds the benchmarks that ADIEE is measured on: ImagenHub and AURORA-Bench's pointwise part, which
// correlate scores with human ratings, and GenAI-Bench and AURORA-Bench's pairwise part, which predict human votes.
package adiee

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/stats"
)

// groundTruth is the folder of the wanted results.
const groundTruth = "GroundTruth"

// leftOut is a method whose ratings are in the published files but not in the published numbers.
const leftOut = "Imagic"

var (
	//go:embed benchmarks.txt
	benchmarksText string
	//go:embed published.csv
	publishedCSV string
)

// family holds the descriptions and published numbers of these benchmarks.
var family = protocol.Family{Benchmarks: benchmarksText, Published: publishedCSV}

// ImagenHub is ImagenHub's human ratings of text-guided editing.
var ImagenHub = family.Benchmark("imagenhub", loadImagenHub)

// hub is ImagenHub's ratings. raters[r][i] is rater r's value of item i.
type hub struct {
	protocol.Ratings
	target string
	images string
	raters [][]float64
	index  map[protocol.Key]int
}

func loadImagenHub(o protocol.Options) (protocol.Set, error) {
	target := strings.ToUpper(o.Target)
	target = cmp.Or(target, "O")
	values := map[string]func(sc, pq float64) float64{
		"O":  func(sc, pq float64) float64 { return math.Sqrt(sc * pq) },
		"SC": func(sc, _ float64) float64 { return sc },
		"PQ": func(_, pq float64) float64 { return pq },
	}
	value, ok := values[target]
	if !ok {
		return nil, fmt.Errorf("target %q: want O (the square root of SC x PQ), SC or PQ", o.Target)
	}
	files, err := protocol.LocateAll(o.Data, "Text-Guided_IE_rater*.tsv")
	if err != nil {
		return nil, err
	}
	if len(files) < 2 {
		return nil, fmt.Errorf("%s: only one rater's file (%s): want the files of all raters", o.Data,
			files[0])
	}
	o.NoteFiles(files...)
	if err := differentFiles(files); err != nil {
		return nil, err
	}
	s := &hub{target: target, images: o.Images, index: map[protocol.Key]int{}}
	var p protocol.Problems
	for r, file := range files {
		if err := s.readRater(file, files[0], r, value, &p); err != nil {
			return nil, err
		}
	}
	if err := p.Err(); err != nil {
		return nil, err
	}
	s.Human = make([]float64, len(s.Keys))
	for i := range s.Keys {
		for r := range files {
			s.Human[i] += s.raters[r][i]
		}
		s.Human[i] /= float64(len(files))
	}
	return s, nil
}

// publishedRaters is the number of raters that published numbers are computed on.
const publishedRaters = 3

// part names differences from the published human values: the target, the number of raters.
func (s *hub) part() string {
	var parts []string
	if s.target != "O" {
		parts = append(parts, "target "+s.target)
	}
	if n := len(s.raters); n != publishedRaters {
		parts = append(parts, fmt.Sprintf("%d raters", n))
	}
	return strings.Join(parts, ", ")
}

func (s *hub) Read(path string) (protocol.Predictions, error) {
	fields := []string{"score"}
	if s.target != "O" {
		fields = []string{strings.ToLower(s.target), s.target, "score"}
	}
	known := map[string]bool{}
	for _, k := range s.Keys {
		known[k.ID] = true
	}
	find := func(k protocol.Key) (int, error) {
		if i, ok := s.index[k]; ok {
			return i, nil
		}
		switch {
		case k.Model == leftOut:
			return -1, nil
		case !known[k.ID]:
			return 0, fmt.Errorf("the id %q is not rated: want an id such as %q", k.ID, s.Keys[0].ID)
		case k.Model == "":
			return 0, fmt.Errorf("there is no \"model\": want one of %s", strings.Join(s.Names, ", "))
		}
		return 0, fmt.Errorf("the model %q is not rated: want one of %s", k.Model, strings.Join(s.Names, ", "))
	}
	j, err := s.ReadScores(path, fields, find)
	return hubPredictions{j, s}, err
}

func (s *hub) Guess(rng *rand.Rand) protocol.Predictions {
	return hubPredictions{s.Ratings.Guess(rng), s}
}

// Items finds the pictures: input/ID, METHOD/ID, and the instructions of dataset_lookup.json.
func (s *hub) Items() ([]*edit.Edit, error) {
	if s.images == "" {
		return nil, errors.New("there are no pictures: give --images, the folder with dataset_lookup.json, input and " +
			"one folder per method")
	}
	lookupPath, lookup, err := readHubLookup("--images", s.images)
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(lookupPath)
	var p protocol.Problems
	items := make([]*edit.Edit, len(s.Keys))
	for i, k := range s.Keys {
		entry, ok := lookup[k.ID]
		if !ok && s.Group[i] == 0 {
			p.Add(lookupPath, "there is no instruction for %s", k.ID)
		}
		items[i] = protocol.NewItem(k, entry.Instruction,
			protocol.FilePicture(filepath.Join(root, "input", k.ID), s.Group[i] == 0, &p),
			protocol.FilePicture(filepath.Join(root, k.Model, k.ID), true, &p))
		items[i].Group = k.ID
		items[i].Set(protocol.Target, protocol.Picture{Path: filepath.Join(root, groundTruth, k.ID)})
		protocol.SetCaptions(items[i], [2]string{entry.Before, entry.After})
	}
	return items, p.Err()
}

// humanCorrelation correlates each rater with the mean of the others, per method: tanh of the mean over raters, then
// tanh of the mean over methods.
func (s *hub) humanCorrelation() float64 {
	perMethod := make([]float64, len(s.Names))
	for g := range s.Names {
		var rho []float64
		for r := range s.raters {
			var one, rest []float64
			for i := range s.Keys {
				if s.Group[i] != g {
					continue
				}
				sum := 0.0
				for q := range s.raters {
					if q != r {
						sum += s.raters[q][i]
					}
				}
				one, rest = append(one, s.raters[r][i]), append(rest, sum/float64(len(s.raters)-1))
			}
			rho = append(rho, stats.Spearman(one, rest))
		}
		perMethod[g] = stats.TanhMean(protocol.Defined(rho))
	}
	return stats.TanhMean(protocol.Defined(perMethod))
}

type hubPredictions struct {
	*protocol.RatingPredictions
	hub *hub
}

func (j hubPredictions) Numbers(units []int) []protocol.Number {
	rho, _ := j.Correlations(units)
	terms := j.Over(rho, "methods")
	rho = protocol.Defined(rho)
	return []protocol.Number{{Name: "published", Value: stats.TanhMean(rho), Terms: terms},
		{Name: "fisher", Value: stats.FisherMean(rho), Terms: terms}}
}

// hubJSON is the JSON result of ImagenHub.
type hubJSON struct {
	protocol.Common
	Target       string         `json:"target"`
	Published    protocol.Value `json:"published"`
	Fisher       protocol.Value `json:"fisher"`
	PerModelMean protocol.Value `json:"per_model_mean"`
	protocol.GroupsJSON
	Human protocol.Value `json:"human"`
}

func (j hubPredictions) Result() *protocol.Result {
	all := stats.UpTo(j.Units())
	rho, _ := j.Correlations(all)
	human := j.hub.humanCorrelation()
	numbers := append(j.Numbers(all), protocol.Number{Name: "human", Value: human, Terms: protocol.Terms{Counted: true}})
	items, err := j.hub.Items()
	if err != nil {
		items = nil // the report has no pictures then
	}
	r, groups := j.RatingPredictions.Result("per method", numbers, items)
	r.Subset = j.hub.part()
	r.JSON = hubJSON{r.Common("imagenhub"), j.hub.target, protocol.Value(numbers[0].Value),
		protocol.Value(numbers[1].Value), protocol.Value(stats.Mean(protocol.Defined(rho))), groups, protocol.Value(human)}
	return r
}
