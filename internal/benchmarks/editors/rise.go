package editors

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

// RISEBench is RISEBench.
var RISEBench = family.Benchmark("rise-bench", loadRISE)

const (
	accuracySince = "accuracy since 2026-04"
	logical       = "logical_reasoning"
)

var riseCategories = []string{"temporal_reasoning", "causal_reasoning", "spatial_reasoning", logical}

// riseEntry is a sample of the data.
type riseEntry struct {
	Index       string
	Category    string
	Instruction string
	Image       string
	Free        json.RawMessage `json:"consistency_free"`

	// Shown to judges.
	Reference      string          // what the edit should show, in words
	ReferenceText  string          `json:"reference_txt"` // the same of logical samples
	ReferenceImage string          `json:"reference_img"` // the same as a picture
	WithInput      json.RawMessage `json:"reasoning_img"` // the source is shown as well
	WithoutProblem json.RawMessage `json:"reasoning_wo_ins"`
}

// free reports whether the sample's consistency is not judged.
func (e *riseEntry) free() bool {
	text := string(e.Free)
	return text != "" && text != "null" && text != "false" && text != `""` && text != "0"
}

// kind selects the authors' questions for the sample: its category, and what the output is compared with. anyAlone
// reports whether any sample of the data has the key reasoning_wo_ins; the program then treats all samples as having
// it.
func (e *riseEntry) kind(anyAlone bool) string {
	stated := func(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }
	kind := "process"
	switch {
	case e.Category == logical && e.ReferenceText != "":
		kind = "logical by text"
	case e.Category == logical && anyAlone:
		kind = "logical by picture alone"
	case e.Category == logical:
		kind = "logical by picture"
	case e.Category == "spatial_reasoning" && e.ReferenceImage != "":
		kind = "spatial by picture"
	case e.Category == "spatial_reasoning":
		kind = "spatial"
	}
	if stated(e.WithInput) && (kind == "process" || kind == "spatial") {
		kind += " with source"
	}
	if e.states() && e.Category != logical {
		kind += ", any consistency"
	}
	return kind
}

// states reports whether the sample has the key consistency_free, whatever its value: pandas' notna.
func (e *riseEntry) states() bool { return len(e.Free) > 0 && string(e.Free) != "null" }

func loadRISE(o protocol.Options) (protocol.Set, error) {
	path, err := protocol.Locate(o.Data, "datav2_total_w_subtask.json", "data_total.json")
	if err != nil {
		return nil, err
	}
	var entries []riseEntry
	if err := protocol.ReadJSON(path, &entries, "[{index, category, instruction, image}]"); err != nil {
		return nil, err
	}
	if len(entries) == 0 {
		return nil, fmt.Errorf("%s is empty", path)
	}
	s, err := protocol.NewEditorSet("rise-bench", o)
	if err != nil {
		return nil, err
	}
	describeRISE(s, entries)
	root := cmp.Or(o.Images, filepath.Dir(path))
	anyAlone := slices.ContainsFunc(entries, func(e riseEntry) bool { return len(e.WithoutProblem) > 0 })
	anyFree := slices.ContainsFunc(entries, func(e riseEntry) bool { return len(e.Free) > 0 })
	var p protocol.Problems
	for i, e := range entries {
		if !slices.Contains(riseCategories, e.Category) || e.Index == "" {
			p.Add(fmt.Sprintf("%s[%d]", filepath.Base(path), i), "want index and category, one of %s",
				strings.Join(riseCategories, ", "))
			continue
		}
		sample := protocol.EditorSample{
			Item:   e.item(root, anyAlone),
			Output: protocol.Picture{Bare: true},
			Group:  e.Category,
			Parts:  []string{"overall", strings.TrimSuffix(e.Category, "_reasoning")},
			Scored: e.Image != "" && e.Instruction != "",
		}
		p.Keep(s.Add(sample))
	}
	s.Derive = riseColumns(entries, anyFree)
	return s, p.Err()
}

