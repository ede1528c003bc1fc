package score

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// editorFixtures are the fixtures of tools/oracle/editors.py.
type editorFixtures struct {
	GEdit struct {
		Rows []struct {
			Key, Task, Lang string
			Intersection    bool
			SC, PQ          float64
		}
		Expect map[string]float64
	}
	ImgEdit struct {
		Data   map[string]map[string]string
		Texts  map[string]string
		Single map[string]float64
		Expect map[string]float64
	}
	MagicBrush struct{ Expect map[string]float64 }
	RISE       struct {
		Data, Lines []map[string]any
		Expect      map[string]float64
	}
}

func readEditorFixtures(t *testing.T) (f editorFixtures) {
	t.Helper()
	testfile.ReadJSON(t, "../../../internal/benchmarks/testdata/editors.json", &f)
	return f
}

// put writes a file below a folder.
func put(t *testing.T, dir, name string, content any) {
	t.Helper()
	raw, ok := content.([]byte)
	if !ok {
		var err error
		if raw, err = json.Marshal(content); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o666); err != nil {
		t.Fatal(err)
	}
}

// numbersOf returns the numbers of a result by name.
func numbersOf(v map[string]any) map[string]float64 {
	out := map[string]float64{}
	for _, n := range v["numbers"].([]any) {
		one := n.(map[string]any)
		if x, ok := one["value"].(float64); ok {
			out[one["name"].(string)] = x
		}
	}
	return out
}

func expectNumbers(t *testing.T, got, want map[string]float64, tolerance float64) {
	t.Helper()
	for name, v := range want {
		if g, ok := got[name]; !ok || !(math.Abs(g-v) <= tolerance) {
			t.Errorf("%s: %v, want %v (of %v)", name, g, v, got)
		}
	}
}

