package editors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
)

// KRISBench is KRIS-Bench.
var KRISBench = family.Benchmark("kris-bench", loadKRIS)

// krisDimension is one of the seven dimensions.
type krisDimension struct {
	name, knowledge string // the kind of knowledge that it belongs to
	judged          bool   // knowledge plausibility is judged
	categories      []string
}

var krisDimensions = []krisDimension{
	{"attribute perception", "factual", false,
		[]string{"count_change", "color_change", "size_adjustment", "part_completion", "anomaly_correction"}},
	{"spatial perception", "factual", false, []string{"viewpoint_change", "position_movement"}},
	{"temporal prediction", "factual", false, []string{"temporal_prediction"}},
	{"social science", "conceptual", true, []string{"humanities", "practical_knowledge"}},
	{"natural science", "conceptual", true,
		[]string{"biology", "chemistry", "geography", "medicine", "mathematics", "physics"}},
	{"logical reasoning", "procedural", true, []string{"abstract_reasoning", "rule-based_reasoning"}},
	{"instruction decomposition", "procedural", false,
		[]string{"multi-element_composition", "multi-instruction_execution"}},
}

// krisFields are the names of the columns in the authors' files and in judges' answers.
var krisFields = map[string][]string{
	"VC": {"consistency_score", "consistency"}, "VQ": {"quality_score", "quality"},
	"IF": {"instruction_score", "instruction"}, "KP": {"knowledge_score", "knowledge"},
}

// krisEntry is a sample of annotation.json.
type krisEntry struct {
	Sources     json.RawMessage `json:"ori_img"` // a name, or several
	Target      string          `json:"gt_img"`
	Instruction string          `json:"ins_en"`
	Explanation string          `json:"explain_en"`
}

// sources returns the names of its pictures before the edit.
func (e *krisEntry) sources() (names []string, err error) {
	var one string
	if json.Unmarshal(e.Sources, &one) == nil {
		names = []string{one}
	} else if json.Unmarshal(e.Sources, &names) != nil {
		names = nil
	}
	if len(names) == 0 || slices.Contains(names, "") {
		return nil, errors.New("ori_img: want the name of a picture, or a list of names")
	}
	return names, nil
}

func loadKRIS(o protocol.Options) (protocol.Set, error) {
	if o.Data == "" {
		return nil, errors.New("there are no published data: give --ratings, the folder KRIS_Bench")
	}
	s, err := protocol.NewEditorSet("kris-bench", o)
	if err != nil {
		return nil, err
	}
	columns := []string{"VC", "VQ", "IF", "KP"}
	s.Columns, s.Fields, s.Pooled = append([]string{"kris"}, columns...), krisFields, map[string][]string{"kris": columns}
	s.Bounds, s.Scale = map[string]protocol.Bounds{}, map[string]func(float64) float64{}
	s.Strict, s.Own = true, readKRISMetrics
	s.Parts = []string{"overall", "factual", "conceptual", "procedural"}
	for _, c := range columns {
		s.Bounds[c], s.Scale[c] = protocol.Bounds{Low: 1, High: 5}, func(v float64) float64 { return 25 * (v - 1) }
	}
	s.Columns, s.Bounds["score"] = append(s.Columns, "score"), protocol.ScoreBounds
	judged := map[string]bool{}
	s.Lacks = func(i int, column string) bool { return column == "KP" && !judged[s.Samples[i].Group] }
	s.Derive = map[string]func(int, map[string]float64) float64{"kris": func(i int, v map[string]float64) float64 {
		return krisMean(v, judged[s.Samples[i].Group])
	}}
	s.Output = func(editor string, i int) string {
		return protocol.FirstFile(filepath.Join(editor, filepath.FromSlash(s.Samples[i].Item.ID)), ".png", ".jpeg", ".jpg")
	}
	var p protocol.Problems
	for _, d := range krisDimensions {
		s.Parts = append(s.Parts, d.name)
		for _, category := range d.categories {
			judged[category] = d.judged
			if err := addKRIS(s, filepath.Join(o.Data, category), category, []string{"overall", d.knowledge, d.name},
				&p); err != nil {
				return nil, err
			}
		}
	}
	if len(s.Samples) == 0 && p.Err() == nil {
		return nil, fmt.Errorf("%s has no CATEGORY/annotation.json: want the folder KRIS_Bench", o.Data)
	}
	return s, p.Err()
}

// krisMean returns the mean of a sample's numbers, NaN if one of them is missing. It only shows which samples are
// complete: means over samples pool the numbers instead.
func krisMean(v map[string]float64, judged bool) float64 {
	sum, n := v["VC"]+v["VQ"]+v["IF"], 3.0
	for _, c := range []string{"VC", "VQ", "IF"} {
		if _, ok := v[c]; !ok {
			return math.NaN()
		}
	}
	if judged {
		x, ok := v["KP"]
		if !ok {
			return math.NaN()
		}
		sum, n = sum+x, n+1
	}
	return sum / n
}

