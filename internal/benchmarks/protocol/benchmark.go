// Package protocol contains what all benchmarks share. A [Benchmark] loads its published data as a [Set]. A set that
// is [Scorable] lists items, which are edits, for a judge to score; reading a file of predictions ([ReadLines]) gives
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
	// number of items of the full benchmark, as covered by printed numbers; 0: not stated
	Size     int
	Counted  []string // numbers for which absent answers count as wrong
	Lower    []string // numbers of which less is better, or the prefix of their names before a "_"
	Neutral  []string // numbers of which neither more nor less is better
	Headline string   // the number that tables are sorted by; "": the first one
	Axes     []Axis   // of the radar chart

	// PublishedCSV holds the numbers that papers print, one row each, under the names used here, with their place in
	// the paper and what the paper states about them: the part of the benchmark, the judge and the normalisation. If
	// a paper does not state the rule of a number, its name says so. A paper that contradicts itself has a row for
	// every place. Rows of other benchmarks are skipped, so a family shares one file.
	PublishedCSV string
}

// Options are the inputs of one evaluation. Fields that a benchmark does not list in Flags are empty.
type Options struct {
	Data    string  // folder or file of the published data (human ratings)
	Images  string  // folder of the pictures
	Votes   string  // file of votes instead of, or in addition to, the published data
	Targets string  // folder of the target pictures, if they are published separately
	Subset  string  // part of the benchmark, "" for the usual one
	Target  string  // which human value, "" for the usual one
	Epsilon float64 // tie margin; NaN: chosen on the test set
	BGNorm  string  // normalisation of background differences
	Sigma   float64 // tolerance of the expression gain
	Lower   []string
	Editors []string          // folders of the editors that are measured
	By      map[string]string // component: what measured it
	Human   string            // file of human ratings of the samples
	Note    func(path string) // called with each file of ratings that is read, if a scorer can be run; nil: not called
}

// NoteFiles reports files that are read.
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
	// Items lists the edits to score, candidates of one source together. The error names every missing picture or
	// instruction.
	Items() ([]*edit.Edit, error)
}

// SeveralSources is a Scorable that also has items with several sources, which need a judge that is shown all of
// them.
type SeveralSources interface {
	// ItemsOfSeveral lists all items, including those with several sources.
	ItemsOfSeveral() ([]*edit.Edit, error)
}

// Guessable is a Set that can generate predictions: drawn from rng, or constant if rng is nil.
type Guessable interface {
	Guess(rng *rand.Rand) Predictions
}

// WithPredictions is a Set whose published files may contain predictions.
type WithPredictions interface {
	Predictions() (p Predictions, ok bool)
}

// Mixed is a Set whose predictions are components: they come from several files, of several editors.
type Mixed interface {
	Set
	// ReadAll reads files of components or scores, and folders of editors in the authors' layout. Every editor has
	// separate predictions; the name is "" if the files name none.
	ReadAll(paths []string) ([]Editor, error)
}

// ReadOne implements Set.Read for a Mixed set: a file of one editor.
func ReadOne(s Mixed, path string) (Predictions, error) {
	list, err := s.ReadAll([]string{path})
	if err != nil {
		return nil, err
	}
	if len(list) != 1 {
		return nil, fmt.Errorf("%s contains %d editors: give it as --components", filepath.Base(path), len(list))
	}
	return list[0].Predictions, nil
}

// Editor is the predictions of one editor.
type Editor struct {
	Name string
	Predictions
}

// Board is predictions of several methods, which tables show in one row each.
type Board interface {
	// Leaderboard lists them; nil if there is only one.
	Leaderboard() []Entry
}

// Entry is a method of a leaderboard.
type Entry struct {
	Name   string
	Subset string // part of the benchmark
	Predictions
}

// Writer is predictions that can be written in the format of the benchmark's authors, for their programs to read.
type Writer interface {
	WriteAuthors(dir string) error
}

// Predictions is a set together with predictions for it.
type Predictions interface {
	// Result computes everything.
	Result() *Result
	// Units is the number of independent units (sources, pairs, samples) of the data.
	Units() int
	// Complete reports whether no prediction of a unit is missing.
	Complete(unit int) bool
	// Numbers computes the headline numbers over units, which may repeat (a bootstrap resample).
	Numbers(units []int) []Number
}

// Number is one number of a table, and what it depends on; NaN if undefined.
type Number struct {
	Name  string
	Value float64
	Terms
	Coverage *Coverage // if a number of a result covers other items than its N; nil: the same
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
	Agreement  []Table  // of a scorer's column with the others, and of all with human ratings
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

// Key names an item: its id, and if several items share an id, its model (method, side, candidate).
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

// Captions returns the pictures of an item with the given roles, captioned with the role; a target is captioned
// "wanted".
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

// Common holds the first fields of every JSON result.
type Common struct {
	Benchmark string   `json:"benchmark"`
	N         int      `json:"n"`
	Missing   []Key    `json:"missing"`
	Notes     []string `json:"notes,omitempty"`
}

// Common returns the first fields of every JSON result.
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

// WithLower returns a copy of the benchmark with more numbers of which less is better.
func (b *Benchmark) WithLower(lower []string) *Benchmark {
	own := *b
	own.Lower = slices.Concat(b.Lower, lower)
	return &own
}

// Direction is 1 if more of a number is better, -1 if less is, 0 if neither or not known. A number of a part or a
// kind ("l1: single turn") has the direction of its column.
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

// Teachable is a Scorable whose items have correct answers as text, on which a model can be trained.
type Teachable interface {
	Scorable
	// Answer returns the one of words that the benchmark's rule accepts as the correct answer of item i of Items.
	Answer(i int, words []string) (string, error)
}

// Measurable is a set whose components, or answers, may be measured by metrics.
type Measurable interface {
	Set
	// Outputs lists the outputs of all editors.
	Outputs() ([]*edit.Edit, error)
	// Line returns the line of a component file with the values measured for an item, by component; by names what
	// measured them.
	Line(k Key, values map[string]any, by string) map[string]any
}

// Composed is a Measurable whose numbers are computed from components, which judges may also fill.
type Composed interface {
	Measurable
	// Components returns the scales of the components: a judge's range must equal the component's. Text has none
	// ([edit.NoRange]).
	Components() map[string]edit.Range
}

// Closed is a Composed that uses no numbers other than its components.
type Closed interface {
	Composed
	Closed()
}

// Questions is a Scorable whose items are questions. A text judge's answers are stored verbatim. A scorer answers by
// whether its score is above or below the middle of its range.
type Questions interface {
	Scorable
	// AnswerOf returns the answer for a score this far above the middle; "" if there is none.
	AnswerOf(above float64) string
}

// Named is predictions whose units are lines of the predictions file rather than units of the data: names identify
// them.
type Named interface {
	// UnitNames returns the names of the units; units that share a name cannot be paired.
	UnitNames() []string
}

// Expecting is a Set that computes the expected numbers of random guessing, by name. For a Guessable Set, many
// guesses are averaged instead.
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
		for _, n := range j.Numbers(stats.UpTo(j.Units())) {
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

// ComponentLine returns a line of a component file, whose field with this name is the sample's id. "by" states what
// measured the numbers computed from the values; numbers lists their names by component.
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
