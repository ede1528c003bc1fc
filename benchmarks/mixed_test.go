package benchmarks

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// runFolder is a run's folder with predictions by a judge of a fingerprint.
func runFolder(t *testing.T, fingerprint, lines string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "run.json"), []byte(`{"scorer": "`+fingerprint+`"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "predictions.jsonl")
	if err := os.WriteFile(path, []byte(lines), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// Halves by two judges are no judge's whole, in no benchmark of editors, and not in a ranking.
func TestRunsDoNotMix(t *testing.T) {
	half := func(id, field string) string { return fmt.Sprintf(`{%q: %q, "model": "M", "score": 3}`, field, id) }
	brush := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)}).(Mixed)
	data := write(t, "t.jsonl", `{"sample": "s1", "source": "a.png", "gt": "a.png"}`+"\n"+
		`{"sample": "s2", "source": "a.png", "gt": "a.png"}`)
	fed := loadSet(t, fedBench, Options{Data: data, BGNorm: "linear:255", Sigma: 0.5}).(Mixed)
	sets := map[string]struct {
		set   Mixed
		ids   [2]string
		field string
	}{"magicbrush": {brush, [2]string{"7/1", "7/2"}, "id"}, "fed-bench": {fed, [2]string{"s1", "s2"}, "sample"}}
	for name, tt := range sets {
		one, two := half(tt.ids[0], tt.field), half(tt.ids[1], tt.field)
		a := runFolder(t, "aaaaaaaaaaaa", one)
		for _, other := range []string{runFolder(t, "bbbbbbbbbbbb", two), write(t, "p.jsonl", two)} {
			if _, err := tt.set.ReadAll([]string{a, other}); err == nil || !strings.Contains(err.Error(),
				"of aaaaaaaa before: one judge was expected") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if _, err := tt.set.ReadAll([]string{a, runFolder(t, "aaaaaaaaaaaa", two)}); err != nil {
			t.Errorf("%s: two parts of one run: %v", name, err)
		}
	}
	rows := func(model string) string { return `{"id": "1", "model": "` + model + `", "score": 3}` }
	a, b := runFolder(t, "aaaaaaaaaaaa", rows("A")), runFolder(t, "bbbbbbbbbbbb", rows("B"))
	if _, err := ReadScores([]string{a, b}, "score", false); err == nil || !strings.Contains(err.Error(), "one judge") {
		t.Error(err)
	}
	if _, err := ReadScores([]string{a, runFolder(t, "aaaaaaaaaaaa", rows("B"))}, "score", false); err != nil {
		t.Error(err)
	}
	by := func(model, metric string) string {
		return `{"id": "1", "model": "` + model + `", "score": 3, "by": {"score": "` + metric + `"}}`
	}
	if _, err := ReadScores([]string{write(t, "a.jsonl", by("A", "x")+"\n"+by("B", "y"))}, "score", false); err == nil {
		t.Error("two metrics in one ranking")
	}
}

// Editors that two judges scored are not compared sample by sample, and the reason is told.
func TestDuelsOfOneJudge(t *testing.T) {
	s := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)}).(Mixed)
	line := func(model string) string {
		return `{"id": "7/1", "model": "` + model + `", "score": 3}` + "\n" +
			`{"id": "7/2", "model": "` + model + `", "score": 4}`
	}
	for _, same := range []bool{true, false} {
		second := "bbbbbbbbbbbb"
		if same {
			second = "aaaaaaaaaaaa"
		}
		list, err := s.ReadAll([]string{runFolder(t, "aaaaaaaaaaaa", line("A")), runFolder(t, second, line("B"))})
		if err != nil {
			t.Fatal(err)
		}
		r := &Report{Benchmark: magicBrush}
		for _, e := range list {
			r.Add(e.Name, e.Predictions)
		}
		if err := r.Compare(20, 1); err != nil {
			t.Fatal(err)
		}
		notes := strings.Join(r.Comparison.Notes, "\n")
		if told := strings.Contains(
			notes,
			"who wins where is not told",
		); told == same ||
			(len(r.Comparison.Duels) == 1) != same {
			t.Errorf("one judge %v: %d duels, %s", same, len(r.Comparison.Duels), notes)
		}
	}
}

// A name of an editor comes before words for sides; where both are one, the vote is refused.
func TestSidesOfVotes(t *testing.T) {
	for _, tt := range []struct {
		vote, a, b string
		want       int
		refused    bool
	}{
		{"x", "x", "y", 1, false}, {"y", "x", "y", -1, false}, {"left", "x", "y", 1, false}, {"tie", "x", "y", 0, false},
		{"a", "b", "a", 0, true}, {"b", "b", "a", 0, true}, {"a", "a", "b", 1, false}, {"tie", "tie", "y", 0, true},
		{"z", "x", "y", 0, true},
	} {
		got, err := sideOf(tt.vote, tt.a, tt.b, voteWords)
		if got != tt.want || (err != nil) != tt.refused {
			t.Errorf("%+v: %d, %v", tt, got, err)
		}
	}
}

// fedLines are samples of a method with components that follow from their numbers.
func fedLines(ids []int, more float64) string {
	text := ""
	for _, id := range ids {
		v := float64(id%7)/10 + more
		text += fmt.Sprintf(`{"sample": "s%d", "id": %v, "bg_rmse": 12, "pq": 8, "sc": 7, "gta": 6, "lpips_src_trg": 0.1, `+
			`"lpips_src_gt": 0.1}`+"\n", id, v)
	}
	return text
}

// Files of FED-Bench are compared sample by sample, whatever the order of their lines, and files of other samples have
// no column in common.
func TestFEDBenchAlignsFiles(t *testing.T) {
	s := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5})
	ids := []int{1, 2, 3, 4, 5, 6, 7, 8, 9}
	turned := slices.Clone(ids)
	slices.Reverse(turned)
	a := must[Predictions](t)(s.Read(write(t, "a.jsonl", fedLines(ids, 0))))
	b := must[Predictions](t)(s.Read(write(t, "b.jsonl", fedLines(ids, 0.1))))
	back := must[Predictions](t)(s.Read(write(t, "c.jsonl", fedLines(turned, 0.1))))
	c1 := must[*Comparison](t)(Compare([]string{"a", "b"}, []Predictions{a, b}, 50, 1))
	c2 := must[*Comparison](t)(Compare([]string{"a", "c"}, []Predictions{a, back}, 50, 1))
	for i, d := range c1.Differences {
		if d.Number != "id" {
			continue
		}
		e := c2.Differences[i]
		if !equal(float64(d.Difference), 0.1) || !equal(float64(d.Low), 0.1) || !equal(float64(e.High), 0.1) ||
			!equal(float64(e.Low), 0.1) {
			t.Errorf("%+v, %+v: each sample differs by 0.1", d, e)
		}
	}
	other := must[Predictions](t)(s.Read(write(t, "o.jsonl", fedLines([]int{1, 2, 3, 4, 5, 6, 7, 8, 10}, 0.1))))
	c := must[*Comparison](t)(Compare([]string{"a", "o"}, []Predictions{a, other}, 50, 1))
	if c.Units != 8 {
		t.Errorf("%d units, want the 8 samples that both have", c.Units)
	}
	r := &Report{Benchmark: fedBench}
	r.Add("a", a)
	r.Add("o", other)
	for _, row := range r.Summary().Rows[:2] {
		n := 0
		for _, v := range row.Cells {
			if v == v {
				n++
			}
		}
		if n > len(row.Cells)/2 {
			t.Errorf("%s shares columns with samples that it does not have", row.Name)
		}
	}
	if text := strings.Join(r.Remarks(), "\n"); !strings.Contains(text, "computed on other samples") {
		t.Error(text)
	}
	r = &Report{Benchmark: fedBench}
	r.Add("a", a)
	r.Add("c", back)
	for _, v := range r.Summary().Rows[1].Cells {
		if v != v {
			t.Error("the same samples in another order stand apart")
		}
	}
}

// What a file states must be on the scale, and must not contradict what it follows from.
func TestStatedNumbers(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"gedit.jsonl": `{"task_type": "ps_human", "key": "k", "instruction": "x", "instruction_language": "en", ` +
			`"input_image_raw": "a.png"}`,
		"datav2_total_w_subtask.json": `[{"index": "i", "category": "causal_reasoning", ` +
			`"instruction": "x", "image": "a.png"}]`,
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	kris := t.TempDir()
	if err := os.MkdirAll(filepath.Join(kris, "biology"), 0o777); err != nil {
		t.Fatal(err)
	}
	annotation := filepath.Join(kris, "biology", "annotation.json")
	if err := os.WriteFile(annotation, []byte(`{"1": {"ori_img": "1.jpg", "ins_en": "x"}}`), 0o666); err != nil {
		t.Fatal(err)
	}
	sets := map[string]Set{
		"gedit": loadSet(t, gEditBench, Options{Data: filepath.Join(dir, "gedit.jsonl")}),
		"rise":  loadSet(t, riseBench, Options{Data: dir}), "kris": loadSet(t, krisBench, Options{Data: kris}),
		"brush": loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)}),
		"fed":   loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5}),
	}
	for _, tt := range []struct{ set, row, want string }{
		{"gedit", `{"id": "k", "score": 80}`, "score is 80"},
		{"gedit", `{"id": "k", "G_O": 75}`, "G_O is 75"},
		{"gedit", `{"id": "k", "semantic": 4, "perceptual": 9, "G_O": 8}`, "its other numbers make 6 of it"},
		{"gedit", `{"id": "k", "semantic": 4, "perceptual": 8, "G_O": 5.66}`, ""},
		{"rise", `{"id": "i", "score": 80}`, "score is 80"},
		{"rise", `{"id": "i", "rise": 101}`, "rise is 101"},
		{"rise", `{"id": "i", "reasoning": 5, "consistency": 5, "plausibility": 5, "rise": 50}`, "make 100 of it"},
		{"kris", `{"id": "biology/1", "kris": 50}`, "kris is computed from VC, VQ, IF, KP"},
		{"brush", `{"id": "7/1", "lpips": -3, "by": {"lpips": "v1"}}`, "lpips is -3"},
		{"brush", `{"id": "7/1", "dino_i": 25, "by": {"dino_i": "x"}}`, "dino_i is 25"},
		{"fed", strings.Replace(fedLines([]int{1}, 0), "{", `{"clip_t": 25, `, 1), "clip_t is 25"},
		{"fed", strings.Replace(fedLines([]int{1}, 0), "{", `{"lpips_face": -3, `, 1), "lpips_face is -3"},
	} {
		_, err := sets[tt.set].Read(write(t, "p.jsonl", tt.row))
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: %s: %v, want %q", tt.set, tt.row, err, tt.want)
		}
	}
}

// A number on half of the samples has the share in its key, in every object of the JSON.
func TestSharesInJSON(t *testing.T) {
	s := loadSet(t, magicBrush, Options{Data: gradedFolder(t, 2)})
	p := must[Predictions](t)(s.Read(write(t, "p.jsonl", `{"id": "7/1", "l1": 0.5, "dino": 0.25}`+"\n"+
		`{"id": "7/2", "dino": 0.25}`)))
	raw := must[[]byte](t)(json.Marshal(p.Result().JSON))
	var v struct {
		Parts map[string]map[string]float64 `json:"parts"`
	}
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	single := v.Parts["single turn"]
	if _, whole := single["l1"]; whole || single["l1 (50% of 2)"] != 0.5 || single["dino"] != 0.25 {
		t.Errorf("%s", raw)
	}
}

// Scores that plainly are on another scale than the rule is made for have a column of their own.
func TestScaleOfADIEERule(t *testing.T) {
	s := loadSet(t, genAIBench, Options{Data: "testdata"})
	lines := func(scale float64) Predictions {
		text := ""
		for i := range 40 {
			text += fmt.Sprintf(`{"id": "%d", "left": %v, "right": %v}`+"\n", i, scale*float64(i%11), scale*float64(i*7%11))
		}
		return must[Predictions](t)(s.Read(write(t, "p.jsonl", text)))
	}
	r := &Report{Benchmark: genAIBench}
	for name, scale := range map[string]float64{"ten": 1, "one": 0.1, "hundred": 10} {
		r.Add(name, lines(scale))
	}
	n := 0
	for _, c := range r.columns() {
		if c.Rule == "adiee" {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d columns of the rule adiee, want three: %v", n, r.Summary().Columns)
	}
}

// Samples of several sources are asked about with all of them, frames in the order of their places.
func TestKRISSources(t *testing.T) {
	for _, tt := range []struct {
		category, names, kind, sources string
	}{
		{"temporal_prediction", "2-1.jpg 2-4.jpg 2-2.jpg", "frame 3", "2-1.jpg 2-2.jpg 2-4.jpg"},
		{"temporal_prediction", "9-2.png 9-3.png 9-4.png", "frame 1", "9-2.png 9-3.png 9-4.png"},
		{"temporal_prediction", "9-2.png 9-2.png 9-4.png", "", ""},
		{"temporal_prediction", "9-2.png 9-3.png 9-5.png", "", ""},
		{"temporal_prediction", "9-1.png 9-2.png", "", ""},
		{"multi-element_composition", "1-1.jpg 1-2.jpg", "2 elements", "1-1.jpg 1-2.jpg"},
		{"multi-element_composition", "1 2 3 4 5 6", "", ""},
		{"color_change", "1 2 3", "", ""},
	} {
		kind, sources := krisSources(tt.category, strings.Fields(tt.names))
		if kind != tt.kind || strings.Join(sources, " ") != tt.sources {
			t.Errorf("%+v: %s, %v", tt, kind, sources)
		}
	}
}

// FED-Bench's Table 4 has the methods by both kinds of instructions side by side, and says where a cell stands on less.
func TestFEDBenchTable4(t *testing.T) {
	s := loadSet(t, fedBench, Options{BGNorm: "linear:255", Sigma: 0.5})
	text := ""
	for k, part := range []string{"A dense", "A simple", "B dense", "B simple"} {
		method, kind, _ := strings.Cut(part, " ")
		ids := []int{1, 2, 3}
		if part == "B simple" {
			ids = ids[:2]
		}
		tags := fmt.Sprintf(`{"method": %q, "instructions": %q, "expression": "happy", `, method, kind)
		text += strings.ReplaceAll(fedLines(ids, float64(k)/100), "{", tags)
	}
	p := must[Predictions](t)(s.Read(write(t, "p.jsonl", text)))
	tables := p.Result().Tables
	at := slices.IndexFunc(tables, func(t Table) bool { return strings.Contains(t.Title, "Table 4") })
	if at < 0 {
		t.Fatal("there is no such table")
	}
	table := tables[at]
	if len(table.Columns) != 14 || table.Columns[7] != "simple: id" || table.Rows[0].Name != "B" ||
		!equal(table.Rows[0].Cells[0], 0.2+0.02) || table.Rows[0].Marks[7] != " (2 of 3)" || table.Rows[0].Marks[0] != "" ||
		len(table.Notes) != 1 {
		t.Errorf("%+v", table)
	}
}