// item returns the sample as an edit without an output; its pictures are under root.
func (e *riseEntry) item(root string, anyAlone bool) *edit.Edit {
	it := &edit.Edit{ID: e.Index, Instruction: e.Instruction}
	it.Kind, it.Texts = e.kind(anyAlone), map[string]string{"reference": cmp.Or(e.ReferenceText, e.Reference)}
	if e.ReferenceImage != "" {
		reference := filepath.Join(root, filepath.FromSlash(e.ReferenceImage))
		it.Set("reference", protocol.Bare(protocol.Picture{Path: reference}))
	}
	if e.Image != "" {
		it.Set("source", protocol.Bare(protocol.Picture{Path: filepath.Join(root, filepath.FromSlash(e.Image))}))
	}
	return it
}

// describeRISE describes the set of the entries.
func describeRISE(s *protocol.EditorSet, entries []riseEntry) {
	five, percent := protocol.Bounds{Low: 1, High: 5}, protocol.Bounds{Low: 0, High: 100}
	s.Counted = []string{"accuracy", accuracySince}
	s.Columns = []string{"rise", "rise as run", "accuracy", accuracySince, "reasoning", "consistency", "plausibility",
		"score"}
	s.Bounds = map[string]protocol.Bounds{"reasoning": five, "consistency": five, "plausibility": five,
		"score": protocol.ScoreBounds, "rise": percent, "rise as run": percent, "accuracy": percent, accuracySince: percent}
	s.Fields = map[string][]string{
		"reasoning":    {"reasoning", "Reasoning"},
		"consistency":  {"consistency", "ApprConsistency"},
		"plausibility": {"plausibility", "VisualPlausibility"},
	}
	s.Lacks = func(i int, column string) bool {
		return column == "consistency" && entries[i].free() || column == "plausibility" &&
			entries[i].Category == logical
	}
	s.Parts = []string{"overall", "temporal", "causal", "spatial", "logical"}
	s.Output = func(editor string, i int) string {
		base := filepath.Join(editor, "images", s.Samples[i].Group, s.Samples[i].Item.ID)
		return protocol.FirstFile(base, ".jpg", ".jpeg", ".png")
	}
}

// riseColumns derive numbers from a judge's. anyFree: some sample of the data has the key consistency_free.
func riseColumns(entries []riseEntry, anyFree bool) map[string]func(int, map[string]float64) float64 {
	return map[string]func(int, map[string]float64) float64{
		"rise": func(i int, v map[string]float64) float64 {
			return riseScore(entries[i].Category, entries[i].free(), riseNumbers(v))
		},
		"rise as run": func(i int, v map[string]float64) float64 {
			free := entries[i].free() || anyFree && len(entries[i].Free) == 0
			return riseScore(entries[i].Category, free, riseNumbers(v))
		},
		"accuracy": func(i int, v map[string]float64) float64 { return riseAccuracy(entries[i].Category, false, v) },
		accuracySince: func(i int, v map[string]float64) float64 {
			return riseAccuracy(entries[i].Category, entries[i].states() && entries[i].Category != logical, v)
		},
	}
}

// riseAccuracy is 100 for a sample with 5 in all numbers that count, else 0; free: consistency does not count.
func riseAccuracy(category string, free bool, v map[string]float64) float64 {
	r := riseNumbers(v)
	if _, judged := v["reasoning"]; !judged {
		return math.NaN()
	}
	all := r[0] == 5 && (r[1] == 5 || free) && (r[2] == 5 || category == logical)
	return map[bool]float64{true: 100}[all]
}

// riseNumbers returns reasoning, consistency and plausibility, NaN if absent.
func riseNumbers(v map[string]float64) (out [3]float64) {
	for i, name := range []string{"reasoning", "consistency", "plausibility"} {
		x, ok := v[name]
		if out[i] = x; !ok {
			out[i] = math.NaN()
		}
	}
	return out
}

// riseScore returns a sample's score in percent, NaN if a number that it needs is absent.
func riseScore(category string, free bool, v [3]float64) float64 {
	reasoning, consistency, plausibility := v[0], v[1], v[2]
	s := 0.3*consistency + 0.5*reasoning + 0.2*plausibility
	switch {
	case category == logical:
		s = 0.3*consistency + 0.7*reasoning
	case free:
		s = 0.2*plausibility + 0.8*reasoning
	}
	if reasoning == 1 {
		s = max(1, s/2)
	}
	return 25 * (s - 1)
}
