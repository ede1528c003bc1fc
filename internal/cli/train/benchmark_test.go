package train

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
	"assay/internal/benchmarks/runner"
	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/records"
	"assay/model"
)

// writeRatings makes AURORA-Bench's file of ratings over the oracle's pictures.
func writeRatings(t *testing.T) string {
	t.Helper()
	dir, root := t.TempDir(), oracle.Folders(t)[0]
	var rows []map[string]any
	for i, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json")) {
		for rating, gen := range []string{p.Input, p.Edited} {
			in, err := filepath.Rel(dir, filepath.Join(root, p.Input))
			if err != nil {
				t.Fatal(err)
			}
			out, err := filepath.Rel(dir, filepath.Join(root, gen))
			if err != nil {
				t.Fatal(err)
			}
			rows = append(rows, map[string]any{"input": in, "gen": out, "prompt": fmt.Sprintf("edit number %d", i),
				"score": 2 * rating, "model": "editor"})
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "human_ratings_updated_prompt.json")
	if err := os.WriteFile(path, text, 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// validations reads the validation lines of a run.
func validations(t *testing.T, run string) (out []records.ValidationMetrics) {
	t.Helper()
	f, err := os.Open(filepath.Join(run, records.MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		var m records.ValidationMetrics
		if err := json.Unmarshal(s.Bytes(), &m); err != nil {
			t.Fatal(err)
		}
		if m.Kind == "validation" {
			out = append(out, m)
		}
	}
	return out
}

// TestBestByBenchmark: validate.by: benchmark keeps the scorer with the best number, and score bench computes the
// same number for best/. The run validates only on the benchmark's data.
func TestBestByBenchmark(t *testing.T) {
	long.Test(t)
	ratings := writeRatings(t)
	extra := fmt.Sprintf(
		"steps: 3\nvalidate: {every: 1, by: benchmark, benchmark: {name: aurora-point, ratings: %q}}\n",
		ratings,
	)
	path, out := writeRun(t, extra)
	if code, stdout, stderr := call(t, "--config", path, "--dry-run"); code != 0 ||
		!strings.Contains(stdout, "by global of aurora-point") {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := call(t, "--config", path); code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	all := validations(t, out)
	if len(all) != 3 {
		t.Fatalf("%d validations: %+v", len(all), all)
	}
	best := 0
	for i, v := range all {
		if v.Benchmark == nil || v.By != "benchmark" {
			t.Fatalf("%+v", v)
		}
		if v.Best != (i == 0 || *v.Benchmark > *all[best].Benchmark) {
			t.Errorf("validation %d: best %v, of %+v", i, v.Best, all)
		}
		if v.Best {
			best = i
		}
	}
	b, err := registry.Find("aurora-point")
	if err != nil {
		t.Fatal(err)
	}
	set, err := b.Load(protocol.Options{Data: ratings})
	if err != nil {
		t.Fatal(err)
	}
	items, err := set.(protocol.Scorable).Items()
	if err != nil {
		t.Fatal(err)
	}
	s, err := runner.OpenScorer(filepath.Join(out, config.BestDir), model.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	scores, err := (&runner.Run{Benchmark: b.Name, Items: items, Dir: t.TempDir()}).Score(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	p, err := set.Read(scores)
	if err != nil {
		t.Fatal(err)
	}
	if n := p.Result().Numbers[0]; n.Name != "global" || n.Value != float64(*all[best].Benchmark) {
		t.Errorf("score bench says %s %v of best/, training said %v", n.Name, n.Value, *all[best].Benchmark)
	}
}

// TestBenchmarkRefused: problems of validate.benchmark are reported before anything runs.
func TestBenchmarkRefused(t *testing.T) {
	of := func(more string) string {
		return fmt.Sprintf("benchmark: {name: aurora-point, ratings: %q%s}", writeRatings(t), more)
	}
	for want, validate := range map[string]string{
		"goes with validate.by":   of(""),
		"there is no benchmark":   "by: benchmark, benchmark: {name: aurora, ratings: here}",
		"has no \"mean\" here":    "by: benchmark, " + of(", number: mean"),
		"votes: not used by":      "by: benchmark, " + of(", votes: v"),
		"want the published data": "by: benchmark, benchmark: {name: aurora-point}",
	} {
		path, _ := writeRun(t, "steps: 1\nvalidate: {"+validate+"}\n")
		if code, _, stderr := call(t, "--config", path, "--dry-run"); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", want, code, stderr)
		}
	}
}

// TestBenchmarkChanged: a run is not resumed if the benchmark's ratings or pictures changed, and the error says
// which. If forced, it does not use the old numbers.
func TestBenchmarkChanged(t *testing.T) {
	ratings := writeRatings(t)
	begin := func(path string, steps int) string {
		return fmt.Sprintf("steps: %d\ncheckpoint: {steps: 1}\n"+
			"validate: {every: 1, by: benchmark, benchmark: {name: aurora-point, ratings: %q}}\n", steps, path)
	}
	path, out := writeRun(t, begin(ratings, 2))
	if code, stdout, stderr := call(t, "--config", path); code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	before := validations(t, out)
	old, err := os.ReadFile(ratings)
	if err != nil {
		t.Fatal(err)
	}
	rate := func(text string) {
		t.Helper()
		if err := os.WriteFile(ratings, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	name := filepath.Base(ratings)
	turned := strings.NewReplacer(`"score":0`, `"score":2`, `"score":2`, `"score":0`).Replace(string(old))
	for want, text := range map[string]string{
		name: turned, "pictures and texts of the edits": strings.Replace(string(old), "edit number 0", "another edit", 1),
	} {
		rate(text)
		code, _, stderr := call(t, "--config", path)
		if code != 2 || !strings.Contains(stderr, "validate.benchmark: "+want) ||
			!strings.Contains(stderr, "--force-resume") || !strings.Contains(stderr, "--fresh") {
			t.Errorf("%s: exit code %d: %s", want, code, stderr)
		}
	}
	rate(turned)
	if code, stdout, stderr := call(t, "--config", path, "--force-resume"); code != 0 {
		t.Fatalf("exit code %d:\n%s%s", code, stdout, stderr)
	}
	after := validations(t, out)
	if last := after[len(after)-1]; len(after) != len(before)+1 || !last.Best ||
		*last.Benchmark != -*before[len(before)-1].Benchmark {
		t.Errorf("%+v after %+v", after, before)
	}
	var s struct{ Best *records.ValidationMetrics }
	text, err := os.ReadFile(filepath.Join(out, config.CheckpointsDir, "step-2", "state.json"))
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if last := after[len(after)-1]; err != nil || s.Best == nil || s.Best.Benchmark == nil ||
		*s.Best.Benchmark != *last.Benchmark {
		t.Errorf("the checkpoint holds another best number: %v\n%s", err, text)
	}
	elsewhere := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(elsewhere, []byte(turned), 0o666); err != nil {
		t.Fatal(err)
	}
	yaml, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	yaml = []byte(strings.Replace(string(yaml), fmt.Sprintf("%q", ratings),
		fmt.Sprintf("%q, images: %q", elsewhere, filepath.Dir(ratings)), 1))
	if err := os.WriteFile(path, yaml, 0o666); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := call(t, "--config", path); code != 0 {
		t.Errorf("the ratings lie elsewhere: exit code %d:\n%s%s", code, stdout, stderr)
	}
}
