package benchmarks

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"strings"

	"assay/internal/stats"
)

// groundTruth is the folder of the wanted results.
const groundTruth = "GroundTruth"

// leftOut is a method whose ratings are in the published files but not in the published numbers.
const leftOut = "Imagic"

var imagenHub = &Benchmark{
	Name:  "imagenhub",
	Title: "ImagenHub, text-guided image editing: 179 sources x 8 methods",
	Needs: []string{
		"--ratings: a folder with Text-Guided_IE_rater1.tsv, ...rater2.tsv, ...rater3.tsv",
		"--images (with --scorer): ImagenHub_Text-Guided_IE, with input/, one folder per method, and dataset_lookup.json; " +
			"GroundTruth/ for clip_i and dino_i",
	},
	Published: "TIGER-AI-Lab: ratings in the repository ImagenHub, pictures in the dataset " +
		"ImagenHub/ImagenHub_Text-Guided_IE",
	Predicts: `{"id": "sample_100081_1.jpg", "model": "MagicBrush", "score": 7.5}; "sc" and "pq" for --target SC, PQ`,
	Rules: []string{
		"published: tanh of the mean over methods of Spearman's rho; what VIEScore, ADIEE and EditReward print",
		"fisher: tanh of the mean over methods of arctanh(rho), the true Fisher average",
		"human: each rater against the mean of the others, tanh of means as in published",
	},
	Flags:   []string{"images", "target"},
	Load:    loadImagenHub,
	Size:    1432,
	Counted: []string{"human"},
}

// hub is ImagenHub's ratings. raters[r][i] is rater r's value of item i.
type hub struct {
	points
	target string
	images string
	raters [][]float64
	index  map[Key]int
}