// addKRIS adds the samples of a category, whose folder may be missing.
func addKRIS(s *protocol.EditorSet, folder, category string, parts []string, p *protocol.Problems) error {
	path := filepath.Join(folder, "annotation.json")
	var entries map[string]krisEntry
	if err := protocol.ReadJSON(path, &entries, "{ID: {ori_img, ins_en}}"); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, id := range slices.SortedFunc(maps.Keys(entries), naturally) {
		e := entries[id]
		names, err := e.sources()
		if err != nil || e.Instruction == "" {
			p.Add(path, "%s: want ori_img (a name or several) and ins_en", id)
			continue
		}
		picture := func(name string) protocol.Picture {
			return protocol.Picture{Path: filepath.Join(folder, filepath.FromSlash(name))}
		}
		it := protocol.NewItem(protocol.Key{ID: category + "/" + id}, e.Instruction, picture(names[0]), protocol.Picture{})
		it.Kind, it.Texts = krisKind(category), map[string]string{"explanation": e.Explanation}
		sample := protocol.EditorSample{Item: it, Group: category, Parts: parts, Scored: len(names) == 1}
		kind, sources := krisSources(category, names)
		if kind != "" {
			sample.Several, it.Kind, it.Sources = true, kind, nil
			for _, name := range sources {
				it.Sources = append(it.Sources, picture(name))
			}
		}
		if e.Target != "" {
			it.Set(protocol.Target, picture(e.Target))
			if kind == "" { // questions about several sources do not show it
				it.Set("reference", picture(e.Target))
			}
		}
		p.Keep(s.Add(sample))
	}
	return nil
}

// krisFrame matches the position of a frame in its sequence, in the name of its picture.
var krisFrame = regexp.MustCompile(`\d+-(\d+)`)

// krisSources returns the kind that selects the question for a sample with several sources, and the sources in the
// order in which they are shown. Elements are in the order of the data, frames in the order of the sequence; the wanted
// frame is the missing one of four. The kind of other samples is "".
func krisSources(category string, names []string) (kind string, sources []string) {
	switch {
	case category == "multi-element_composition" && len(names) >= 2 && len(names) <= 5:
		return fmt.Sprintf("%d elements", len(names)), names
	case category != "temporal_prediction" || len(names) != 3:
		return "", nil
	}
	at := map[string]string{}
	for _, name := range names {
		if m := krisFrame.FindStringSubmatch(name); m != nil {
			at[m[1]] = name
		}
	}
	for _, frame := range []string{"1", "2", "3", "4"} {
		if name, ok := at[frame]; ok {
			sources = append(sources, name)
		} else {
			kind += "frame " + frame
		}
	}
	if len(sources) != 3 { // other frames than 1 to 4, or one twice
		return "", nil
	}
	return kind, sources
}

// krisKind selects the authors' questions for a category.
func krisKind(category string) string {
	if category == "viewpoint_change" {
		return "viewpoint"
	}
	for _, d := range krisDimensions {
		if d.judged && slices.Contains(d.categories, category) {
			return "knowledge"
		}
	}
	return "common"
}

// naturally compares in natural order: 2 before 10.
func naturally(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// readKRISMetrics reads what the authors' programs wrote for an editor: CATEGORY/metrics.json. As in Bagel's
// summarize.py, a knowledge_score in a category without one is ignored.
func readKRISMetrics(editor string, j *protocol.EditorPredictions) error {
	var p protocol.Problems
	for _, category := range j.Groups {
		path := filepath.Join(editor, category, "metrics.json")
		var entries map[string]map[string]json.RawMessage
		if err := protocol.ReadJSON(path, &entries, "{ID: {consistency_score, ...}}"); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		for _, id := range slices.SortedFunc(maps.Keys(entries), naturally) {
			i, ok := j.Index[category+"/"+id]
			if !ok {
				p.Add(path, "%q is not a sample of the data", id)
				continue
			}
			scores := map[string]json.RawMessage{} // nulls are left out
			for column, names := range krisFields {
				raw, ok := entries[id][names[0]]
				if ok && string(raw) != "null" && !j.Lacks(i, column) { // numbers that the category does not have are ignored
					scores[names[0]] = raw
				}
			}
			if len(scores) > 0 {
				if err := j.SetAll(scores, i, "", path); err != nil {
					p.Add(path, "%s: %v", id, err)
				}
			}
		}
	}
	return p.Err()
}
