package score

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
)

// One command goes from AIM-Bench's published layout to the numbers of two editors, with a scorer as an additional
// column; it resumes, and writes the authors' files.
func TestAIMBenchFromPictures(t *testing.T) {
	pictures := filepath.Join(oracle.Folders(t)[0], "images")
	dir := t.TempDir()
	put := func(path string, raw []byte) {
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) []byte {
		raw, err := os.ReadFile(filepath.Join(pictures, name))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var data []map[string]any
	var components strings.Builder
	for i, emotion := range []string{"awe", "fear", "anger"} {
		data = append(data, map[string]any{"original_image": fmt.Sprintf("s%d.jpg", i),
			"edited_image": fmt.Sprintf("s%d_%s_instruction_1.png", i, emotion), "edit_type": "add_object",
			"edit_prompt": "make the sky purple", "target_emotion": map[string]any{"emotion": emotion, "VAD": []int{5, 5, 5}}})
		put(fmt.Sprintf("benchmark/s%d.jpg", i), read("astronaut.png"))
		for k, editor := range []string{"A", "B"} {
			put(fmt.Sprintf("%s/edited_output/s%d_edited_%s.png", editor, i, emotion),
				read([]string{"astronaut_purple.png", "astronaut.png"}[(k+i)%2]))
			fmt.Fprintf(&components, `{"id": %d, "method": %q, "sc": [%d, 9], "pq": 7, "clip_t": 0.2, "aesthetic": 5, `+
				`"s_gtc": 6, "emotion": "awe", "vad": [4, 5, 6]}`+"\n", i, editor, 3+i+k)
		}
	}
	raw, err := json.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	put("Instructions.json", raw)
	put("c.jsonl", []byte(components.String()))
	in := func(name string) string { return filepath.Join(dir, name) }
	args := []string{"aim-bench", "--ratings", dir, "--editors", in("A") + "," + in("B"), "--components", in("c.jsonl"),
		"--by", "sc=a-judge", "--scorer", "../../../backbones/tiny-scorer", "--out", in("run"), "--resamples", "20",
		"--write-authors", in("authors")}
	v := benchJSON(t, args...)
	systems := v["systems"].([]any)
	if len(systems) != 2 || systems[0].(map[string]any)["name"] != "A" {
		t.Fatalf("%v", v)
	}
	if first := fmt.Sprint(systems[0].(map[string]any)["numbers"].([]any)[1]); !strings.Contains(first, "judge:a-judge") ||
		!strings.Contains(first, "value:4") {
		t.Errorf("sc: %s", first)
	}
	scored, err := os.ReadFile(in("run/predictions.jsonl"))
	if err != nil || strings.Count(string(scored), "\n") != 6 {
		t.Fatalf("%v\n%s", err, scored)
	}
	code, stdout, stderr := bench(args...)
	if again, err := os.ReadFile(in("run/predictions.jsonl")); err != nil || string(again) != string(scored) || code != 0 {
		t.Errorf("exit code %d, %v: the second run scored again\n%s", code, err, stderr)
	}
	for _, want := range []string{"overall", "agreement of the scorer with each component", "B - A"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("no %q in\n%s", want, stdout)
		}
	}
	for _, file := range []string{"A/eval/evaluation_scores.json", "B/eval/vad_metrics.json"} {
		if _, err := os.Stat(in("authors/" + file)); err != nil {
			t.Error(err)
		}
	}
	// the written files are valid in an editor's folder
	v = benchJSON(t, "aim-bench", "--ratings", dir, "--compare", in("authors/A")+","+in("authors/B"), "--resamples", "20")
	first := fmt.Sprint(v["systems"].([]any)[0].(map[string]any)["numbers"].([]any)[1])
	if !strings.Contains(first, "value:4") {
		t.Errorf("sc of the authors' files: %s", first)
	}
}
