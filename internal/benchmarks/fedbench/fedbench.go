// Package fedbench implements FED-Bench, facial expression editing. From the components of each sample it computes the
// three gains and FED-Score (read.go, fedbench.go) and tables by expression and kind (tables.go), and compares metrics
// with human votes (votes.go). ensembles.go searches ensembles of recognition models, with which its ground truth was
// checked.
package fedbench

import (
	_ "embed"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// fedSize is how many triplets the benchmark has.
const fedSize = 747

var (
	//go:embed benchmarks.txt
	benchmarksText string
	//go:embed published.csv
	publishedCSV string
)

// family holds the description and published numbers of the benchmark.
var family = protocol.Family{Benchmarks: benchmarksText, Published: publishedCSV}

// Benchmark is FED-Bench.
var Benchmark = func() *protocol.Benchmark {
	b := family.Benchmark("fed-bench", loadFED)
	b.Axes = []protocol.Axis{{Number: "id", From: 0, To: 1}, {Number: "bg", From: 0, To: 1},
		{Number: "pq", From: 0, To: 10}, {Number: "sc", From: 0, To: 10}, {Number: "gta", From: 0, To: 10},
		{Number: "s_reg", From: 0, To: 1}}
	return b
}()

// fedColumns are the values of a sample, given and computed, in the order of tables.
var fedColumns = []string{"id", "bg_rmse", "bg", "pq", "sc", "gta", "reg", "s_fid", "s_align", "s_reg", "fed_score",
	"without_rule", "without_reg", "without_fidelity", "without_alignment", "without_model"}

// fed holds FED-Score's settings, and the triplets if they are given.
type fed struct {
	normName string
	norm     func(rmse float64) float64
	sigma    float64
	votes    string
	lower    []string
	editors  []string          // folders of the editors' pictures
	by       map[string]string // what measured a component, if the files do not state it
	human    string            // file of human ratings
	triplets []fedTriplet
	index    map[string]int // of the triplets, by name
}

func loadFED(o protocol.Options) (protocol.Set, error) {
	norm, err := parseNorm(o.BGNorm)
	if err != nil {
		return nil, err
	}
	if !(o.Sigma > 0) {
		return nil, fmt.Errorf("sigma is %v: want a positive number", o.Sigma)
	}
	s := &fed{
		normName: o.BGNorm,
		norm:     norm,
		sigma:    o.Sigma,
		votes:    o.Votes,
		lower:    o.Lower,
		editors:  o.Editors,
		by:       o.By,
		human:    o.Human,
		index:    map[string]int{},
	}
	err = errors.Join(protocol.DifferentEditors(o.Editors), protocol.CheckNames("--by", slices.Sorted(maps.Keys(o.By)),
		fedComponents))
	if err != nil {
		return nil, err
	}
	if o.Data != "" {
		err = s.readTriplets(o.Data, o.Images)
	}
	return s, err
}

// parseNorm reads the name of a normalisation of background differences (RMSE of 8-bit values, 0..255) to 0..1.
func parseNorm(name string) (func(float64) float64, error) {
	kind, text, _ := strings.Cut(name, ":")
	k, err := strconv.ParseFloat(text, 64)
	if err == nil && k > 0 {
		switch kind {
		case "linear":
			return func(v float64) float64 { return min(1, max(0, 1-v/k)) }, nil
		case "exp":
			return func(v float64) float64 { return math.Exp(-v / k) }, nil
		case "inverse":
			return func(v float64) float64 { return 1 / (1 + v/k) }, nil
		}
	}
	return nil, fmt.Errorf("background normalisation %q: want linear:K, exp:K or inverse:K with a positive K",
		name)
}

// fedSample is one sample with all its numeric values.
type fedSample struct {
	key    protocol.Key
	tags   map[string]string // method, expression, instructions
	values map[string]float64
	where  string
	lacks  []string // components that no file has; the sample counts where it can
	err    error    // it cannot be computed

	unnamed bool // named by its position in the file
}

// fedPart is a method's output for a sample with one kind of instructions.
type fedPart struct{ sample, method, kind string }

func (p fedPart) key() protocol.Key {
	return protocol.Key{ID: p.sample, Model: strings.TrimSuffix(p.method+"/"+p.kind, "/")}
}

// fedPredictions holds samples and the pairs that humans compared.
type fedPredictions struct {
	*fed
	samples []fedSample
	missing []fedPart // triplets of the data without a line
	votes   []fedVote
	undone  int               // pairs without a majority
	by      map[string]string // component: what measured it
	columns map[string][]float64
	sources *protocol.Sources // see bySource
	kinds   string            // of the samples' instructions, see subset
	items   string            // digest of them, see nameItems
	run     protocol.OneRun   // that scored them
	part    bool              // of a leaderboard: only its numbers are shown
	unnamed bool              // lines name no samples
}

var fedTags = []string{"method", "expression", "instructions"}

// compute adds the values computed from the components (equations 3 to 8 of the paper); NaN if one is missing.
func (s *fed) compute(v map[string]float64) error {
	for c := range fedNames {
		if _, ok := v[c]; !ok {
			v[c] = math.NaN()
		}
	}
	if v["lpips_src_gt"] <= 0 {
		return errors.New("the LPIPS distance of source and ground truth is not positive: the relative expression gain is " +
			"undefined")
	}
	v["bg"] = s.norm(v["bg_rmse"])
	v["s_fid"] = (v["id"] + v["bg"] + v["pq"]/10) / 3
	v["s_align"] = (v["sc"] + v["gta"]) / 20
	v["reg"] = v["lpips_src_trg"] / v["lpips_src_gt"]
	d := v["reg"] - 1
	v["s_reg"] = math.Exp(-d * d / (2 * s.sigma * s.sigma))
	v["fed_score"] = v["s_fid"] * v["s_align"] * v["s_reg"]
	v["without_reg"] = v["s_fid"] * v["s_align"]
	v["without_fidelity"] = v["s_align"] * v["s_reg"]
	v["without_alignment"] = v["s_fid"] * v["s_reg"]
	v["without_rule"] = v["pq"] / 10 * v["s_align"]
	v["without_model"] = (v["id"] + v["bg"]) / 2 * v["s_reg"]
	return nil
}

// bySource returns the samples of each source. Without triplets, samples of one name have one source. It is cached, as
// a bootstrap calls it often.
func (j *fedPredictions) bySource() *protocol.Sources {
	if j.sources != nil {
		return j.sources
	}
	j.sources = &protocol.Sources{}
	for i, s := range j.samples {
		j.sources.Add(j.sourceOf(s), i)
	}
	return j.sources
}

// sourceOf names the source of a sample.
func (j *fedPredictions) sourceOf(s fedSample) string {
	if t, ok := j.index[s.key.ID]; ok && j.triplets[t].from != "" {
		return "source\n" + j.triplets[t].from
	}
	return "sample\n" + s.key.ID
}

// Units implements protocol.Predictions.
func (j *fedPredictions) Units() int { return len(j.bySource().Samples) }

// Complete implements protocol.Predictions.
func (j *fedPredictions) Complete(unit int) bool {
	return !slices.ContainsFunc(j.bySource().Samples[unit], func(i int) bool {
		return len(j.samples[i].lacks) > 0 || j.samples[i].err != nil
	})
}

// UnitNames implements Named: all samples of a source, so that only equal sets of samples are paired.
func (j *fedPredictions) UnitNames() []string {
	samples := j.sampleNames()
	var out []string
	for _, of := range j.bySource().Samples {
		var names []string
		for _, i := range of {
			names = append(names, samples[i])
		}
		slices.Sort(names)
		out = append(out, strings.Join(names, "\n\n"))
	}
	return out
}

// sampleNames returns a name of every sample: with its kind of instructions, and the method if there are several.
func (j *fedPredictions) sampleNames() []string {
	methods := map[string]bool{}
	for _, s := range j.samples {
		methods[s.key.Model] = true
	}
	names := make([]string, len(j.samples))
	for i, s := range j.samples {
		if names[i] = s.key.ID + "\n" + s.tags["instructions"]; len(methods) > 1 {
			names[i] += "\n" + s.key.Model
		}
	}
	return names
}

// mean of a column over samples without an error.
func (j *fedPredictions) mean(samples []int, column string) float64 {
	values := j.column(column)
	sum, n := 0.0, 0
	for _, i := range samples {
		if v := values[i]; v == v {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

// column returns a value of every sample, NaN if it is missing or the sample has an error. It is cached, as a bootstrap
// calls it often.
func (j *fedPredictions) column(name string) []float64 {
	if list, ok := j.columns[name]; ok {
		return list
	}
	list := make([]float64, len(j.samples))
	for i, s := range j.samples {
		v, ok := s.values[name]
		if !ok || s.err != nil {
			v = math.NaN()
		}
		list[i] = v
	}
	if j.columns == nil {
		j.columns = map[string][]float64{}
	}
	j.columns[name] = list
	return list
}

// Numbers implements protocol.Predictions.
func (j *fedPredictions) Numbers(units []int) []protocol.Number {
	return j.numbers(j.bySource().Of(units))
}

func (j *fedPredictions) numbers(samples []int) []protocol.Number {
	var out []protocol.Number
	for _, c := range fedColumns {
		out = append(out, protocol.Number{Name: c, Value: j.mean(samples, c), Terms: j.terms(c)})
	}
	return out
}

// fedParts are the components that a number is computed from.
var fedParts = map[string][]string{"id": {"id"}, "bg_rmse": {"bg_rmse"}, "bg": {"bg_rmse"}, "pq": {"pq"}, "sc": {"sc"},
	"gta": {"gta"}, "reg": {"reg"}, "s_reg": {"reg"}, "s_fid": {"id", "bg_rmse", "pq"}, "s_align": {"sc", "gta"},
	"fed_score": {"id", "bg_rmse", "pq", "sc", "gta", "reg"}, "without_rule": {"pq", "sc", "gta"},
	"without_reg": {"id", "bg_rmse", "pq", "sc", "gta"}, "without_fidelity": {"sc", "gta", "reg"},
	"without_alignment": {"id", "bg_rmse", "pq", "reg"}, "without_model": {"id", "bg_rmse", "reg"}}

// terms returns what a number depends on: its judges, the part of the instructions, and the normalisation.
func (j *fedPredictions) terms(number string) protocol.Terms {
	t := protocol.Terms{Judge: protocol.Judges(j.by, fedParts[number]), Subset: j.subset()}
	if parts := fedParts[number]; len(parts) > 1 && slices.Contains(parts, "bg_rmse") || number == "bg" {
		t.Normalisation = j.normName
	}
	if slices.Contains(fedParts[number], "reg") && number != "reg" && j.sigma != 0.5 {
		t.Normalisation = strings.TrimPrefix(fmt.Sprintf("%s, sigma %v", t.Normalisation, j.sigma), ", ")
	}
	return t
}

// subset returns the kind of the samples' instructions, dense or simple, or their mixture.
func (j *fedPredictions) subset() string {
	if j.kinds == "" {
		kinds := map[string]bool{}
		for _, s := range j.samples {
			kinds[s.tags["instructions"]] = true
		}
		if kinds[""] && len(kinds) > 1 { // some lines do not state it
			delete(kinds, "")
			kinds["not stated"] = true
		}
		j.kinds = strings.Join(slices.Sorted(maps.Keys(kinds)), " and ")
	}
	return j.kinds
}

type fedSampleJSON struct {
	protocol.Key
	Instructions string                    `json:"instructions,omitempty"`
	Expression   string                    `json:"expression,omitempty"`
	Error        string                    `json:"error,omitempty"`
	Values       map[string]protocol.Value `json:"values,omitempty"`
}

type fedErrorJSON struct {
	protocol.Key
	Line  string `json:"line"`
	Error string `json:"error"`
}

// fedJSON is the JSON result of FED-Bench.
type fedJSON struct {
	protocol.Common
	BGNorm          string                               `json:"bg_norm"`
	Sigma           float64                              `json:"sigma"`
	FEDScore        protocol.Value                       `json:"fed_score"`
	Means           map[string]protocol.Value            `json:"means"`
	Ablations       map[string]protocol.Value            `json:"ablations"`
	PerExpression   map[string]map[string]protocol.Value `json:"per_expression"`
	PerInstructions map[string]map[string]protocol.Value `json:"per_instructions"`
	PerMethod       map[string]map[string]protocol.Value `json:"per_method"`
	Votes           map[string]fedVotesJSON              `json:"two_afc,omitempty"`
	Errors          []fedErrorJSON                       `json:"errors"`
	Samples         []fedSampleJSON                      `json:"samples"`
}

// gather fills in the result of every sample, and returns the samples without an error.
func (j *fedPredictions) gather(r *protocol.Result, out *fedJSON) (samples []int) {
	for i, s := range j.samples {
		sample := fedSampleJSON{Key: s.key, Instructions: s.tags["instructions"], Expression: s.tags["expression"]}
		if len(s.lacks) > 0 {
			r.Missing = append(r.Missing, s.key)
		}
		if s.err != nil {
			sample.Error = s.err.Error()
			r.Failed = append(r.Failed, fmt.Sprintf("%s: sample %v: %v", s.where, s.key, s.err))
			out.Errors = append(out.Errors, fedErrorJSON{s.key, s.where, sample.Error})
		} else {
			sample.Values = protocol.Values(s.values)
			samples = append(samples, i)
			if len(s.lacks) == 0 {
				r.N++
			}
		}
		out.Samples = append(out.Samples, sample)
	}
	for _, m := range j.missing {
		r.Missing = append(r.Missing, m.key())
	}
	return samples
}

func (j *fedPredictions) Result() *protocol.Result {
	r := &protocol.Result{Notes: []string{"the paper's normalisation of the background is not public: this is " +
		j.normName}}
	if j.unnamed {
		r.Notes = append(r.Notes, "lines without \"sample\" are named and compared by their positions in the file")
	}
	out := fedJSON{
		BGNorm:    j.normName,
		Sigma:     j.sigma,
		Means:     map[string]protocol.Value{},
		Ablations: map[string]protocol.Value{},
		Errors:    []fedErrorJSON{},
	}
	samples := j.gather(r, &out)
	r.Numbers = j.numbers(samples)
	for k := range r.Numbers {
		r.Numbers[k].Coverage = j.coverage(r.Numbers[k].Name)
	}
	out.Common = r.Common("fed-bench")
	for _, n := range r.Numbers {
		out.Means[n.Name] = protocol.Value(n.Value)
		if strings.HasPrefix(n.Name, "without_") {
			out.Ablations[n.Name] = protocol.Value(n.Value)
		}
	}
	out.FEDScore = out.Means["fed_score"]
	if j.part {
		r.JSON = out
		return r
	}
	for k, per := range []*map[string]map[string]protocol.Value{&out.PerMethod, &out.PerExpression,
		&out.PerInstructions} {
		var t protocol.Table
		*per, t = j.perTag(fedTags[k], samples)
		if len(t.Rows) > 0 {
			r.Tables = append(r.Tables, t)
		}
	}
	r.Tables = slices.Concat(r.Tables, j.byExpression(), j.asPrinted())
	r.Examples = j.disagreements()
	var err error
	if r.Agreement, err = j.scorerAgreement(); err != nil {
		r.Failed = append(r.Failed, err.Error())
	}
	if j.fed.votes != "" {
		var t protocol.Table
		out.Votes, t = j.agreement()
		r.Tables = append(r.Tables, t)
		if j.undone > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d pairs have no majority and are left out", j.undone))
		}
	}
	r.JSON = out
	return r
}

// Outputs implements Measurable.
func (s *fed) Outputs() ([]*edit.Edit, error) { return s.Items() }

// Line implements Measurable.
func (s *fed) Line(k protocol.Key, values map[string]any, by string) map[string]any {
	numbers := map[string][]string{"score": {"score"}}
	for component := range fedNames {
		numbers[component] = []string{component}
	}
	return protocol.ComponentLine("sample", k, values, by, numbers)
}

// Components implements Composed.
func (s *fed) Components() map[string]edit.Range {
	scales := map[string]edit.Range{}
	for c, b := range fedBounds {
		scales[c] = edit.Range{b.Low, b.High}
	}
	return scales
}

// disagreements returns the samples on which a scorer and FED-Score disagree most, and least, with their pictures if
// the editors' folders are known.
func (j *fedPredictions) disagreements() []protocol.Example {
	items, err := j.Items()
	if err != nil {
		items = nil // the report has no pictures then
	}
	keys := make([]protocol.Key, len(j.samples))
	for i, s := range j.samples {
		keys[i] = fedPart{s.key.ID, s.key.Model, s.tags["instructions"]}.key()
	}
	return protocol.Disagreements("fed_score", keys, j.column("score"), j.column("fed_score"), items)
}
