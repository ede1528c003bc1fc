// Package protocol is what all benchmarks share. A [Benchmark] loads its published data as a [Set]. A set that is
// [Scorable] lists items, which are edits, for a judge to score; reading a file of predictions ([ReadLines]) gives
// [Predictions], which compute [Number] values over any multiset of their units. Every number has the name of its
// rule and a [Basis]: the items that it covers, what measured it, how it was normalised; numbers share a column if
// their bases are equal.
//
// Three kinds of sets do most of the work: [Ratings] (scores against human ratings), [PairSet] (two edits and a human
// verdict) and [EditorSet] (means of numbers of each editor's outputs). A benchmark fills one of them from its
// layout.
package protocol

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/stats"
)

// Benchmark describes one benchmark.
type Benchmark struct {
	Name      string                        // of the subcommand
	Title     string                        // one line
	Needs     []string                      // what must be on disk
	Published string                        // who publishes it and where: names
	Predicts  string                        // the lines of a predictions file
	Rules     []string                      // "name: definition" of each number
	Flags     []string                      // options beyond the common ones: fields of Options, by flag name
	Load      func(Options) (Set, error)    // reads the published data
	Means     func(string) (*Result, error) // the overall numbers from published means, where that is possible
	// items of the whole benchmark, as printed numbers cover them; 0: not stated
	Size     int
	Counted  []string // numbers for which what is absent counts as wrong
	Lower    []string // numbers of which less is better, and those that begin so
	Neutral  []string // numbers of which neither is better
	Headline string   // the number that tables are sorted by; "": the first one
	Axes     []Axis   // of the radar chart

	// PublishedCSV holds the numbers that papers print, a row each, under the names of the numbers here, with their place
	// in the paper. Beside each stands what the paper states of it: the part of the benchmark, the judge and the
	// normalisation. Where a paper does not state the rule of a number, its name says so. A paper that contradicts itself
	// has a row for every place. Rows of other benchmarks are skipped, so that a family has one file.
	PublishedCSV string
}

// Options are the inputs of one evaluation. Fields that a benchmark does not list in Flags are empty.
type Options struct {
	Data    string  // folder or file of the published data (human ratings)
	Images  string  // folder of the pictures
	Votes   string  // file of votes in place of, or beside, the published data
	Targets string  // folder of the wanted results, where they are published apart
	Subset  string  // part of the benchmark, "" for the usual one
	Target  string  // which human value, "" for the usual one
	Epsilon float64 // margin of a tie chosen beforehand, NaN to choose it on the test set
	BGNorm  string  // normalisation of background differences
	Sigma   float64 // tolerance of the expression gain
	Lower   []string
	Editors []string          // folders of the editors that are measured
	By      map[string]string // component: what measured it
	Human   string            // file of human ratings of the samples
	Note    func(path string) // told of the files of ratings that are read, where a scorer can be run; nil: nobody
}

// NoteFiles tells of files that are read.
func (o Options) NoteFiles(files ...string) {
	for _, f := range files {
		if o.Note != nil {
			o.Note(f)
		}
	}
}

// Set is the published data of a benchmark.
type Set interface {
	// Read reads predictions. Its errors name the file, the line and what was expected.
	Read(path string) (Predictions, error)
}

// Scorable is a Set on which a scorer can be run.
type Scorable interface {
	// Items lists what is to be scored, candidates of one source together. The error names every picture or
	// instruction that is not there.
	Items() ([]*edit.Edit, error)
}

// SeveralSources is a Scorable with items of several sources, which need a judge that is shown them all.
type SeveralSources interface {
	// ItemsOfSeveral lists these, too.
	ItemsOfSeveral() ([]*edit.Edit, error)
}

// Guessable is a Set for which predictions can be made up: drawn from rng, or all the same when rng is nil.
type Guessable interface {
	Guess(rng *rand.Rand) Predictions
}

// WithPredictions is a Set whose published files may hold predictions themselves.
type WithPredictions interface {
	Predictions() (p Predictions, ok bool)
}

// Mixed is a Set whose predictions are components: they come from several files, of several editors.
type Mixed interface {
	Set
	// ReadAll reads files of components or scores, and folders of editors in the authors' layout. Every editor has
	// predictions of its own; the name is "" if the files name none.
	ReadAll(paths []string) ([]Editor, error)
}

