package benchmarks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// differentFiles refuses a file of ratings that is there twice.
func differentFiles(files []string) error {
	first := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		text := strings.TrimSpace(strings.ReplaceAll(string(b), "\r\n", "\n"))
		if other, twice := first[text]; twice {
			return fmt.Errorf("%s: the same ratings as in %s: files of different raters were expected", file,
				filepath.Base(other))
		}
		first[text] = file
	}
	return nil
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

// raterFile is the file of one rater.
type raterFile struct {
	name, first string // of this file and of the first one, which names the items
	rater       int
	header      []string
	value       func(sc, pq float64) float64
	problems    *problems
}

// readRater reads one file: a header "uid, method, ...", then one line per source with a cell "[SC, PQ]" per method.
// The first file names the items, the others must have the same.
func (s *hub) readRater(path, firstPath string, r int, value func(sc, pq float64) float64, p *problems) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	lines := strings.Split(strings.TrimSpace(string(bytes.TrimPrefix(b, []byte("\xef\xbb\xbf")))), "\n")
	f := &raterFile{
		name:     filepath.Base(path),
		first:    filepath.Base(firstPath),
		rater:    r,
		header:   strings.Split(strings.TrimRight(lines[0], "\r"), "\t"),
		value:    value,
		problems: p,
	}
	if f.header[0] != "uid" || len(f.header) < 2 {
		return fmt.Errorf("%s:1: the header begins with %q: \"uid\" and the methods, separated by tabs, were expected",
			f.name, f.header[0])
	}
	s.raters = append(s.raters, slices.Repeat([]float64{math.NaN()}, len(s.keys)))
	if r == 0 {
		s.names = slices.DeleteFunc(slices.Clone(f.header[1:]), func(m string) bool { return m == leftOut })
	}
	for _, m := range s.names {
		if !slices.Contains(f.header, m) {
			p.add(f.name+":1", "the column %q of %s is not there", m, f.first)
		}
	}
	rated := map[string]int{} // line of each source
	for n, line := range lines[1:] {
		where := fmt.Sprintf("%s:%d", f.name, n+2)
		cells := strings.Split(strings.TrimRight(line, "\r"), "\t")
		if len(cells) != len(f.header) {
			p.add(where, "%d columns: %d were expected, as in the header", len(cells), len(f.header))
			continue
		}
		if before, ok := rated[cells[0]]; ok {
			p.add(where, "a second row for %s (the first is line %d)", cells[0], before)
			continue
		}
		rated[cells[0]] = n + 2
		s.readRatings(f, where, cells)
	}
	for i, v := range s.raters[r] {
		if math.IsNaN(v) && rated[s.keys[i].ID] == 0 && s.group[i] == 0 {
			p.add(f.name, "there is no row for %s, which %s has", s.keys[i].ID, f.first)
		}
	}
	return nil
}

// readRatings reads the ratings of one source.
func (s *hub) readRatings(f *raterFile, where string, cells []string) {
	if f.rater == 0 {
		s.units = append(s.units, nil)
	}
	for c, method := range f.header[1:] {
		g := slices.Index(s.names, method)
		if g < 0 {
			if method != leftOut {
				f.problems.add(where, "the column %q is not in %s", method, f.first)
			}
			continue
		}
		var v []float64
		if err := json.Unmarshal([]byte(cells[c+1]), &v); err != nil || len(v) != 2 || min(v[0], v[1]) < 0 ||
			max(v[0], v[1]) > 1 {
			f.problems.add(where, "%s has %q: [SC, PQ], two numbers from 0 to 1, was expected", method, cells[c+1])
			continue
		}
		key := Key{cells[0], method}
		i, ok := s.index[key]
		if f.rater == 0 {
			i, ok = len(s.keys), true
			s.index[key] = i
			s.keys, s.group = append(s.keys, key), append(s.group, g)
			s.units[len(s.units)-1] = append(s.units[len(s.units)-1], i)
			s.raters[0] = append(s.raters[0], 0)
		}
		if !ok {
			f.problems.add(where, "%v is not rated in %s", key, f.first)
			continue
		}
		s.raters[f.rater][i] = f.value(v[0], v[1])
	}
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

// guess returns n scores: uniform on 0..10, or all 5 without a generator.
func guess(rng *rand.Rand, n int) []float64 {
	scores := slices.Repeat([]float64{5}, n)
	if rng != nil {
		for i := range scores {
			scores[i] = 10 * rng.Float64()
		}
	}
	return scores
}

// Items finds the pictures: input/ID, METHOD/ID, and the instructions of dataset_lookup.json.
func (s *hub) Items() ([]Item, error) {
	if s.images == "" {
		return nil, errors.New("the pictures are not named: give --images, the folder with dataset_lookup.json, input and " +
			"one folder per method")
	}
	lookupPath, err := locate(s.images, "dataset_lookup.json")
	if err != nil {
		return nil, fmt.Errorf("--images: %w", err)
	}
	b, err := os.ReadFile(lookupPath)
	if err != nil {
		return nil, err
	}
	var lookup map[string]struct {
		Instruction string
		Before      string `json:"source_global_caption"`
		After       string `json:"target_global_caption"`
	}
	if err := json.Unmarshal(b, &lookup); err != nil {
		return nil, fmt.Errorf("%s: %w: {id: {\"instruction\": ...}} was expected", lookupPath, err)
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

// filePicture is the picture in a file; with check it is a problem if the file is not there.
func filePicture(path string, check bool, p *problems) Picture {
	if check {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			p.add(path, "the picture is not there")
		} else if err != nil {
			p.add(path, "%v", err)
		}
	}
	return Picture{Path: path}
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
