package main

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// The wording is taken from quoted lines, with the instruction in quotes and a full stop after answers; the rest of a
// configuration does not change.
func TestWording(t *testing.T) {
	dir := t.TempDir()
	paper, config := filepath.Join(dir, "paper.txt"), filepath.Join(dir, "scorer.yaml")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write(paper, "The text “[INSTRUCTION]” is replaced.\n  • “Was [INSTRUCTION] done?”\n"+
		"\"Rate 'x' for [INSTRUCTION]\",\n”It’s right-quoted: [INSTRUCTION]!”,\n"+
		"  • “Fine: [SCORE]”\n  • “[SCORE].”\nsaid “quality [SCORE] out of five” there\n")
	write(
		config,
		"# about\nout: x # kept\nquestion:\n  - 'old [INSTRUCTION]'\n  - more\nanswer: [' [SCORE].']\ntext_loss: all\n",
	)
	got, err := (&wording{from: paper}).write([]string{config})
	if err != nil || got.Questions != 3 || got.Answers != 2 || got.Published {
		t.Fatalf("%+v, %v", got, err)
	}
	raw, err := os.ReadFile(config)
	want := `# about
out: x # kept
question:
  - 'Was "[INSTRUCTION]" done?'
  - 'Rate ''x'' for "[INSTRUCTION]"'
  - 'It’s right-quoted: "[INSTRUCTION]"!'
answer:
  - ' Fine: [SCORE].'
  - ' [SCORE].'
text_loss: all
`
	if err != nil || string(raw) != want {
		t.Errorf("%v\n%s", err, raw)
	}
	write(config, "out: x\n")
	if _, err := (&wording{from: paper}).write([]string{config}); err == nil ||
		!strings.Contains(err.Error(), "0 keys") {
		t.Errorf("without the key: %v", err)
	}
	write(paper, "nothing\n")
	if _, err := (&wording{from: paper}).write(nil); err == nil || !strings.Contains(err.Error(), "0 questions") {
		t.Errorf("without texts: %v", err)
	}
}

