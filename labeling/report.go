package labeling

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"assay/heuristics"
)

// Report tells what Merge did; report.json. It holds no times and no paths outside the data, so that two runs give the
// same bytes.
type Report struct {
	Profile    string               `json:"profile"` // name/version, and what the configuration changed
	ClipD      heuristics.Direction `json:"clip_d"`  // the definition
	Table      string               `json:"table"`
	Rows       int                  `json:"rows"`       // that were measured
	TableRows  int                  `json:"table_rows"` // that are in the table
	Labelled   int                  `json:"labelled"`
	Unlabelled int                  `json:"unlabelled"` // no rule applies
	Duplicates int                  `json:"duplicates"` // the same edit of the same source and instruction again
	Scenes     int                  `json:"scenes"`     // sets of rows that share no source picture and no session
	// Rows of the largest scene, and pictures that have so many like them that only the nearest ones were compared.
	LargestScene int                       `json:"largest_scene"`
	Crowded      int                       `json:"crowded"`
	Bad          int                       `json:"bad"` // could not be used
	MaxBad       float64                   `json:"max_bad"`
	Preferences  int                       `json:"preferences"`
	Thresholds   Thresholds                `json:"thresholds"`
	Rules        map[string]int            `json:"rules"`   // rule -> rows
	Labels       map[string]int            `json:"labels"`  // label -> rows
	Editors      map[string]map[string]int `json:"editors"` // editor -> label -> rows; label "none": unlabelled
	Datasets     map[string]int            `json:"datasets"`
	Splits       map[string]int            `json:"splits"`
	Guard        GuardReport               `json:"guard"`
	Histograms   []*Histogram              `json:"histograms"`
	Skipped      map[string]int            `json:"skipped"` // kind -> how many; all are in skipped.jsonl
	Examples     []SkippedRow              `json:"skipped_examples"`
	Warnings     []string                  `json:"warnings"`
	Samples      Account                   `json:"samples"`    // what became of the data's samples, by their best row
	Candidates   Account                   `json:"candidates"` // and of the rows that were to be made of them

	config            *Config
	unmeasured        int     // outputs of prompt-guided editors whose CLIP-D nobody knows
	validation        float64 // share that was asked for
	unlabelledDropped bool
	shown             map[string][]example // rule -> examples
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
	of         func(*row) heuristics.Similarity
}

const (
	histBins  = 100
	histWidth = 2. / histBins
)

func (h *Histogram) count(r *row) {
	x, ok := h.of(r).Value()
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
	order    uint64
	id       string
	row      *row
	decision heuristics.Decision
	labelled bool
	dataset  string
}

const (
	examplesPerRule = 4
	skippedExamples = 100
)

func newReport(j *Job) *Report {
	return &Report{
		Profile:           j.Config.profileName(),
		ClipD:             j.Config.Encoders.ClipD,
		config:            j.Config,
		Candidates:        newAccount(),
		Table:             TableFile,
		MaxBad:            j.Config.MaxBad,
		Rules:             map[string]int{},
		Labels:            map[string]int{},
		Editors:           map[string]map[string]int{},
		Datasets:          map[string]int{},
		Splits:            map[string]int{},
		Skipped:           map[string]int{},
		validation:        j.Config.Split.Validation,
		unlabelledDropped: j.Config.Unlabelled == "drop",
		shown:             map[string][]example{},
		Histograms: []*Histogram{
			{Similarity: "CLIP-D", of: func(r *row) heuristics.Similarity { return r.ClipD }},
			{Similarity: "CLIP-I", of: func(r *row) heuristics.Similarity { return r.ClipI }},
			{Similarity: "DINO-I", of: func(r *row) heuristics.Similarity { return r.DinoI }},
		},
	}
}

func (r *Report) skip(kind, reason, id string) {
	r.Skipped[kind]++
	if len(r.Examples) < skippedExamples {
		r.Examples = append(r.Examples, SkippedRow{kind, id, reason})
	}
}

// unlabelled is what the report calls the rule and the label of rows without.
const unlabelled = "none"