// TestGEdit: the authors' files result in the authors' means; a VLM judge is run on the pictures at their original
// size.
func TestGEdit(t *testing.T) {
	long.Test(t)
	f, dir := readEditorFixtures(t).GEdit, t.TempDir()
	picture, err := os.ReadFile(filepath.Join(oracle.Folders(t)[0], "images", "coffee.png"))
	if err != nil {
		t.Fatal(err)
	}
	put(t, dir, "coffee.png", picture)
	var table strings.Builder
	files := map[string][][]string{}
	for _, r := range f.Rows {
		line, _ := json.Marshal(map[string]any{"task_type": r.Task, "key": r.Key, "instruction": "do " + r.Key,
			"instruction_language": r.Lang, "input_image_raw": "coffee.png", "Intersection_exist": r.Intersection})
		table.Write(append(line, '\n'))
		put(t, dir, filepath.Join("M", "fullset", r.Task, r.Lang, r.Key+".png"), picture)
		files[r.Task] = append(files[r.Task], []string{r.Key, "x.png", "do", fmt.Sprint(r.SC), fmt.Sprint(r.PQ),
			fmt.Sprint(r.Intersection), r.Lang})
	}
	put(t, dir, "gedit.jsonl", []byte(table.String()))
	var paths []string
	for task, rows := range files {
		var b strings.Builder
		w := csv.NewWriter(&b)
		w.Write([]string{"key", "edited_image", "instruction", "sementics_score", "quality_score", "intersection_exist",
			"instruction_language"})
		w.WriteAll(rows)
		name := "M_" + task + "_all_vie_score.csv"
		put(t, dir, name, []byte(b.String()))
		paths = append(paths, filepath.Join(dir, name))
	}
	data := filepath.Join(dir, "gedit.jsonl")
	v := benchJSON(t, "gedit-bench", "--ratings", data, "--components", strings.Join(paths, ","), "--resamples", "20")
	expectNumbers(t, numbersOf(v), f.Expect, 1e-12)
	url := answering(t, func(string) string { return `{"score": [8, 6], "reasoning": "so"}` })
	v = benchJSON(t, "gedit-bench", "--ratings", data, "--editors", filepath.Join(dir, "M"), "--judge", "viescore",
		"--url", url,
		"--model", "m", "--store", filepath.Join(dir, "answers"), "--out", filepath.Join(dir, "run"), "--resamples", "20")
	for name, x := range numbersOf(v) {
		if !(math.Abs(x-6) <= 1e-12) {
			t.Errorf("%s is %v, want 6", name, x)
		}
	}
	if n := numbersOf(v); len(n) != 16 {
		t.Errorf("%v", n)
	}
	two := ""
	for i, r := range f.Rows { // B is better in English, by one
		same := float64(i % 5)
		for name, v := range map[string]float64{"A": same, "B": same + map[string]float64{"en": 1}[r.Lang]} {
			line, _ := json.Marshal(map[string]any{"id": r.Key, "model": name, "score": v})
			two += string(line) + "\n"
		}
		put(t, dir, filepath.Join("A", "fullset", r.Task, r.Lang, r.Key+".png"), picture)
		put(t, dir, filepath.Join("B", "fullset", r.Task, r.Lang, r.Key+".png"), picture)
	}
	put(t, dir, "two.jsonl", []byte(two))
	v = benchJSON(t, "gedit-bench", "--ratings", data, "--components", filepath.Join(dir, "two.jsonl"), "--editors",
		filepath.Join(dir, "A")+","+filepath.Join(dir, "B"), "--resamples", "20", "--report", filepath.Join(dir, "report"))
	duel := v["comparison"].(map[string]any)["who_wins_where"].([]any)[0].(map[string]any)
	sides := map[string]string{}
	for _, p := range duel["where"].([]any) {
		part := p.(map[string]any)
		sides[part["name"].(string)] = fmt.Sprint(part["wins"], " ", part["losses"], " ", part["mean_lead"])
	}
	if a := duel["editor"] == "A"; sides["cn"] != "0 0 0" || a && !strings.HasSuffix(sides["en"], " -1") ||
		!a && !strings.HasSuffix(sides["en"], " 1") {
		t.Errorf("%v", duel)
	}
	put(t, dir, "half.jsonl", map[string]any{"id": f.Rows[0].Key, "model": "M", "semantic": 3})
	code, stdout, stderr := bench("gedit-bench", "--ratings", data, "--components", filepath.Join(dir, "half.jsonl"))
	if code != 0 || !strings.Contains(stdout, "% of") { // the number's name has the share of samples
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

// TestImgEdit: the authors' answers result in the authors' numbers.
func TestImgEdit(t *testing.T) {
	f, dir := readEditorFixtures(t).ImgEdit, t.TempDir()
	put(t, dir, "basic_edit.json", f.Data)
	put(t, dir, "M/result.json", f.Texts)
	v := benchJSON(t, "imgedit-bench", "--ratings", dir, "--editors", filepath.Join(dir, "M"), "--resamples", "20")
	got, want := numbersOf(v), f.Expect
	for name := range got { // one answer has no numbers, so the coverage is in the name
		base, _, _ := strings.Cut(name, " (")
		got[base] = got[name]
	}
	expectNumbers(t, got, want, 1e-12)
	if notes := fmt.Sprint(v["notes"]); !strings.Contains(notes, "1 of 24 answers have no numbers") ||
		!strings.Contains(notes, "1 answers do not have three numbers") {
		t.Errorf("notes: %s", notes)
	}
}

// TestMagicBrush: distances and similarities equal those of torch, Pillow and transformers, by the definitions of the
// authors' program.
func TestMagicBrush(t *testing.T) {
	f, dir := readEditorFixtures(t).MagicBrush, packed.Unpack(t, "../../../internal/benchmarks/testdata/magicbrush.zip")
	clip, err := filepath.Abs(filepath.Join(oracle.Folders(t)[0], "clip", "model"))
	if err != nil {
		t.Fatal(err)
	}
	here := t.TempDir()
	for name, of := range map[string]string{"clip_i": "target", "clip_t": "caption"} {
		put(t, here, name+".yaml", []byte("format: 1\nname: "+name+"\nencoder: "+clip+"\nof: [edit, "+of+"]\n"))
	}
	in := func(name string) string { return filepath.Join(here, name) }
	v := benchJSON(t, "magicbrush", "--ratings", filepath.Join(dir, "test"), "--editors", filepath.Join(dir, "M"),
		"--component",
		"l1,l2,"+in("clip_i.yaml")+","+in("clip_t.yaml"), "--out", in("run"), "--resamples", "20")
	expectNumbers(t, numbersOf(v), f.Expect, 2e-6)
	if n := len(numbersOf(v)); n != 8 {
		t.Errorf("%v", v["numbers"])
	}
	url := answering(t, func(body string) string {
		if strings.Contains(body, "turn 2") {
			return `{"score": [4, 9], "reasoning": "so"}`
		}
		return `{"score": [9, 9], "reasoning": "so"}`
	})
	v = benchJSON(t, "magicbrush", "--ratings", filepath.Join(dir, "test"), "--editors", filepath.Join(dir, "M"),
		"--judge",
		"viescore", "--url", url, "--model", "m", "--store", in("answers"), "--out", in("judged"), "--resamples", "20")
	want := (4*9.0 + 2*6.0) / 6 // six turns, of which two are second ones
	expectNumbers(t, numbersOf(v), map[string]float64{"score: single turn": want}, 1e-9)
}

// TestRISE: reasoning, consistency and plausibility result in the numbers of pandas, by the published rule and by the
// authors' program.
func TestRISE(t *testing.T) {
	f, dir := readEditorFixtures(t).RISE, t.TempDir()
	put(t, dir, "datav2_total_w_subtask.json", f.Data)
	var lines []byte
	for _, line := range f.Lines {
		raw, err := json.Marshal(line)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(append(lines, raw...), '\n')
	}
	put(t, dir, "c.jsonl", lines)
	v := benchJSON(t, "rise-bench", "--ratings", dir, "--components", filepath.Join(dir, "c.jsonl"), "--resamples", "20")
	expectNumbers(t, numbersOf(v), f.Expect, 1e-9)
	put(t, dir, "bad.jsonl", map[string]any{"id": f.Data[0]["index"], "model": "M", "reasoning": 80})
	code, stdout, stderr := bench("rise-bench", "--ratings", dir, "--components", filepath.Join(dir, "bad.jsonl"))
	if code == 0 || !strings.Contains(stdout+stderr, "reasoning is 80") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}