// A conversation has both pictures and the judge's question; its answer is the label on 0 to 10.
func TestConversations(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	rows := `{"id": "a", "source": "s.png", "edit": "e.png", "instruction": "blur it", "label": 0.25, "split": "train"}
{"id": "b", "source": "s.png", "edit": "e.png", "instruction": "blur it", "label": null, "split": "train"}
{"id": "c", "source": "s.png", "edit": "e.png", "instruction": "blur it", "label": 1, "split": "validation"}
`
	for name, text := range map[string]string{
		"table.jsonl": rows,
		"ask.jinja":   "Done: {{ instruction }}?\n",
		"bad.jinja":   "Done?\n",
	} {
		if err := os.WriteFile(in(name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f := conversations{in: in("table.jsonl"), split: "train", prompt: in("ask.jinja"), out: in("out.jsonl")}
	n, err := f.write()
	raw, readErr := os.ReadFile(f.out)
	want := `{"id":"a","messages":[{"role":"user","content":[{"type":"image","image":"s.png"},` +
		`{"type":"image","image":"e.png"},{"type":"text","text":"Done: blur it?"}]},` +
		`{"role":"assistant","content":"2.5"}]}` + "\n"
	if err != nil || readErr != nil || n != 1 || string(raw) != want {
		t.Errorf("%d, %v %v\n%s", n, err, readErr, raw)
	}
	f.prompt = in("bad.jinja")
	if _, err := f.write(); err == nil || !strings.Contains(err.Error(), "{{ instruction }}") {
		t.Errorf("a prompt without the instruction: %v", err)
	}
}

// There is only one small pretrained backbone: scaled down, the recipe for the other backbone equals the full recipe
// under another name, and reproduce/adiee says that its result is the same.
func TestSmallQwenIsFull(t *testing.T) {
	dir := t.TempDir()
	if _, err := (&small{"../..", dir}).write(); err != nil {
		t.Fatal(err)
	}
	for _, stage := range []string{"classifier.yaml", "regression.yaml"} {
		texts := map[string]string{}
		for _, name := range []string{"full", "qwen"} {
			raw, err := os.ReadFile(filepath.Join(dir, "reproduce", "adiee", name, stage))
			if err != nil {
				t.Fatal(err)
			}
			texts[name] = strings.ReplaceAll(string(raw), name, "NAME")
		}
		if texts["full"] != texts["qwen"] {
			t.Errorf("%s: %s", stage, cmp.Diff(texts["full"], texts["qwen"]))
		}
	}
}

// A small configuration keeps its specific parts and takes the rest from the demonstration.
func TestSmall(t *testing.T) {
	dir := t.TempDir()
	if n, err := (&small{"../..", dir}).write(); err != nil || n < 18 {
		t.Fatal(n, err)
	}
	full, err := readYAML(filepath.Join(dir, "reproduce", "adiee", "full", "regression.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	book, err := readYAML("../../reproduce/adiee/full/regression.yaml")
	if err != nil {
		t.Fatal(err)
	}
	demo, err := readYAML("../../examples/miniature/scorer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for key, from := range map[string]yaml.MapSlice{"out": book, "data": book, "head": book, "question": demo,
		"lora": demo, "optimizer": demo, "pair": demo} {
		got, _ := get(full, key)
		want, ok := get(from, key)
		if !ok || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", key, got, want)
		}
	}
	loss, _ := get(full, "loss")
	if got := fmt.Sprint(loss); got != "map[score:100 text:0]" {
		t.Errorf("loss: %s", got)
	}
	label, err := readYAML(filepath.Join(dir, "reproduce", "adiee", "magicbrush", "label.yaml"))
	if profile, _ := get(label, "profile"); err != nil || profile != "adiee-paper" {
		t.Errorf("profile: %v, %v", profile, err)
	}
}

// A report of several methods is listed by method; the same judge in several reports by report; others unchanged. A
// small configuration that trains all weights has no adapter.
func TestResultsByMethod(t *testing.T) {
	dir := t.TempDir()
	one := filepath.Join(dir, "a", "results.json")
	report := `{"figures": [{"system": "all", "name": "sc", "benchmark": "b", "value": 5},
		{"system": "other", "name": "sc", "benchmark": "b", "value": null}],
		"boards": [{"of": "all", "part": "simple", "figures": [{"system": "X", "name": "sc", "benchmark": "b", "value": 4,
		"low": 3, "high": 5, "chance": 1}]}]}`
	two := filepath.Join(dir, "c", "results.json")
	for path, text := range map[string]string{one: report,
		two: `{"figures": [{"system": "other", "name": "sc", "benchmark": "b", "value": 1}]}`} {
		if err := os.Mkdir(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	f := results{runs: dir, out: filepath.Join(dir, "out.md")}
	n, err := f.write()
	raw, readErr := os.ReadFile(f.out)
	want := "| b | sc | other (a) | undefined |  |  |\n| b | sc | X, simple | 4.000 | 3.000 to 5.000 | 1.000 |\n" +
		"| b | sc | other (c) | 1.000 |  |  |\n"
	if err != nil || readErr != nil || n != 3 || !strings.HasSuffix(string(raw), "---|\n"+want) {
		t.Errorf("%d, %v %v\n%s", n, err, readErr, raw)
	}
	if _, err := (&small{"../..", dir}).write(); err != nil {
		t.Fatal(err)
	}
	full, err := readYAML(filepath.Join(dir, "reproduce", "mvei", "adaptation", "full.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := get(full, "text"); fmt.Sprint(text) != "map[tune:full]" {
		t.Errorf("text: %v", text)
	}
	if epochs, _ := get(full, "epochs"); fmt.Sprint(epochs) != fmt.Sprint(smallEpochs) {
		t.Errorf("%v epochs", epochs)
	}
	if steps, ok := get(full, "steps"); ok {
		t.Errorf("%v steps: the demonstration's are for more data", steps)
	}
	if lora, ok := get(full, "lora"); ok {
		t.Errorf("lora: %v", lora)
	}
}
