package aimbench

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
)

// Results written in the authors' format read back to the same numbers, however they were read.
func TestAIMBenchAuthorsFiles(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata",
		By: map[string]string{"d_vad": "some/judge"}})
	j := benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/aim.jsonl"))
	dir := t.TempDir()
	if err := j.(protocol.Writer).WriteAuthors(dir); err != nil {
		t.Fatal(err)
	}
	model := filepath.Join(dir, "editor")
	for _, file := range []string{"longclip_scores.json", "evaluation_scores.json", "aesthetic.json",
		"evaluation_results.json", "emotion_metrics.json", "vad_metrics.json",
		"evaluation_vad_results_some_judge.json"} {
		if _, err := os.Stat(filepath.Join(model, "eval", file)); err != nil {
			t.Error(err)
		}
	}
	plain := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"})
	editors := benchtest.Must[[]protocol.Editor](t)(plain.(protocol.Mixed).ReadAll([]string{model}))
	if len(editors) != 1 || editors[0].Name != "editor" {
		t.Fatalf("%d editors", len(editors))
	}
	want, got := j.Result(), editors[0].Result()
	if got.N != want.N || len(got.Notes) != len(want.Notes) {
		t.Errorf("n %d, notes %q; want %d, %q", got.N, got.Notes, want.N, want.Notes)
	}
	for i, n := range want.Numbers {
		if !(math.Abs(got.Numbers[i].Value-n.Value) < 1e-12) {
			t.Errorf("%s = %v, want %v", n.Name, got.Numbers[i].Value, n.Value)
		}
		if n.Name == "d_vad" && got.Numbers[i].Judge != "some_judge" {
			t.Errorf("the judge of the file's name is lost: %q", got.Numbers[i].Judge)
		}
	}
	totals := filepath.Join(model, "eval", "emotion_metrics.json")
	if err := os.WriteFile(totals, []byte(`{"emotion_accuracy": 99}`), 0o666); err != nil {
		t.Fatal(err)
	}
	editors = benchtest.Must[[]protocol.Editor](t)(plain.(protocol.Mixed).ReadAll([]string{model}))
	notes := strings.Join(editors[0].Result().Notes, " ")
	if !strings.Contains(notes, "emotion_accuracy of the authors'") {
		t.Errorf("a total that the list contradicts is not reported: %q", notes)
	}
}

// Files of components are merged: halves of the components, and a scorer's column, give the numbers of a complete
// file.
func TestAIMBenchMixes(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"}).(protocol.Mixed)
	whole := benchtest.Must[[]protocol.Editor](t)(s.ReadAll([]string{"../testdata/aim.jsonl"}))[0].Result()
	rows := benchtest.Must[[]*protocol.Line](t)(protocol.ReadLines("../testdata/aim.jsonl"))
	var a, b, scores strings.Builder
	for i, r := range rows {
		one, two := map[string]any{"method": "m"}, map[string]any{"method": "m", "by": map[string]string{"pq": "p"}}
		for name, raw := range r.Fields {
			switch name {
			case "id":
				one[name], two[name] = raw, raw
			case "sc", "pq":
				two[name] = raw
			default:
				one[name] = raw
			}
		}
		for w, v := range map[*strings.Builder]any{&a: one, &b: two,
			&scores: map[string]any{"id": i, "model": "m", "score": float64(i % 7)}} {
			w.Write(append(benchtest.Must[[]byte](t)(json.Marshal(v)), '\n'))
		}
	}
	paths := []string{benchtest.Write(t, "a.jsonl", a.String()), benchtest.Write(t, "b.jsonl", b.String()),
		benchtest.Write(t, "s.jsonl", scores.String())}
	editors := benchtest.Must[[]protocol.Editor](t)(s.ReadAll(paths))
	if len(editors) != 1 || editors[0].Name != "m" {
		t.Fatalf("%d editors", len(editors))
	}
	r := editors[0].Result()
	for i, n := range whole.Numbers {
		if got := r.Numbers[i]; got.Value != n.Value || got.Name == "pq" && got.Judge != "p" {
			t.Errorf("%s = %v by %q, want %v", n.Name, got.Value, got.Judge, n.Value)
		}
	}
	last := r.Agreement[0]
	if last.Title != "agreement of the scorer with each component" || len(last.Rows) != 7 ||
		!last.Rows[0].Cells[1].Bounded() {
		t.Errorf("%+v", last)
	}
	_, err := s.ReadAll(append(paths, paths[1]))
	if err == nil || !strings.Contains(err.Error(), "a second value of sc for sample 0 (the first is in b.jsonl:1)") {
		t.Error(err)
	}
}

