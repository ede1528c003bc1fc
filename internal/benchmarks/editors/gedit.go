// Package editors holds the benchmarks that rank editors by the mean of numbers of their outputs: GEdit-Bench,
// ImgEdit-Bench, RISEBench, KRIS-Bench, MagicBrush and Emu Edit. Each reads its published layout into a
// protocol.EditorSet and derives its columns from judges' answers.
package editors

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/internal/benchmarks/protocol"
)

//go:embed benchmarks.txt
var benchmarksText string

// family holds the descriptions and published numbers of these benchmarks.
var family = protocol.Family{Benchmarks: benchmarksText}

// GEditBench is GEdit-Bench.
var GEditBench = family.Benchmark("gedit-bench", loadGEdit)

// gEditTasks are the tasks in the order of the authors' tables.
var gEditTasks = []string{"background_change", "color_alter", "material_alter", "motion_change", "ps_human",
	"style_change",
	"subject-add", "subject-remove", "subject-replace", "text_change", "tone_transfer"}

// gEditArea is the area in pixels that pictures are resized to.
const gEditArea = 512 * 512

func loadGEdit(o protocol.Options) (protocol.Set, error) {
	files, err := protocol.LocateAll(o.Data, "*.parquet", "*.jsonl", "*.csv")
	if err != nil {
		return nil, err
	}
	columns := []string{"task_type", "key", "instruction", "instruction_language", "Intersection_exist"}
	table, err := protocol.OpenSamples(files, columns[:4]...)
	if err != nil {
		return nil, err
	}
	s, err := protocol.NewEditorSet("gedit-bench", o)
	if err != nil {
		return nil, err
	}
	language := map[string]string{} // of each sample's instruction
	describeGEdit(s, language)
	intersects := table.Has("Intersection_exist")
	if !intersects {
		columns = columns[:4]
	}
	err = table.Each(columns, func(p protocol.Sample, text []string) error {
		task, key, lang := text[0], text[1], text[3]
		if !slices.Contains(gEditTasks, task) {
			return fmt.Errorf("task_type is %q: want one of %s", task, strings.Join(gEditTasks, ", "))
		}
		if lang != "en" && lang != "cn" {
			return fmt.Errorf("instruction_language is %q: want en or cn", lang)
		}
		parts := []string{lang}
		if intersects {
			in, err := strconv.ParseBool(strings.ToLower(text[4]))
			if err != nil {
				return fmt.Errorf("column Intersection_exist is %q: want true or false", text[4])
			}
			if in {
				parts = append(parts, lang+", intersection")
			}
		}
		source := protocol.Bare(p.Picture("input_image_raw", -1, ""))
		source.Area = gEditArea
		language[key] = lang
		return s.Add(protocol.EditorSample{Group: task, Parts: parts, Scored: true,
			Item:   protocol.NewItem(protocol.Key{ID: key}, text[2], source, protocol.Picture{}),
			Output: protocol.Picture{Area: gEditArea, Bare: true}})
	})
	return s, err
}

// describeGEdit describes the set; language is the language of each sample's instruction, by id.
func describeGEdit(s *protocol.EditorSet, language map[string]string) {
	ten := protocol.Bounds{Low: 0, High: 10}
	s.Macro, s.Groups, s.Table = true, gEditTasks, readVIEScores
	s.Parts = []string{"en", "en, intersection", "cn", "cn, intersection"}
	s.Columns = []string{"G_SC", "G_PQ", "G_O", "score"}
	s.Fields = map[string][]string{
		"G_SC": {"semantic", "sementics_score", "semantics_score"},
		"G_PQ": {"perceptual", "quality_score"},
	}
	s.Bounds = map[string]protocol.Bounds{"G_SC": ten, "G_PQ": ten, "G_O": ten, "score": protocol.ScoreBounds}
	s.Derive = map[string]func(int, map[string]float64) float64{"G_O": func(_ int, v map[string]float64) float64 {
		semantic, ok := v["G_SC"]
		quality, both := v["G_PQ"]
		if !ok || !both {
			return math.NaN()
		}
		return math.Sqrt(semantic * quality)
	}}
	s.Output = func(editor string, i int) string {
		at := s.Samples[i]
		base := filepath.Join(editor, "fullset", at.Group, language[at.Item.ID], at.Item.ID)
		if found, err := filepath.Glob(globQuote(base) + ".*"); err == nil && len(found) > 0 {
			return found[0]
		}
		return base + ".png"
	}
}

// globQuote quotes the characters that filepath.Glob would interpret as a pattern.
func globQuote(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// readVIEScores reads MODEL_TASK_LANGUAGE_vie_score.csv, as the authors' program writes it, or
// MODEL_TASK_gpt_score.csv, as its older version and Bagel's do. There the name of the edit's picture is the key.
func readVIEScores(file string) (editor string, rows []*protocol.Line, err error) {
	base, columns := filepath.Base(file), []string{"key", "sementics_score", "quality_score"}
	for _, task := range gEditTasks {
		if name, ok := strings.CutSuffix(base, "_"+task+"_gpt_score.csv"); ok {
			editor, columns[0] = name, "edited_image"
		}
		for _, lang := range []string{"all", "en", "cn"} {
			if name, ok := strings.CutSuffix(base, "_"+task+"_"+lang+"_vie_score.csv"); ok {
				editor = name
			}
		}
	}
	if editor == "" {
		return "", nil, fmt.Errorf("%s: want a file MODEL_TASK_all_vie_score.csv or MODEL_TASK_gpt_score.csv",
			base)
	}
	table, err := protocol.OpenSamples([]string{file}, columns...)
	if err != nil {
		return "", nil, err
	}
	err = table.Each(columns, func(p protocol.Sample, text []string) error {
		key := text[0]
		if columns[0] == "edited_image" {
			key = strings.TrimSuffix(path.Base(key), path.Ext(key))
		}
		id, err := json.Marshal(key)
		if err != nil {
			return err
		}
		for i, c := range columns[1:] {
			if v, err := strconv.ParseFloat(text[i+1], 64); err != nil || !(v >= 0 && v <= 10) {
				return fmt.Errorf("%s is %q: want a number from 0 to 10", c, text[i+1])
			}
		}
		rows = append(rows, &protocol.Line{Where: p.String(), Fields: map[string]json.RawMessage{"id": id,
			"sementics_score": json.RawMessage(text[1]), "quality_score": json.RawMessage(text[2])}})
		return nil
	})
	return editor, rows, err
}
