package score

import (
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/packed"
)

// TestBenchAll: the headline numbers of several benchmarks equal those of their own commands, for each scorer.
// Benchmarks without data, or that cannot be scored, are listed, and a failure does not affect the others.
func TestBenchAll(t *testing.T) {
	long.Test(t)
	dir := packed.Unpack(t, "../../../internal/benchmarks/testdata/layouts.zip")
	const scorer = "../../../backbones/tiny-scorer"
	config := filepath.Join(dir, "all.yaml")
	text := "benchmarks:\n  gedit-bench: {ratings: gedit/data, editors: gedit/M}\n" +
		"  editreward-compass: {ratings: compass/reward_eval.json}\n  rise-bench: {ratings: nowhere}\n"
	if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(dir, "other")
	if err := os.CopyFS(other, os.DirFS(scorer)); err != nil {
		t.Fatal(err)
	}
	args := []string{"all", "--config", config, "--scorer", scorer, "--scorer", other,
		"--out", filepath.Join(dir, "runs"),
		"--report", filepath.Join(dir, "report"), "--resamples", "20", "--json"}
	raw, err := os.ReadFile(filepath.Join(other, "scorer.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	backbone, err := filepath.Abs("../../../backbones/tiny")
	if err != nil {
		t.Fatal(err)
	}
	raw = []byte(strings.Replace(string(raw), "backbone: ../tiny", "backbone: "+backbone, 1))
	if err := os.WriteFile(filepath.Join(other, "scorer.yaml"), raw, 0o666); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time nothing is scored
		code, stdout, stderr := bench(args...)
		if code != 1 {
			t.Fatalf("got exit code %d, want 1 of the benchmark without data\n%s%s", code, stdout, stderr)
		}
		for _, want := range []string{`"judges":["tiny-scorer","other"]`, `"not_run":"no data given"`,
			`"benchmark":"rise-bench"`, `"error":"`} {
			if !strings.Contains(strings.ReplaceAll(stdout, " ", ""), strings.ReplaceAll(want, " ", "")) {
				t.Errorf("got\n%s\nwant %s in it", stdout, want)
			}
		}
	}
	own := benchJSON(t, "gedit-bench", "--ratings", filepath.Join(dir, "gedit/data"), "--editors",
		filepath.Join(dir, "gedit/M"), "--scorer", scorer, "--out", filepath.Join(dir, "own"), "--resamples", "20")
	page, err := os.ReadFile(filepath.Join(dir, "report/results.csv"))
	if err != nil {
		t.Fatal(err)
	}
	found := false
	for _, line := range strings.Split(string(page), "\n") {
		name, _, _ := strings.Cut(strings.TrimPrefix(line, "gedit-bench: "), ",")
		if v, ok := numbersOf(own)[name]; ok && strings.HasPrefix(line, "gedit-bench: ") {
			found = true
			cells := strings.Split(line, ",")
			if got := parsed(t, cells[1]); !(math.Abs(got-v) <= 1e-12) {
				t.Errorf("%s: got %g, want %g as of its own command", name, got, v)
			}
		}
	}
	if !found {
		t.Errorf("got\n%s\nwant a row of gedit-bench with a number of %v", page, numbersOf(own))
	}
	for want, text := range map[string]string{
		"there is no benchmark":  "benchmarks: {nobench: {ratings: a}}\n",
		"not an option of score": "benchmarks: {gedit-bench: {ratings: a, scorer: b}}\n",
		"data is needed":         "benchmarks: {gedit-bench: {editors: a}}\n",
		"--config and --scorer ": "",
	} {
		t.Run(want, func(t *testing.T) {
			if err := os.WriteFile(config, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			args := []string{"all", "--config", config, "--scorer", scorer}
			if text == "" {
				args = args[:1]
			}
			if code, _, stderr := bench(args...); code != 2 || !strings.Contains(stderr, want) {
				t.Errorf("got exit code %d, %s, want %q", code, stderr, want)
			}
		})
	}
}

func parsed(t *testing.T, text string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