// ReadOne implements Set by a Mixed set: a file of one editor.
func ReadOne(s Mixed, path string) (Predictions, error) {
	list, err := s.ReadAll([]string{path})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%s holds %d editors: give it as --components", filepath.Base(path), len(list))
	}
	return list[0].Predictions, nil
}

// Editor is the predictions of one editor.
type Editor struct {
	Name string
	Predictions
}

// Board is predictions of several methods, which tables show a row each.
type Board interface {
	// Leaderboard lists them; nothing if there is one only.
	Leaderboard() []Entry
}

// Entry is a method of a leaderboard.
type Entry struct {
	Name   string
	Subset string // part of the benchmark
	Predictions
}

// Writer is predictions that can be written as the benchmark's authors write them, for their own programs to read.
type Writer interface {
	WriteAuthors(dir string) error
}

// Predictions is a set together with predictions for it.
type Predictions interface {
	// Result computes everything.
	Result() *Result
	// Units is the number of independent units (sources, pairs, samples) of the data.
	Units() int
	// Complete reports whether nothing of a unit is missing in the predictions.
	Complete(unit int) bool
	// Numbers computes the headline numbers over units, which may repeat (a bootstrap resample).
	Numbers(units []int) []Number
}

// Number is one figure of a table, and what it depends on. An undefined one is NaN.
type Number struct {
	Name  string
	Value float64
	Terms
	Coverage *Coverage // of a result's numbers that stand on other items than its N; nil: on these
}

// Result is an evaluation.
type Result struct {
	JSON       any      // the machine-readable result
	Subset     string   // part of the benchmark, or of its human values; "" is the usual one
	N          int      // predictions that were used
	Missing    []Key    // rated items without a prediction
	Numbers    []Number // headline numbers
	Notes      []string // what the reader must know about them
	Failed     []string // samples that could not be computed, and why
	Agreement  []Table  // of a scorer's column with the others, and of all with people
	Tables     []Table
	Confusions []Confusion
	Scatters   []Scatter
	Examples   []Example
}

// Count counts the items that are complete, and names the others.
func (r *Result) Count(n int, complete func(i int) bool, key func(i int) Key) {
	for i := range n {
		if complete(i) {
			r.N++
		} else {
			r.Missing = append(r.Missing, key(i))
		}
	}
}

// UpTo returns the numbers 0 to n-1.
func UpTo(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// Key names an item: its id, and where several items share an id, its model (method, side, candidate).
type Key struct {
	ID    string `json:"id"`
	Model string `json:"model,omitempty"`
}

func (k Key) String() string {
	if k.Model == "" {
		return k.ID
	}
	return k.ID + " of " + k.Model
}

// Scatter is the points of one method: predicted score and human value.
type Scatter struct {
	Title        string
	Score, Human []float64
}

// Example is one item shown in a report.
type Example struct {
	Kind        string // "agrees" or "disagrees"
	Text        string
	Instruction string
	Pictures    []CaptionedPicture
}

// CaptionedPicture is a picture with its caption.
type CaptionedPicture struct {
	Caption string
	Picture Picture
}

// Captions are pictures of an item by their roles, with these as captions; a target's is "wanted".
func Captions(e *edit.Edit, roles ...string) (out []CaptionedPicture) {
	for _, role := range roles {
		caption := role
		if role == Target {
			caption = "wanted"
		}
		out = append(out, CaptionedPicture{caption, PictureOf(e, role)})
	}
	return out
}

// Value is a number in JSON: null when it is undefined.
type Value float64

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	return json.Marshal(float64(v))
}

// Values makes numbers printable as JSON.
func Values(m map[string]float64) map[string]Value {
	out := make(map[string]Value, len(m))
	for k, v := range m {
		out[k] = Value(v)
	}
	return out
}

// Common is what every JSON result begins with.
type Common struct {
	Benchmark string   `json:"benchmark"`
	N         int      `json:"n"`
	Missing   []Key    `json:"missing"`
	Notes     []string `json:"notes,omitempty"`
}

// Common returns the fields that every JSON result begins with.
func (r *Result) Common(benchmark string) Common {
	if r.Missing == nil {
		r.Missing = []Key{}
	}
	return Common{benchmark, r.N, r.Missing, r.Notes}
}

