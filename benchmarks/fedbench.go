package benchmarks

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"assay/internal/stats"
)

var fedBench = &Benchmark{
	Name:  "fed-bench",
	Title: "FED-Bench, facial expression editing: 747 triplets, FED-Score",
	Needs: []string{
		"--components: JSON lines of each sample's components",
		"--votes: JSON lines of {a, b, votes: [\"a\", \"b\", ...]}, pairs of samples with their annotators' choices, for " +
			"the 2AFC accuracy of every metric",
	},
	Published: "the authors of FED-Bench (arXiv 2603.29697): announced",
	Predicts: `{"sample": "s1", "id": 0.6, "bg_rmse": 12.5, "pq": 9, "sc": 8, "gta": 6, "lpips_src_trg": 0.12, ` +
		`"lpips_src_gt": 0.1}, ` +
		`id being the cosine of the identities; optionally "method", "expression", "instructions", and other metrics`,
	Rules: []string{
		"s_fid = mean(id, BG, pq/10), s_align = mean(sc, gta)/10, reg = lpips_src_trg / lpips_src_gt, s_reg = " +
			"exp(-(reg-1)^2 / (2 sigma^2))",
		"fed_score = s_fid x s_align x s_reg, per sample; the mean over samples is reported",
		"BG = Norm(bg_rmse): the paper's Norm is not public; --bg-norm linear:255 (1 - rmse/255, from 0 to 1), exp:K " +
			"(e^(-rmse/K)) or inverse:K (1/(1 + rmse/K))",
		"without rule: pq/10 x s_align; without model: mean(id, BG) x s_reg; without fidelity, alignment or reg: the " +
			"product of the other two",
		"2AFC: share of pairs where the better value of a metric is the majority's choice; equal values are wrong",
	},
	Flags: []string{"components", "votes", "bg-norm", "sigma", "lower"},
	Load:  loadFED,
}

// fedColumns are the values of a sample, given and computed, in the order of tables.
var fedColumns = []string{"id", "bg_rmse", "bg", "pq", "sc", "gta", "reg", "s_fid", "s_align", "s_reg", "fed_score",
	"without_rule", "without_reg", "without_fidelity", "without_alignment", "without_model"}

// fed is FED-Score's settings: the data are all in the components.
type fed struct {
	normName string
	norm     func(rmse float64) float64
	sigma    float64
	votes    string
	lower    []string
}

func loadFED(o Options) (Set, error) {
	norm, err := parseNorm(o.BGNorm)
	if err != nil {
		return nil, err
	}
	if !(o.Sigma > 0) {
		return nil, fmt.Errorf("sigma is %v: a positive number was expected", o.Sigma)
	}
	return &fed{o.BGNorm, norm, o.Sigma, o.Votes, o.Lower}, nil
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
	return nil, fmt.Errorf("background normalisation %q: linear:K, exp:K or inverse:K with a positive K was expected",
		name)
}

// fedSample is one sample with all its numeric values.
type fedSample struct {
	key    Key
	tags   map[string]string // method, expression, instructions
	values map[string]float64
	where  string
	err    error
}

// fedPredictions are samples and the pairs that people compared.
type fedPredictions struct {
	*fed
	samples []fedSample
	votes   []fedVote
	undone  int // pairs without a majority
}

var fedTags = []string{"method", "expression", "instructions"}

// Read implements Set.
func (s *fed) Read(path string) (Predictions, error) {
	rows, err := readRows(path)
	if err != nil {
		return nil, err
	}
	j := &fedPredictions{fed: s}
	var p problems
	seen := map[string]string{}
	for n, r := range rows {
		sample, err := s.readSample(r, n)
		if err != nil {
			p.add(r.where, "%v", err)
			continue
		}
		name := fmt.Sprint(sample.key, sample.tags["instructions"])
		if first, ok := seen[name]; ok {
			p.add(r.where, "a second line for %v (the first is in %s)", sample.key, first)
			continue
		}
		seen[name] = r.where
		j.samples = append(j.samples, sample)
	}
	if err := p.err(); err != nil {
		return nil, err
	}
	if s.votes != "" {
		err = j.readVotes(s.votes)
	}
	return j, err
}

// fedNames are the other names that a component may have.
var fedNames = map[string][]string{
	"id":            {"identity", "ID", "arcface", "id"},
	"bg_rmse":       {"bg_rmse", "bg", "BG"},
	"pq":            {"pq", "PQ"},
	"sc":            {"sc", "SC"},
	"gta":           {"gta", "GTA"},
	"lpips_src_trg": {"lpips_src_trg", "lpips_trg", "lpips_edit"},
	"lpips_src_gt":  {"lpips_src_gt", "lpips_gt"},
}

// fedBounds are the scales of the components: a cosine, a difference of 8-bit values, a judge's 0 to 10, distances.
var fedBounds = map[string]bounds{"id": {-1, 1}, "bg_rmse": {0, 255}, "pq": {0, 10}, "sc": {0, 10}, "gta": {0, 10},
	"lpips_src_trg": {0, math.Inf(1)}, "lpips_src_gt": {0, math.Inf(1)}}

