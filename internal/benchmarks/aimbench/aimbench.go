// Package aimbench implements AIM-Bench, affective image manipulation. Components of each sample are read from JSON
// lines or from the authors' folders (read.go, authors.go); the paper's eight columns and the overall score are
// computed from them (numbers.go, overall.go).
package aimbench

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
)

var (
	//go:embed benchmarks.txt
	benchmarksText string
	//go:embed published.csv
	publishedCSV string
)

// family holds the description and published numbers of the benchmark.
var family = protocol.Family{Benchmarks: benchmarksText, Published: publishedCSV}

// Benchmark is AIM-Bench.
var Benchmark = func() *protocol.Benchmark {
	b := family.Benchmark("aim-bench", loadAIM)
	b.Means, b.Axes = aimMeans, aimColumns
	return b
}()

var (
	positiveEmotions = []string{"amusement", "awe", "contentment", "excitement"}
	negativeEmotions = []string{"anger", "disgust", "fear", "sadness"}
	emotions         = slices.Concat(positiveEmotions, negativeEmotions)
)

// aim is AIM-Bench's data.
type aim struct {
	samples []aimSample
	sources protocol.Sources
	root    string            // folder of Instructions.json and benchmark/
	editors []string          // folders of editors in the authors' layout
	by      map[string]string // what measured a component, if the files do not state it
	human   string            // file of human ratings
}

// aimSample is a sample: its instruction, the emotion that it should evoke, and the names of its pictures.
type aimSample struct {
	original, edited, kind, prompt, emotion string
	vad                                     [3]float64
}

func loadAIM(o protocol.Options) (protocol.Set, error) {
	path, err := protocol.Locate(o.Data, "Instructions.json")
	if err != nil {
		return nil, err
	}
	rows, err := protocol.ReadLines(path)
	if err != nil {
		return nil, err
	}
	s := &aim{root: filepath.Dir(path), editors: o.Editors, by: o.By, human: o.Human}
	err = errors.Join(protocol.DifferentEditors(o.Editors), protocol.CheckNames("--by", slices.Sorted(maps.Keys(o.By)),
		aimComponents))
	if err != nil {
		return nil, err
	}
	var p protocol.Problems
	seen := map[string]string{}
	p.Each(rows, func(r *protocol.Line) error {
		original, edited, kind := r.Filled("original_image"), r.Filled("edited_image"), r.Filled("edit_type")
		var target struct {
			Emotion string
			VAD     json.RawMessage
		}
		r.Decode("target_emotion", "an object with emotion and VAD", &target)
		target.Emotion = strings.ToLower(strings.TrimSpace(target.Emotion))
		vad, err := parseVAD(target.VAD)
		prompt := ""
		if r.Has("edit_prompt") { // a scorer needs it; Items reports it missing
			prompt = r.Text("edit_prompt")
		}
		s.sources.Add(original, len(s.samples))
		s.samples = append(s.samples, aimSample{original, edited, kind, prompt, target.Emotion, vad})
		first, twice := seen[edited]
		seen[edited] = r.Where
		switch {
		case !slices.Contains(emotions, target.Emotion):
			return fmt.Errorf("the target emotion is %q: want one of %s", target.Emotion,
				strings.Join(emotions, ", "))
		case twice:
			return fmt.Errorf("a second sample with the edited_image %q (the first is in %s)", edited, first)
		case err != nil:
			return fmt.Errorf("target_emotion.VAD: %w", err)
		}
		return nil
	})
	return s, p.Err()
}

// aimBounds are the scales of the components: a cosine, judges' and the aesthetic predictor's 0 to 10, and 1 to 9 for
// valence, arousal and dominance.
var aimBounds = map[string]protocol.Bounds{"clip_t": {Low: -1, High: 1}, "sc": {Low: 0, High: 10},
	"pq": {Low: 0, High: 10}, "aesthetic": {Low: 0, High: 10},
	"s_sm": {Low: 0, High: 10}, "s_vs": {Low: 0, High: 10}, "s_gtc": {Low: 0, High: 10}, "valence": {Low: 1, High: 9},
	"arousal": {Low: 1, High: 9}, "dominance": {Low: 1, High: 9},
	"acc": {Low: 0, High: 100}, "f1": {Low: 0, High: 100}, "overall": {Low: 0, High: 100},
	"d_vad": {Low: 0, High: 8 * math.Sqrt(3)}}