func loadImagenHub(o Options) (Set, error) {
	target := strings.ToUpper(o.Target)
	if target == "" {
		target = "O"
	}
	values := map[string]func(sc, pq float64) float64{
		"O":  func(sc, pq float64) float64 { return math.Sqrt(sc * pq) },
		"SC": func(sc, _ float64) float64 { return sc },
		"PQ": func(_, pq float64) float64 { return pq },
	}
	value, ok := values[target]
	if !ok {
		return nil, fmt.Errorf("target %q: O (the square root of SC x PQ), SC or PQ was expected", o.Target)
	}
	files, err := locateAll(o.Data, "Text-Guided_IE_rater*.tsv")
	if err != nil {
		return nil, err
	}
	if len(files) < 2 {
		return nil, fmt.Errorf("%s: one rater's file only (%s): the files of all raters were expected", o.Data, files[0])
	}
	o.note(files...)
	if err := differentFiles(files); err != nil {
		return nil, err
	}
	s := &hub{target: target, images: o.Images, index: map[Key]int{}}
	var p problems
	for r, file := range files {
		if err := s.readRater(file, files[0], r, value, &p); err != nil {
			return nil, err
		}
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	s.human = make([]float64, len(s.keys))
	for i := range s.keys {
		for r := range files {
			s.human[i] += s.raters[r][i]
		}
		s.human[i] /= float64(len(files))
	}
	return s, nil
}

// publishedRaters is the number of raters that published numbers are computed on.
const publishedRaters = 3

// part names what differs from the published human values: the target, the number of raters.
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

func (s *hub) Read(path string) (Predictions, error) {
	fields := []string{"score"}
	if s.target != "O" {
		fields = []string{strings.ToLower(s.target), s.target, "score"}
	}
	known := map[string]bool{}
	for _, k := range s.keys {
		known[k.ID] = true
	}
	find := func(k Key) (int, error) {
		if i, ok := s.index[k]; ok {
			return i, nil
		}
		switch {
		case !known[k.ID]:
			return 0, fmt.Errorf("the id %q is not rated: an id such as %q was expected", k.ID, s.keys[0].ID)
		case k.Model == "":
			return 0, fmt.Errorf("there is no \"model\": one of %s was expected", strings.Join(s.names, ", "))
		}
		return 0, fmt.Errorf("the model %q is not rated: one of %s was expected", k.Model, strings.Join(s.names, ", "))
	}
	scores, err := readScores(path, len(s.keys), fields, find, func(k Key) bool { return k.Model == leftOut })
	if err != nil {
		return nil, err
	}
	return &hubPredictions{s, scores}, nil
}

func (s *hub) Guess(rng *rand.Rand) Predictions { return &hubPredictions{s, guess(rng, len(s.keys))} }

// Items finds the pictures: input/ID, METHOD/ID, and the instructions of dataset_lookup.json.
func (s *hub) Items() ([]Item, error) {
	if s.images == "" {
		return nil, errors.New("the pictures are not named: give --images, the folder with dataset_lookup.json, input and " +
			"one folder per method")
	}
	lookupPath, lookup, err := readHubLookup("--images", s.images)
	if err != nil {
		return nil, err
	}
	root := filepath.Dir(lookupPath)
	var p problems
	items := make([]Item, len(s.keys))
	for i, k := range s.keys {
		entry, ok := lookup[k.ID]
		if !ok && s.group[i] == 0 {
			p.add(lookupPath, "there is no instruction for %s", k.ID)
		}
		items[i] = Item{
			Key:         k,
			Group:       k.ID,
			Instruction: entry.Instruction,
			Source:      filePicture(filepath.Join(root, "input", k.ID), s.group[i] == 0, &p),
			Edit:        filePicture(filepath.Join(root, k.Model, k.ID), true, &p),
			Target:      Picture{Path: filepath.Join(root, groundTruth, k.ID)},
			Captions:    [2]string{entry.Before, entry.After},
		}
	}
	return items, p.err()
}

// humanCorrelation correlates each rater with the mean of the others, per method: tanh of the mean over raters, then
// tanh of the mean over methods.
func (s *hub) humanCorrelation() float64 {
	perMethod := make([]float64, len(s.names))
	for g := range s.names {
		var rho []float64
		for r := range s.raters {
			var one, rest []float64
			for i := range s.keys {
				if s.group[i] != g {
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
		perMethod[g] = stats.TanhMean(defined(rho))
	}
	return stats.TanhMean(defined(perMethod))
}

type hubPredictions struct {
	*hub
	scores []float64
}

func (j *hubPredictions) Units() int             { return len(j.units) }
func (j *hubPredictions) Complete(unit int) bool { return j.complete(j.scores, unit) }

func (j *hubPredictions) Numbers(units []int) []Number {
	rho, _ := j.correlations(j.scores, units)
	terms := j.over(rho, "methods")
	rho = defined(rho)
	return []Number{{Name: "published", Value: stats.TanhMean(rho), Terms: terms},
		{Name: "fisher", Value: stats.FisherMean(rho), Terms: terms}}
}

// hubJSON is the JSON result of ImagenHub.
type hubJSON struct {
	Common
	Target       string           `json:"target"`
	Published    Value            `json:"published"`
	Fisher       Value            `json:"fisher"`
	PerModelMean Value            `json:"per_model_mean"`
	PerModel     map[string]Value `json:"per_model"`
	Undefined    []string         `json:"undefined"`
	Human        Value            `json:"human"`
}

func (j *hubPredictions) Result() *Result {
	rho, _ := j.correlations(j.scores, j.all())
	human := j.humanCorrelation()
	r := &Result{
		Missing:  j.missing(j.scores),
		Numbers:  append(j.Numbers(j.all()), Number{Name: "human", Value: human, Terms: Terms{Counted: true}}),
		Scatters: j.scatters(j.scores),
		Subset:   j.part(),
	}
	r.N = len(j.keys) - len(r.Missing)
	perModel, t := map[string]Value{}, Table{Title: "per method", Columns: []string{"spearman"}}
	undefined := []string{}
	for g, name := range j.names {
		perModel[name] = Value(rho[g])
		t.Rows = append(t.Rows, TableRow{Name: name, Cells: rho[g : g+1]})
		if math.IsNaN(rho[g]) {
			undefined = append(undefined, name)
		}
	}
	r.Tables = []Table{t}
	if len(undefined) > 0 {
		r.Notes = append(r.Notes, undefinedNote(undefined, len(j.names)))
	}
	r.JSON = hubJSON{r.common("imagenhub"), j.target, Value(r.Numbers[0].Value), Value(r.Numbers[1].Value),
		Value(stats.Mean(defined(rho))), perModel, undefined, Value(human)}
	items, err := j.Items()
	if err != nil {
		items = nil // the report has no pictures then
	}
	r.Examples = j.examples(j.scores, 4, showItems(items))
	return r
}

func undefinedNote(names []string, of int) string {
	return fmt.Sprintf("the correlation of %d of %d methods is undefined (constant or missing predictions) and left "+
		"out of the means: %s",
		len(names), of, strings.Join(names, ", "))
}

// showItems shows source and edit of an item; items may be nil.
func showItems(items []Item) func(i int) ([]CaptionedPicture, string) {
	return func(i int) ([]CaptionedPicture, string) {
		if items == nil {
			return nil, ""
		}
		return []CaptionedPicture{{"source", items[i].Source}, {"edit", items[i].Edit}}, items[i].Instruction
	}
}
