package labeling

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"assay/heuristics"
)

// Report tells what Merge did; report.json. It holds no times and no paths outside the data, so that two runs give the
// same bytes.
type Report struct {
	Profile string               `json:"profile"` // name/version, and what the configuration changed
	ClipD   heuristics.Direction `json:"clip_d"`  // the definition
	Table   string               `json:"table"`

	Rows       int `json:"rows"`       // measured
	TableRows  int `json:"table_rows"` // in the table
	Labelled   int `json:"labelled"`
	Unlabelled int `json:"unlabelled"` // no rule applies
	Duplicates int `json:"duplicates"` // the same edit of the same source and instruction again
	Scenes     int `json:"scenes"`     // sets of rows that share no source picture and no session
	// Rows of the largest scene, and pictures that have so many like them that only the nearest ones were compared.
	LargestScene int     `json:"largest_scene"`
	Crowded      int     `json:"crowded"`
	Bad          int     `json:"bad"` // could not be used
	MaxBad       float64 `json:"max_bad"`
	Preferences  int     `json:"preferences"`

	Thresholds Thresholds `json:"thresholds"`

	// Rows by what they have.
	Rules    map[string]int            `json:"rules"`
	Labels   map[string]int            `json:"labels"`
	Editors  map[string]map[string]int `json:"editors"` // editor -> label -> rows; label "none": unlabelled
	Datasets map[string]int            `json:"datasets"`
	Splits   map[string]int            `json:"splits"`

	Guard      GuardReport    `json:"guard"`
	Histograms []*Histogram   `json:"histograms"`
	Skipped    map[string]int `json:"skipped"` // kind -> how many; all are in skipped.jsonl
	Examples   []SkippedRow   `json:"skipped_examples"`
	Warnings   []string       `json:"warnings"`
	Samples    Account        `json:"samples"`    // what became of the data's samples, by their best row
	Candidates Account        `json:"candidates"` // and of the rows that were to be made of them
}

// Thresholds are the numbers that edits were compared with; null: none.
type Thresholds struct {
	FailedClipD  float64  `json:"failed_clip_d"`
	PartialClipD float64  `json:"partial_clip_d"`
	ClipI        *float64 `json:"clip_i"`
	DinoI        *float64 `json:"dino_i"`
	Join         string   `json:"join"`
}

// GuardReport tells what the leakage guard did.
type GuardReport struct {
	Pictures   int      `json:"pictures"` // of benchmarks
	Rows       int      `json:"rows"`     // left out
	Unreadable []string `json:"unreadable"`
}

func (g *GuardReport) unreadable(name string, err error) {
	g.Unreadable = append(g.Unreadable, name+": "+err.Error())
}

// SkippedRow is something that did not come into the table.
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

// similarities are what histograms and examples show of rows.
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

// RuleNames lists the rules that decided about rows, sorted; "none" where none did.
func (r *Report) RuleNames() []string { return slices.Sorted(maps.Keys(r.Rules)) }

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}
