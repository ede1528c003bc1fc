package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay"
	"assay/data"
	"assay/internal/exit"
	"assay/internal/labeling"
	"assay/internal/testfile"
	"assay/lab/internal/miniature"
)

// run runs one command line in this process.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = app.Run(t.Context(), args, &out, &errs)
	return code, out.String(), errs.String()
}

// TestLabels labels a data set in both forms: the ids of the label table match the truth.
func TestLabels(t *testing.T) {
	for _, form := range []string{"files", "embed"} {
		t.Run(form, func(t *testing.T) { testLabels(t, form) })
	}
}

func testLabels(t *testing.T, form string) {
	dir := filepath.Join(t.TempDir(), "set")
	args := []string{"--photos", "../../examples/photos", "--out", dir, "--instructions", "28", "--chains", "8",
		"--held", "tissue,rocket", "--pictures", form}
	code, out, errs := run(t, append(args, "--json")...)
	var summary struct {
		miniature.Summary
		PicturesPerSecond float64 `json:"pictures_per_second"`
	}
	if err := json.Unmarshal([]byte(out), &summary); code != exit.Done || err != nil || summary.PicturesPerSecond <= 0 {
		t.Fatalf("exit code %d, want %d: %v %s%s", code, exit.Done, err, out, errs)
	}
	if code, _, errs := run(t, args...); code != exit.Wrong || !strings.Contains(errs, "exists already") {
		t.Errorf("a second time: exit code %d: %s; want %d and \"exists already\"", code, errs, exit.Wrong)
	}
	about, err := os.ReadFile(filepath.Join(dir, miniature.AboutFile))
	if err != nil {
		t.Fatal(err)
	}
	_, config, ok := strings.Cut(string(about), "    sources:\n")
	if !ok || strings.Contains(string(about), "tissue") {
		t.Fatalf("%s", about)
	}
	path := filepath.Join(dir, "label.yaml")
	config = "out: out\nprofile: adiee-released\nsources:" + strings.ReplaceAll("\n"+config, "\n    ", "\n")
	if err := os.WriteFile(path, []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := assay.Label(t.Context(), assay.Labeling{File: path}); err != nil {
		t.Fatalf("%v\n%s", err, config)
	}
	checkLabels(t, dir)
}

// checkLabels compares the label table of a miniature data set with its truth.
func checkLabels(t *testing.T, dir string) {
	t.Helper()
	truth, err := miniature.ReadTruth(filepath.Join(dir, miniature.TruthFile))
	if err != nil {
		t.Fatal(err)
	}
	degrees := map[string]float64{}
	for _, row := range truth {
		degrees[row.ID] = row.Degree
	}
	table, err := data.OpenTable(filepath.Join(dir, "out", labeling.TableFile))
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	found := map[string]int{}
	for row, err := range table.All() {
		if err != nil {
			t.Fatal(err)
		}
		found[row.Why]++
		switch row.Why {
		case "source", "target", "chain_foreign": // not an editor's
			continue
		}
		_, id, _ := strings.Cut(row.ID, "/")
		degree, ok := degrees[id]
		if !ok {
			t.Errorf("no truth for %s (%s)", row.ID, row.Why)
		}
		if exact := strings.HasPrefix(row.Why, "chain_") &&
			row.Why != "chain_over_edited"; exact &&
			!(math.Abs(degree-*row.Label) <= 1e-12) {
			t.Errorf("%s: %s is labelled %v, the truth is %v", row.ID, row.Why, *row.Label, degree)
		}
	}
	for why, want := range map[string]int{"source": 28, "target": 28, "weak_editor": 40} {
		if n := found[why]; n < want || n > 60 {
			t.Errorf("%d rows by rule %s: %v", n, why, found)
		}
	}
}

func TestExam(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exam")
	if code, _, errs := run(t, "--photos", "../../examples/photos", "--out", dir, "--instructions", "14", "--only",
		"tissue", "--exam"); code != exit.Done {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	truth := filepath.Join(dir, miniature.TruthFile)
	all, err := miniature.ReadTruth(truth)
	if err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	for _, row := range all {
		fmt.Fprintf(&rows, "{\"id\": %q, \"score01\": %v}\n", row.ID, row.Degree)
	}
	scores := testfile.Write(t, "scores.jsonl", rows.String())
	code, out, errs := run(t, "evaluate", "--truth", truth, "--scores", scores, "--json")
	var r miniature.Result
	if err := json.Unmarshal([]byte(out), &r); code != exit.Done || err != nil || !(r.Spearman >= 0.999999) ||
		r.PairAccuracy != 1 || r.Outputs != len(all) {
		t.Errorf("the truth as scores: exit code %d: %v %s%s", code, err, out, errs)
	}
	code, out, _ = run(t, "evaluate", "--truth", truth, "--scores", scores)
	if code != exit.Done || !strings.Contains(out, "pair accuracy 1.000") || !strings.Contains(out, "perfect above noop") {
		t.Errorf("exit code %d: %s", code, out)
	}
}

func TestMeasure(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "exam")
	tasks := []string{"--photos", "../../examples/photos", "--instructions", "3", "--only", "tissue", "--exam"}
	if code, _, errs := run(t, append(tasks, "--out", dir)...); code != exit.Done {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	edits, out := filepath.Join(dir, "edits.jsonl"), filepath.Join(dir, "measured.jsonl")
	measure := append(append([]string{"measure"}, tasks...), "--in", edits)
	if code, _, errs := run(t, append(measure, "--out", out)...); code != exit.Done {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	code, printed, errs := run(t, "evaluate", "--truth", filepath.Join(dir, "truth.jsonl"), "--scores", out, "--column",
		"truth", "--json")
	var r miniature.Result
	if err := json.Unmarshal([]byte(printed), &r); code != exit.Done || err != nil || !(r.Spearman >= 0.95) {
		t.Errorf("exit code %d: %v %s%s; want a Spearman of 0.95", code, err, printed, errs)
	}
	written, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if _, printed, _ := run(t, measure...); printed != string(written) {
		t.Errorf("standard output has %q, the file %q: want the same", printed, written)
	}
	if code, _, errs := run(t, append(measure, "--seed", "2")...); code != exit.Failed ||
		!strings.Contains(errs, "edits.jsonl:1: no task of the data set") {
		t.Errorf("another seed: exit code %d: %s; want %d and the row", code, errs, exit.Failed)
	}
}

func TestUsage(t *testing.T) {
	photos, out := "../../examples/photos", filepath.Join(t.TempDir(), "out")
	for _, c := range []struct {
		args string
		want string
	}{
		{"", "--photos and --out are needed"},
		{"--photos nowhere --out " + out, "nowhere"},
		{"--photos " + photos + " --out " + out + " --size 50", "a size of 50 pixels"},
		{"--photos " + photos + " --out " + out + " --held cat", `no photograph named "cat", only astronaut`},
		{"--photos " + photos + " --out " + out + " --held coffee --only tissue", "use one of the two"},
		{"--photos " + photos + " --out " + out + " --pictures tar", "want files or embed"},
		{"--photos " + photos + " --out " + out + " --instructions 0", "want at least 1"},
		{"--photos " + photos + " --out " + out + " --exam --augment", "--augment is not for an exam"},
		{"measure --photos " + photos, "--photos and --in are needed"},
		{"evaluate --truth t.jsonl", "--truth and --scores are needed"},
	} {
		t.Run(c.want, func(t *testing.T) {
			code, _, errs := run(t, strings.Fields(c.args)...)
			if code != exit.Wrong || !strings.Contains(errs, c.want) {
				t.Errorf("miniature %s: exit code %d: %s; want %d and %q", c.args, code, errs, exit.Wrong, c.want)
			}
		})
	}
}