// readSample reads a line. "id" is the sample's name if it is text or if the identity has a name of its own.
func (s *fed) readSample(r row, n int) (fedSample, error) {
	out := fedSample{tags: map[string]string{}, values: map[string]float64{}, where: r.where}
	identity := r.first(fedNames["id"]...)
	name := r.first("sample", "key", "name", "image")
	if !r.has(name) && r.has("id") && (identity != "id" || r.fields["id"][0] == '"') {
		name = "id"
	}
	if r.has(name) {
		id, err := r.id(name)
		if err != nil {
			return out, err
		}
		out.key.ID = id
	} else {
		out.key.ID = strconv.Itoa(n)
	}
	for _, tag := range fedTags {
		if r.has(tag) {
			text, err := r.text(tag)
			if err != nil {
				return out, err
			}
			out.tags[tag] = text
		}
	}
	out.key.Model = out.tags["method"]
	known := map[string]bool{name: true}
	for component, names := range fedNames {
		field := r.first(names...)
		if !r.has(field) || field == name {
			return out, fmt.Errorf("there is no %q", component)
		}
		v, err := r.number(field)
		if err != nil {
			return out, err
		}
		if err := fedBounds[component].check(component, v); err != nil {
			return out, err
		}
		out.values[component], known[field] = v, true
	}
	for field, raw := range r.fields { // other metrics, for the comparison with votes
		if v, err := parseNumber(field, raw); err == nil && !known[field] && !math.IsNaN(v) {
			out.values[field] = v
		}
	}
	out.err = s.compute(out.values)
	return out, nil
}

// compute adds what follows from the components (equations 3 to 8 of the paper).
func (s *fed) compute(v map[string]float64) error {
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

func (j *fedPredictions) Units() int             { return len(j.samples) }
func (j *fedPredictions) Complete(unit int) bool { return j.samples[unit].err == nil }

// mean of a column over units without an error.
func (j *fedPredictions) mean(units []int, column string) float64 {
	var list []float64
	for _, i := range units {
		if s := j.samples[i]; s.err == nil {
			list = append(list, s.values[column])
		}
	}
	return stats.Mean(list)
}

func (j *fedPredictions) Numbers(units []int) []Number {
	var out []Number
	for _, c := range fedColumns {
		out = append(out, Number{Name: c, Value: j.mean(units, c)})
	}
	return out
}

type fedSampleJSON struct {
	Key
	Instructions string           `json:"instructions,omitempty"`
	Expression   string           `json:"expression,omitempty"`
	Error        string           `json:"error,omitempty"`
	Values       map[string]Value `json:"values,omitempty"`
}

type fedErrorJSON struct {
	Key
	Line  string `json:"line"`
	Error string `json:"error"`
}

// fedJSON is the JSON result of FED-Bench.
type fedJSON struct {
	Common
	BGNorm          string                      `json:"bg_norm"`
	Sigma           float64                     `json:"sigma"`
	FEDScore        Value                       `json:"fed_score"`
	Means           map[string]Value            `json:"means"`
	Ablations       map[string]Value            `json:"ablations"`
	PerExpression   map[string]map[string]Value `json:"per_expression"`
	PerInstructions map[string]map[string]Value `json:"per_instructions"`
	PerMethod       map[string]map[string]Value `json:"per_method"`
	Votes           map[string]fedVotesJSON     `json:"two_afc,omitempty"`
	Errors          []fedErrorJSON              `json:"errors"`
	Samples         []fedSampleJSON             `json:"samples"`
}

func (j *fedPredictions) Result() *Result {
	r := &Result{Notes: []string{"the paper's normalisation of the background is not public: this is " + j.normName}}
	out := fedJSON{
		BGNorm:    j.normName,
		Sigma:     j.sigma,
		Means:     map[string]Value{},
		Ablations: map[string]Value{},
		Errors:    []fedErrorJSON{},
	}
	var units []int
	for i, s := range j.samples {
		sample := fedSampleJSON{Key: s.key, Instructions: s.tags["instructions"], Expression: s.tags["expression"]}
		if s.err != nil {
			sample.Error = s.err.Error()
			r.Failed = append(r.Failed, fmt.Sprintf("%s: sample %v: %v", s.where, s.key, s.err))
			out.Errors = append(out.Errors, fedErrorJSON{s.key, s.where, sample.Error})
		} else {
			sample.Values = values(s.values)
			units = append(units, i)
		}
		out.Samples = append(out.Samples, sample)
	}
	r.N, r.Numbers = len(units), j.Numbers(units)
	out.Common = r.common("fed-bench")
	for _, n := range r.Numbers {
		out.Means[n.Name] = Value(n.Value)
		if strings.HasPrefix(n.Name, "without_") {
			out.Ablations[n.Name] = Value(n.Value)
		}
	}
	out.FEDScore = out.Means["fed_score"]
	for k, per := range []*map[string]map[string]Value{&out.PerMethod, &out.PerExpression, &out.PerInstructions} {
		var t Table
		*per, t = j.by(fedTags[k], units)
		if len(t.Rows) > 0 {
			r.Tables = append(r.Tables, t)
		}
	}
	if j.fed.votes != "" {
		var t Table
		out.Votes, t = j.agreement()
		r.Tables = append(r.Tables, t)
		if j.undone > 0 {
			r.Notes = append(r.Notes, fmt.Sprintf("%d pairs have no majority and are left out", j.undone))
		}
	}
	r.JSON = out
	return r
}

// by computes the means for each value of a tag.
func (j *fedPredictions) by(tag string, units []int) (map[string]map[string]Value, Table) {
	groups := map[string][]int{}
	for _, i := range units {
		if v, ok := j.samples[i].tags[tag]; ok {
			groups[v] = append(groups[v], i)
		}
	}
	out := map[string]map[string]Value{}
	t := Table{Title: "per " + tag, Columns: slices.Concat([]string{"n"}, fedColumns[:11])}
	for _, name := range sortedNames(groups) {
		out[name] = map[string]Value{"n": Value(len(groups[name]))}
		line := TableRow{Name: name, Cells: []float64{0}, Text: []string{strconv.Itoa(len(groups[name]))}}
		for k, n := range j.Numbers(groups[name]) {
			out[name][n.Name] = Value(n.Value)
			if k < 11 {
				line.Cells = append(line.Cells, n.Value)
			}
		}
		t.Rows = append(t.Rows, line)
	}
	return out, t
}