// Axis is an axis of a benchmark's radar chart: a number, and its values at the centre and at the rim.
type Axis struct {
	Number   string
	From, To float64
}

// WithLower is the benchmark with more numbers of which less is better.
func (b *Benchmark) WithLower(lower []string) *Benchmark {
	own := *b
	own.Lower = slices.Concat(b.Lower, lower)
	return &own
}

// Direction is 1 if more of a number is better, -1 if less is, 0 if neither or not known. A number of a part or a kind
// ("l1: single turn") is as its column.
func (b *Benchmark) Direction(number string) int {
	column, _, _ := strings.Cut(number, ": ")
	if isDistance(column) {
		return -1
	}
	for _, lower := range b.Lower {
		if column == lower || strings.HasPrefix(column, lower+"_") {
			return -1
		}
	}
	if slices.Contains(b.Neutral, column) {
		return 0
	}
	return 1
}

// Teachable is a Scorable whose items have right answers in words, from which a model can learn them.
type Teachable interface {
	Scorable
	// Answer is the one of some words that the benchmark's rule reads as the truth of an item, by its place in Items.
	Answer(i int, words []string) (string, error)
}

// Measurable is a set whose components, or answers, may be measured by metrics.
type Measurable interface {
	Set
	// Outputs lists the outputs of all editors.
	Outputs() ([]*edit.Edit, error)
	// Line is the line of a file of components that says what was measured of an item, by component; by names what
	// measured it.
	Line(k Key, values map[string]any, by string) map[string]any
}

// Composed is a Measurable whose numbers are made of components that judges may fill, too.
type Composed interface {
	Measurable
	// Components are their scales: a judge's range must be the component's. Words have none ([edit.NoRange]).
	Components() map[string]edit.Range
}

// Closed is a Composed that has no use for other numbers than its components.
type Closed interface {
	Composed
	Closed()
}

// Questions is a Scorable whose items are answered. A judge's words are kept as they are. A scorer answers by whether
// its score is above or below the middle of its range.
type Questions interface {
	Scorable
	// AnswerOf is the answer of a score that lies so far above the middle; "" if there is none.
	AnswerOf(above float64) string
}

// Named is predictions whose units are lines of their own file, not those of the data: they are told apart by names.
type Named interface {
	// UnitNames are the names of the units; two of one name are no units to pair.
	UnitNames() []string
}

// Expecting is a Set that knows what guessing is expected to get, by the numbers' names. A Set that is Guessable is
// asked for many guesses instead.
type Expecting interface {
	Chance(seed uint64) map[string]Value
}

// Sign is -1, 0 or 1.
func Sign(v float64) int {
	switch {
	case v > 0:
		return 1
	case v < 0:
		return -1
	}
	return 0
}

// ChanceDraws is the number of random judges whose mean is the expectation of guessing.
const ChanceDraws = 500

// Expectation averages the numbers of random judges.
func Expectation(g Guessable, seed uint64) map[string]Value {
	rng := stats.NewRand(seed + 1)
	draws := map[string][]float64{}
	for range ChanceDraws {
		j := g.Guess(rng)
		for _, n := range j.Numbers(UpTo(j.Units())) {
			if !math.IsNaN(n.Value) {
				draws[n.Name] = append(draws[n.Name], n.Value)
			}
		}
	}
	out := map[string]Value{}
	for name, list := range draws {
		out[name] = Value(stats.Mean(list))
	}
	return out
}

// ComponentLine is a line by the name of its sample's field. It says what measured the numbers that are made of the
// values; numbers are their names by component.
func ComponentLine(field string, k Key, values map[string]any, by string, numbers map[string][]string) map[string]any {
	line, measured := map[string]any{field: k.ID, "model": k.Model}, map[string]string{}
	for component, v := range values {
		line[component] = v
		for _, number := range numbers[component] {
			measured[number] = by
		}
	}
	if len(measured) > 0 {
		line["by"] = measured
	}
	return line
}

// RandomScores returns n scores: uniform on 0..10, or all 5 without a generator.
func RandomScores(rng *rand.Rand, n int) []float64 {
	scores := slices.Repeat([]float64{5}, n)
	if rng != nil {
		for i := range scores {
			scores[i] = 10 * rng.Float64()
		}
	}
	return scores
}