// parseVAD reads {valence, arousal, dominance} or a list of the three.
func parseVAD(raw json.RawMessage) (v [3]float64, err error) {
	names := []string{"valence", "arousal", "dominance"}
	var list []float64
	var m map[string]any
	switch {
	case json.Unmarshal(raw, &list) == nil && len(list) == 3:
	case json.Unmarshal(raw, &m) == nil && m != nil:
		list = nil
		for _, name := range names {
			x, ok := m[name].(float64)
			if !ok {
				return v, fmt.Errorf("there is no number %q", name)
			}
			list = append(list, x)
		}
	default:
		return v, errors.New("want the numbers valence, arousal and dominance")
	}
	for i, name := range names {
		if err := aimBounds[name].Check(name, list[i]); err != nil {
			return v, err
		}
	}
	return [3]float64(list), nil
}

// Items implements Scorable: the outputs of all editors, in the authors' layout.
func (s *aim) Items() ([]*edit.Edit, error) {
	if len(s.editors) == 0 {
		return nil, errors.New("there are no pictures: give --editors, folders MODEL with edited_output/")
	}
	var p protocol.Problems
	var items []*edit.Edit
	for _, dir := range s.editors {
		for i, sample := range s.samples {
			source := filepath.Join(s.root, "benchmark", sample.original)
			if _, err := os.Stat(source); err != nil { // there is a copy next to the outputs
				source = filepath.Join(dir, "edited_output", s.base(i)+"_original.jpg")
			}
			if sample.prompt == "" {
				p.Add(sample.edited, "there is no edit_prompt")
			}
			output := filepath.Join(dir, "edited_output", s.output(i))
			it := protocol.NewItem(protocol.Key{ID: sample.edited, Model: protocol.EditorName(dir)}, sample.prompt,
				protocol.Bare(protocol.FilePicture(source, true, &p)), protocol.Bare(protocol.FilePicture(output, true, &p)))
			it.Group = sample.edited
			it.Set(protocol.Target, protocol.Bare(protocol.Picture{Path: filepath.Join(s.root, "benchmark", sample.edited)}))
			items = append(items, it)
		}
	}
	return items, p.Err()
}

// Outputs implements Measurable.
func (s *aim) Outputs() ([]*edit.Edit, error) { return s.Items() }

// aimNumbers are the numbers computed from each component. gtc is the paper's name for s_gtc.
var aimNumbers = map[string][]string{"clip_t": {"clip_t"}, "sc": {"sc"}, "aesthetic": {"aesthetic"}, "pq": {"pq"},
	"gtc": {"s_gtc"}, "s_gtc": {"s_gtc"}, "emotion": {"acc", "f1"}, "vad": {"d_vad"}, "score": {"score"}}

// Line implements Measurable.
func (s *aim) Line(k protocol.Key, values map[string]any, by string) map[string]any {
	line := protocol.ComponentLine("id", k, values, by, aimNumbers)
	if v, ok := line["gtc"]; ok {
		line["s_gtc"] = v
		delete(line, "gtc")
	}
	return line
}

// Closed implements protocol.Closed: a line with only other fields is refused.
func (s *aim) Closed() {}

// Components implements Composed.
func (s *aim) Components() map[string]edit.Range {
	scales := map[string]edit.Range{"emotion": edit.NoRange(), "vad": {1, 9}}
	for _, c := range []string{"clip_t", "sc", "aesthetic", "pq", "s_gtc"} {
		scales[c] = edit.Range{aimBounds[c].Low, aimBounds[c].High}
	}
	scales["gtc"] = scales["s_gtc"]
	return scales
}
