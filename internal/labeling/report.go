package labeling

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/heuristics"
)

// Report describes what Merge did; it is report.json. It holds no times and no paths outside the data, so that two
// runs produce the same bytes.
type Report struct {
	Profile string               `json:"profile"` // name/version, and what the configuration changed
	ClipD   heuristics.Direction `json:"clip_d"`  // its definition
	Table   string               `json:"table"`

	Rows       int `json:"rows"`       // measured
	TableRows  int `json:"table_rows"` // in the table
	Labelled   int `json:"labelled"`
	Unlabelled int `json:"unlabelled"` // no rule applies
	Duplicates int `json:"duplicates"` // repeats of an edit with the same source and instruction
	Scenes     int `json:"scenes"`     // sets of rows that share no source picture and no session
	// LargestScene is the number of rows of the largest scene. Crowded counts pictures with so many similar ones that
	// only the nearest were compared.
	LargestScene int     `json:"largest_scene"`
	Crowded      int     `json:"crowded"`
	Bad          int     `json:"bad"` // unusable
	MaxBad       float64 `json:"max_bad"`
	Preferences  int     `json:"preferences"`

	Thresholds Thresholds `json:"thresholds"`

	// Counts of rows by rule, label, ...
	Rules    map[string]int            `json:"rules"`
	Labels   map[string]int            `json:"labels"`
	Editors  map[string]map[string]int `json:"editors"` // editor -> label -> rows; label "none": unlabelled
	Datasets map[string]int            `json:"datasets"`
	Splits   map[string]int            `json:"splits"`

	Guard      GuardReport    `json:"guard"`
	Histograms []*Histogram   `json:"histograms"`
	Skipped    map[string]int `json:"skipped"` // kind -> count; skipped.jsonl lists them
	Examples   []SkippedRow   `json:"skipped_examples"`
	Warnings   []string       `json:"warnings"`
	Samples    Account        `json:"samples"`    // what became of the samples, by their best row
	Candidates Account        `json:"candidates"` // and of the rows built from them
}

// Thresholds are the values that edits were compared with; null: none.
type Thresholds struct {
	FailedClipD  float64  `json:"failed_clip_d"`
	PartialClipD float64  `json:"partial_clip_d"`
	ClipI        *float64 `json:"clip_i"`
	DinoI        *float64 `json:"dino_i"`
	Join         string   `json:"join"`
}

// GuardReport describes what the leakage guard did.
type GuardReport struct {
	Pictures   int      `json:"pictures"` // benchmark pictures
	Rows       int      `json:"rows"`     // rows left out
	Unreadable []string `json:"unreadable"`
}

func (g *GuardReport) unreadable(name string, err error) {
	g.Unreadable = append(g.Unreadable, name+": "+err.Error())
}

// SkippedRow is a row or sample that is not in the table.
type SkippedRow struct {
	Kind   string `json:"kind"`
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// Histogram counts a similarity of outputs, and of the sources shown as results. Bin i is [-1 + 0.02 i, -1 + 0.02
// (i+1)).
type Histogram struct {
	Similarity string        `json:"similarity"`
	Outputs    [histBins]int `json:"outputs"`
	Sources    [histBins]int `json:"sources"`
	marks      []float64     // thresholds
}

// similarities are the similarities that histograms and examples show.
var similarities = []struct {
	name string
	of   func(*row) heuristics.Similarity
}{
	{"CLIP-D", func(r *row) heuristics.Similarity { return r.ClipD }},
	{"CLIP-I", func(r *row) heuristics.Similarity { return r.ClipI }},
	{"DINO-I", func(r *row) heuristics.Similarity { return r.DinoI }},
}

const (
	histBins  = 100
	histWidth = 2. / histBins
)

func (h *Histogram) count(r *row, s heuristics.Similarity) {
	x, ok := s.Value()
	if !ok || r.Chain != "" || r.Kind == heuristics.Target || r.Kind == heuristics.Foreign {
		return
	}
	bin := min(max(int(math.Floor((x+1)/histWidth)), 0), histBins-1)
	if r.Kind == heuristics.Source {
		h.Sources[bin]++
	} else {
		h.Outputs[bin]++
	}
}

// example is a row that the page shows.
type example struct {
	order uint64
	row   *row
	label *float64
}

const (
	examplesPerRule = 4
	skippedExamples = 100
)

// RuleNames lists the rules that decided about rows, sorted; "none" stands for rows without a rule.
func (r *Report) RuleNames() []string { return slices.Sorted(maps.Keys(r.Rules)) }

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}
