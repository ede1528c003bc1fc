package trainer

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/trainer/checkpoint"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
)

// TestCardOfComparisons: the card describes the comparisons, the best validation and its metric, and why the run
// ended; all sample counts are in edits.
func TestCardOfComparisons(t *testing.T) {
	path := writeGroups(t, 0, "data: {train: t.jsonl, validation: t.jsonl}\nlosses: [{kind: bradley_terry}]\n"+
		"batch_size: 4\nepochs: 40\nvalidate: {patience: 2}\n")
	text := ""
	for _, prompt := range []string{"do", "undo", "redo"} {
		text += `{"prompt": "` + prompt + `", "source": "a.png", "chosen": "e0.png", "rejected": "e1.png"}` + "\n"
		text += `{"prompt": "` + prompt + `", "source": "a.png", "chosen": "e1.png", "rejected": "e2.png"}` + "\n"
	}
	writeFiles(t, filepath.Dir(path), "t.jsonl", text, "e0.png", "0", "e1.png", "1", "e2.png", "2")
	r := train(t, path, newFake())
	card, err := os.ReadFile(filepath.Join(r.Scorer, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"steps of whole groups, at most 4 edits", "| pair accuracy |", "preferences  6;",
		"The highest pair accuracy was at step", "It ended early: 2 validations"} {
		if !strings.Contains(string(card), want) {
			t.Errorf("no %q in\n%s", want, card)
		}
	}
	for _, not := range []string{"NaN", "L1"} {
		if front, _, _ := strings.Cut(string(card), "## Configuration"); strings.Contains(front, not) {
			t.Errorf("%q in\n%s", not, front)
		}
	}
	if !r.Early || r.Groups != r.Steps || r.Samples != 3*r.Groups {
		t.Errorf("%+v", r)
	}
	best, err := os.ReadFile(filepath.Join(r.BestScorer, "README.md"))
	if err != nil || strings.Contains(string(best), "No validation so far") {
		t.Error(err, string(best))
	}
	metrics, err := os.ReadFile(filepath.Join(r.Run, records.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	var first records.StepMetrics
	line, _, _ := bytes.Cut(metrics, []byte("\n"))
	if err := json.Unmarshal(line, &first); err != nil || first.Samples != 3 || first.Groups != 1 {
		t.Errorf("%v: %s", err, line)
	}
}

// TestCardOfHub: what was fetched from the Hub is named as there, not by its folder in the cache, which is a commit.
func TestCardOfHub(t *testing.T) {
	commit := strings.Repeat("0123456789", 4)
	at := func(repository string) string {
		return filepath.Join(t.TempDir(), repository, "snapshots", commit)
	}
	path := writeRun(t, 30, "epochs: 1\n")
	table, backbone := at("datasets--org--edits"), at("models--org--base")
	for _, dir := range []string{table, backbone} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"table.jsonl", "a.png"} {
		if err := os.Rename(filepath.Join(filepath.Dir(path), name), filepath.Join(table, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer("backbone: backbone", "backbone: "+backbone, "train: table.jsonl",
		"train: "+filepath.Join(table, "table.jsonl")).Replace(string(text))
	if err := os.WriteFile(path, []byte(changed), 0o666); err != nil {
		t.Fatal(err)
	}
	r := train(t, path, newFake())
	card, err := os.ReadFile(filepath.Join(r.Scorer, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nbase_model: org/base\n", "\nbackbone: hf://org/base@" + commit + "\n",
		"Tables: hf://datasets/org/edits@" + commit + "/table.jsonl."} {
		if !strings.Contains(string(card), want) {
			t.Errorf("no %q in\n%s", want, card)
		}
	}
}

// TestCardNamesEveryMeasure: the card of a run with any validate.by says what its best validation has.
func TestCardNamesEveryMeasure(t *testing.T) {
	for by, want := range map[string]string{"": "The lowest L1 was at step 3",
		config.BySpearman:   "The highest Spearman correlation was at step 3",
		config.ByPairs:      "The highest pair accuracy was at step 3",
		config.ByDimensions: "The lowest mean error of the trained heads was at step 3",
		config.ByBenchmark:  "The best result of the benchmark was at step 3"} {
		var b strings.Builder
		m := &records.ValidationMetrics{Step: 3, By: by}
		s := &checkpoint.State{}
		s.Last, s.Best = m, m
		writeMeasures(&b, s)
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q: got %s, want %q", by, b.String(), want)
		}
	}
}