// The pictures of an editor are found in the authors' layout, and missing ones are named.
func TestAIMBenchItems(t *testing.T) {
	root := t.TempDir()
	const data = `[{"original_image": "fear_1.jpg", "edited_image": "fear_1_awe_instruction_2.png", "edit_type": "x",
		"edit_prompt": "calm it", "target_emotion": {"emotion": "awe", "VAD": [5, 5, 5]}}]`
	for _, file := range []string{"benchmark/fear_1.jpg", "M/edited_output/fear_1_edited_awe.png"} {
		path := filepath.Join(root, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(root, "Instructions.json"), []byte(data), 0o666); err != nil {
		t.Fatal(err)
	}
	load := func(editors ...string) protocol.Scorable {
		return benchtest.LoadSet(t, Benchmark, protocol.Options{Data: root, Editors: editors}).(protocol.Scorable)
	}
	items := benchtest.Must[[]*edit.Edit](t)(load(filepath.Join(root, "M")).Items())
	target := filepath.Join(root, "benchmark", "fear_1_awe_instruction_2.png")
	if len(items) != 1 || protocol.ItemKey(items[0]) != (protocol.Key{ID: "fear_1_awe_instruction_2.png", Model: "M"}) ||
		items[0].Instruction != "calm it" || protocol.PictureOf(items[0], "target").Path != target ||
		!protocol.PictureOf(items[0], "edit").Bare ||
		!protocol.PictureOf(items[0], "source").Bare {
		t.Errorf("%+v", items)
	}
	if _, err := load(filepath.Join(root, "N")).Items(); err == nil ||
		!strings.Contains(err.Error(), "N/edited_output/fear_1_edited_awe.png: the picture does not exist") {
		t.Error(err)
	}
}

// s_sm and s_vs may come in separate files; one without the other, or a list for a number, is refused.
func TestAIMBenchHalves(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"}).(protocol.Mixed)
	sm := benchtest.Write(t, "sm.jsonl", `{"id": 0, "s_sm": 7}`+"\n"+`{"id": 1, "s_sm": null}`)
	vs := benchtest.Write(t, "vs.jsonl", `{"id": 0, "s_vs": 6}`+"\n"+`{"id": 1, "s_vs": 5}`)
	for _, paths := range [][]string{{sm, vs}, {vs, sm}} {
		j := benchtest.Must[[]protocol.Editor](t)(s.ReadAll(paths))[0].Predictions.(*aimPredictions)
		if j.used("s_gtc") != 1 || j.columns["s_gtc"][0] != 6 || fmt.Sprint(j.sub["s_gtc"][0]) != "[7 6]" {
			t.Errorf("s_gtc of %d samples, %v, %v", j.used("s_gtc"), j.columns["s_gtc"][:2], j.sub["s_gtc"][0])
		}
	}
	for want, line := range map[string]string{
		"a.jsonl:1: sample 0 has s_sm, but no file has its s_vs": `{"id": 0, "s_sm": 7}`,
		"clip_t is [0.1,0.2]: want a finite number":              `{"id": 0, "clip_t": [0.1,0.2]}`,
		"s_sm is [7,8]: want a finite number":                    `{"id": 0, "s_sm": [7,8], "s_vs": 3}`,
		"aesthetic is []: want a finite number":                  `{"id": 0, "aesthetic": []}`,
		"a second value of s_gtc for sample 0 (the first is in ": `{"id": 0, "s_sm": 7, "s_vs": 3, "s_gtc": 3}`,
	} {
		if _, err := s.ReadAll([]string{benchtest.Write(t, "a.jsonl", line)}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestAIMBenchTruth: an entry whose target differs from the data's, or is missing, is refused, and the message says
// no more than that.
func TestAIMBenchTruth(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"})
	for truth, want := range map[string]string{
		"[1, 2, 3]": fmt.Sprintf("M/evaluation_vad_results_j.json[0]: ground_truth_vad is [1,2,3], but %v in the data",
			s.(*aim).samples[0].vad),
		"[1, 2]": "M/evaluation_vad_results_j.json[0]: ground_truth_vad is [1,2]: want the numbers valence, arousal and " +
			"dominance",
	} {
		dir := t.TempDir()
		benchtest.PutFile(t, dir, "M/eval/evaluation_vad_results_j.json",
			[]map[string]any{{"edited_image": s.(*aim).output(0),
				"ground_truth_vad": json.RawMessage(truth), "predicted_vad": []float64{5, 5, 5}}})
		if _, err := s.(protocol.Mixed).ReadAll([]string{filepath.Join(dir, "M")}); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", truth, err, want)
		}
	}
}

// TestAIMBenchCorrect: if is_correct contradicts the emotions, the emotions count, and a note says so.
func TestAIMBenchCorrect(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"})
	target := s.(*aim).samples[0].emotion
	dir := t.TempDir()
	benchtest.PutFile(t, dir, "M/eval/evaluation_results.json", []map[string]any{{"image_name": s.(*aim).output(0),
		"target_emotion": target, "predicted_emotion": target, "is_correct": false}})
	p := benchtest.Must[[]protocol.Editor](t)(s.(protocol.Mixed).ReadAll([]string{filepath.Join(dir,
		"M")}))[0].Predictions
	benchtest.Near(t, "acc", benchtest.ByRule(benchtest.NumbersOf(p))["acc"], 100, 0)
	want := "is_correct of 1 entries of evaluation_results.json contradicts their emotions"
	if notes := strings.Join(p.Result().Notes, " "); !strings.Contains(notes, want) {
		t.Errorf("the notes are %q, want %q in them", notes, want)
	}
}

// TestAIMAsAuthors: the columns and Overall of an editor's result files equal those of overall_auto.py.
func TestAIMAsAuthors(t *testing.T) {
	for n, f := range benchtest.Authors[authorsAIM](t, "aim") {
		dir := t.TempDir()
		benchtest.PutFile(t, dir, "Instructions.json", []byte(f.Data))
		for name, rows := range f.Files {
			benchtest.PutFile(t, dir, "M/eval/"+name+".json", []byte(rows))
		}
		s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: dir})
		p := benchtest.Must[[]protocol.Editor](t)(s.(protocol.Mixed).ReadAll([]string{filepath.Join(dir,
			"M")}))[0].Predictions
		numbers := benchtest.NumbersOf(p)
		benchtest.EqualNumbers(t, fmt.Sprintf("file %d", n), benchtest.ByRule(numbers), f.Expect)
		if _, whole := numbers["overall"]; whole {
			t.Errorf("file %d: what overall lacks is not reported: %v", n, numbers)
		}
		again := t.TempDir()
		if err := p.(protocol.Writer).WriteAuthors(again); err != nil {
			t.Fatal(err)
		}
		p = benchtest.Must[[]protocol.Editor](t)(s.(protocol.Mixed).ReadAll([]string{filepath.Join(again,
			"M")}))[0].Predictions
		benchtest.EqualNumbers(t, fmt.Sprintf("file %d, written and read", n),
			benchtest.ByRule(benchtest.NumbersOf(p)), f.Expect)
	}
}

// TestAIMOverallStandsOn: the name of Overall counts the values that its columns are computed from.
func TestAIMOverallStandsOn(t *testing.T) {
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"})
	rows := strings.Split(strings.TrimSpace(string(benchtest.Must[[]byte](t)(os.ReadFile("../testdata/aim.jsonl")))),
		"\n")
	if n := benchtest.NumbersOf(benchtest.Must[protocol.Predictions](t)(s.Read("../testdata/aim.jsonl"))); math.IsNaN(
		n["overall"]) || n["overall"] == 0 {
		t.Errorf("overall of everything is %v", n["overall"])
	}
	less := benchtest.Write(t, "aim.jsonl", strings.Join(rows[:len(rows)-1], "\n")) // one sample of 80 has nothing
	if n := benchtest.NumbersOf(benchtest.Must[protocol.Predictions](t)(s.Read(less))); math.IsNaN(
		n["overall (99% of 560 values)"]) ||
		n["overall (99% of 560 values)"] == 0 {
		t.Errorf("overall without a sample: %v", n)
	}
}

// A duplicate sample in the data is refused, and so are human ratings that do not state whose output they rate.
func TestWhoseSample(t *testing.T) {
	entry := `{"original_image": "o.jpg", "edited_image": %q, "edit_type": "x", "edit_prompt": "p", ` +
		`"target_emotion": {"emotion": "awe", "VAD": [5, 5, 5]}}`
	data := func(names ...string) protocol.Options {
		var list []string
		for _, name := range names {
			list = append(list, fmt.Sprintf(entry, name))
		}
		return protocol.Options{Data: benchtest.Write(t, "Instructions.json", "["+strings.Join(list, ",")+"]")}
	}
	if _, err := loadAIM(data("a.png", "b.png", "a.png")); err == nil || !strings.Contains(err.Error(),
		`a second sample with the edited_image "a.png" (the first is in Instructions.json[0])`) {
		t.Error(err)
	}
	o := data("a.png", "b.png") // one original and one emotion: one name of an editor's output
	model := filepath.Join(t.TempDir(), "M")
	if err := os.MkdirAll(filepath.Join(model, "eval"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(model, "eval", aimBeautyFile),
		[]byte(`[{"name": "o_edited_awe.png", "score": 3}]`), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := benchtest.LoadSet(t, Benchmark, o).Read(model); err == nil ||
		!strings.Contains(err.Error(), "of 2 samples") {
		t.Error(err)
	}
	lines := ""
	for _, editor := range []string{"A", "B"} {
		for i, name := range []string{"a.png", "b.png"} {
			lines += fmt.Sprintf(`{"id": %q, "method": %q, "sc": %d}`+"\n", name, editor, 5+i)
		}
	}
	for who, refused := range map[string]bool{"": true, `, "method": "A"`: false} {
		o.Human = benchtest.Write(t, "human.jsonl",
			`{"id": "a.png", "rating": 3`+who+`}`+"\n"+`{"id": "b.png", "rating": 4`+who+`}`)
		list := benchtest.Must[[]protocol.Editor](t)(benchtest.LoadSet(t, Benchmark,
			o).(protocol.Mixed).ReadAll([]string{benchtest.Write(t, "c.jsonl", lines)}))
		failed := strings.Join(list[0].Result().Failed, "; ")
		if strings.Contains(failed, "whose sample was rated") != refused {
			t.Errorf("ratings %q: %s", who, failed)
		}
	}
}

func TestAIMBench(t *testing.T) {
	want := benchtest.Expected(t, "aim")
	s := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"})
	got := benchtest.ReadSet(t, s, "../testdata/aim.jsonl")
	for _, c := range aimColumns {
		benchtest.Same(t, got, want, [2]string{c.Number, c.Number})
	}
	benchtest.Same(t, got, want, [2]string{"positive.acc", "positive.acc"}, [2]string{"negative.d_vad",
		"negative.d_vad"})
	benchtest.Near(t, "bias", benchtest.At(got, "positivity_bias", "acc"),
		benchtest.At(want, "positive", "acc").(float64)-benchtest.At(want, "negative", "acc").(float64), 1e-9)
	for i, truth := range emotions {
		for k, predicted := range emotions {
			benchtest.Near(t, truth, benchtest.At(got, "confusion", truth, predicted),
				want["confusion"].([]any)[i].([]any)[k].(float64), 0)
		}
	}
	if _, err := s.Read(benchtest.Write(t, "c.jsonl", `{"id": "e3.jpg", "sc": "8"}`)); err == nil ||
		!strings.Contains(err.Error(), `c.jsonl:1: sc is "8"`) {
		t.Error(err)
	}
}

// Overall from the printed means of all 14 methods of the paper's Table 1, to the rounding of the means.
func TestAIMBenchMeans(t *testing.T) {
	r := benchtest.Must[*protocol.Result](t)(aimMeans(benchtest.Golden + "aimbench/table1.csv"))
	b := benchtest.Must[[]byte](t)(json.Marshal(r.JSON))
	var got map[string]any
	json.Unmarshal(b, &got)
	if methods := got["methods"].([]any); len(methods) != 14 {
		t.Errorf("%d methods", len(methods))
	}
	benchtest.Near(t, "largest difference", got["largest_difference"], 0, 0.09)
	if _, err := aimMeans(benchtest.Write(t, "m.csv", "method,clip_t\na,0.2\n")); err == nil ||
		!strings.Contains(err.Error(), `m.csv:1: there is no column "sc"`) {
		t.Error(err)
	}
}

// A line may name its item in several ways. A contradiction is refused: it would score another item.
func TestContradictingNames(t *testing.T) {
	set := benchtest.LoadSet(t, Benchmark, protocol.Options{Data: "../testdata"})
	for _, tt := range []struct{ row, want string }{ // the item that has a prediction, or what the error says
		{`{"id": 1, "edited_image": "e1.jpg", "clip_t": 0.2}`, "e1.jpg"},
		{`{"id": 1, "edited_image": "x/o1_edited_awe.png", "clip_t": 0.2}`, "e1.jpg"},
		{`{"id": 1, "edited_image": "e2.jpg", "clip_t": 0.2}`, "ids count the samples from 0"},
		{`{"id": "e1.jpg", "original_image": "o2.jpg", "clip_t": 0.2}`, "original_image is"},
	} {
		t.Run(tt.row, func(t *testing.T) {
			read, err := set.Read(benchtest.Write(t, "p.jsonl", tt.row))
			if err != nil {
				if !strings.Contains(err.Error(), tt.want) {
					t.Errorf("Read(%s): %v, want %q", tt.row, err, tt.want)
				}
				return
			}
			var has []string
			p := read.(*aimPredictions)
			for i := range p.samples {
				if p.has("clip_t", i) {
					has = append(has, p.samples[i].edited)
				}
			}
			if got := strings.Join(has, " "); got != tt.want {
				t.Errorf("Read(%s) has %q, want %q", tt.row, got, tt.want)
			}
		})
	}
}

// authorsAIM is a part of authors.json.
type authorsAIM []struct {
	Data   json.RawMessage
	Files  map[string]json.RawMessage
	Expect map[string]float64
}