// count takes a row that is kept, labelled or not.
func (r *Report) count(e entry, d heuristics.Decision, labelled bool, dataset, split string) {
	why, label := unlabelled, unlabelled
	if labelled {
		r.Labelled++
		why, label = d.Why, strconv.FormatFloat(d.Label, 'g', 6, 64)
		r.Labels[label]++
	} else {
		r.Unlabelled++
	}
	r.Rules[why]++
	editor := orElse(method(e.Row), "unknown")
	if r.Editors[editor] == nil {
		r.Editors[editor] = map[string]int{}
	}
	r.Editors[editor][label]++
	for _, h := range r.Histograms {
		h.count(e.Row)
	}
	r.example(why, example{row: e.Row, decision: d, labelled: labelled, dataset: dataset, id: e.Row.ID})
	if !labelled && r.unlabelledDropped {
		return
	}
	r.TableRows++
	r.Datasets[dataset]++
	r.Splits[split]++
}

// example keeps those of each rule whose ids have the smallest hashes: any, but the same in every run.
func (r *Report) example(why string, x example) {
	h := fnv.New64a()
	h.Write([]byte(x.id)) // never fails
	x.order = h.Sum64()
	list := append(r.shown[why], x)
	slices.SortFunc(list, func(a, b example) int { return cmp.Or(cmp.Compare(a.order, b.order), cmp.Compare(a.id, b.id)) })
	r.shown[why] = list[:min(len(list), examplesPerRule)]
}

// RuleNames lists the rules that decided about rows, sorted; "none" where none did.
func (r *Report) RuleNames() []string { return slices.Sorted(maps.Keys(r.Rules)) }

// finish takes over the thresholds and looks for what may surprise.
func (r *Report) finish(l *heuristics.Labeler, given map[givenKey]int) {
	r.Warnings = append(r.config.Mixes(), r.config.givenMixes(given)...)
	clipI, dinoI := l.Thresholds()
	r.Thresholds = Thresholds{FailedClipD: l.FailedClipD, PartialClipD: l.PartialClipD, Join: l.Join}
	for _, t := range []struct {
		to **float64
		x  float64
	}{{&r.Thresholds.ClipI, clipI}, {&r.Thresholds.DinoI, dinoI}} {
		if !math.IsNaN(t.x) {
			*t.to = &t.x
		}
	}
	r.Histograms[0].marks = []float64{l.FailedClipD, l.PartialClipD}
	r.Histograms[1].marks = []float64{clipI}
	r.Histograms[2].marks = []float64{dinoI}
	slices.Sort(r.Guard.Unreadable)
	if n := len(r.Guard.Unreadable); n > 0 {
		r.warn("the guard could not look into %d files, the first one %s: edits of pictures in them may be in the table",
			n, r.Guard.Unreadable[0])
	}
	if r.unmeasured > 0 {
		r.warn("nobody measured CLIP-D of %d outputs of prompt-guided editors: rule %s takes only those whose captions "+
			"are equal; give an encoder and captions",
			r.unmeasured, heuristics.RuleNoClipD)
	}
	if r.Scenes > 1 && 2*r.LargestScene > r.TableRows+1 && r.LargestScene > 100 {
		r.warn("the largest of %d scenes has %d rows: pictures that look alike may have joined it, one after the other",
			r.Scenes, r.LargestScene)
	}
	if r.Crowded > 0 {
		r.warn("%d pictures look like very many others: of those that the index lists first only the %d nearest were "+
			"compared. A near copy may be on the other side of the split", r.Crowded, mostCompared)
	}
	if r.TableRows == 0 {
		r.warn("the table is empty")
	}
	if r.validation > 0 && r.TableRows > 0 && len(r.Splits) == 1 && r.Splits[splitTrain] > 0 {
		r.warn("no row is held out for validation: the scenes of the rows (%d) are not divided", r.Scenes)
	}
}

func (r *Report) warn(format string, args ...any) {
	r.Warnings = append(r.Warnings, fmt.Sprintf(format, args...))
}

// save writes report.json and the page.
func (r *Report) save(out string) error {
	raw, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(out, ReportFile), append(raw, '\n')); err != nil {
		return err
	}
	page, err := r.page(func(p picture) ([]byte, error) {
		return os.ReadFile(filepath.Join(out,
			filepath.FromSlash(p.Path)))
	})
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(out, PageFile), page)
}
