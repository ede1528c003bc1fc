package score

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
)

const golden = "../../../testdata/golden/"

// bench runs "score bench" with arguments and returns exit code and output.
func bench(args ...string) (code int, stdout, stderr string) {
	var o, e strings.Builder
	code = App.Run(context.Background(), append([]string{"bench"}, args...), &o, &e)
	return code, o.String(), e.String()
}

func benchJSON(t *testing.T, args ...string) map[string]any {
	t.Helper()
	code, stdout, stderr := bench(append(args, "--json")...)
	var v map[string]any
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != 0 {
		t.Fatalf("%v: exit code %d, %v\n%s%s", args, code, err, stdout, stderr)
	}
	return v
}

func TestBench(t *testing.T) {
	long.Test(t)
	const judges = golden + "imagenhub/judges/"
	v := benchJSON(t, "imagenhub", "--ratings", golden+"imagenhub", "--predictions", judges+"gpt4o_0shot.jsonl")
	if p := v["published"].(float64); !(math.Abs(p-0.38205639488565435) <= 1e-9) {
		t.Errorf("published %v", p)
	}
	dir := filepath.Join(t.TempDir(), "report")
	v = benchJSON(
		t,
		"imagenhub",
		"--ratings",
		golden+"imagenhub",
		"--resamples",
		"50",
		"--report",
		dir,
		"--compare",
		judges+"gpt4o_0shot.jsonl",
		judges+"gemini_0shot.jsonl",
	)
	if d := v["comparison"].(map[string]any)["differences"].([]any); len(d) != 2 {
		t.Errorf("%d differences", len(d))
	}
	if _, err := os.Stat(filepath.Join(dir, "index.html")); err != nil {
		t.Error(err)
	}
	v = benchJSON(t, "genaibench", "--votes", golden+"genaibench/gpt4o.jsonl", "--baseline", "random", "--seed", "3")
	if e := v["expectation"].(map[string]any)["official"].(float64); !(math.Abs(e-0.25) <= 0.003) ||
		v["baseline"] != "random" {
		t.Errorf("expectation %v", e)
	}
	v = benchJSON(t, "aim-bench", "--means", golden+"aimbench/table1.csv")
	if d := v["largest_difference"].(float64); !(d <= 0.09) {
		t.Errorf("Overall differs by %v from the printed values", d)
	}
}

func TestBenchNames(t *testing.T) {
	paths := []string{"runs/a/predictions.jsonl", "runs/b/predictions.jsonl", "c.jsonl", "x/a/predictions.jsonl"}
	for path, want := range map[string]string{paths[0]: "runs/a/predictions", paths[1]: "b/predictions", paths[2]: "c",
		paths[3]: "x/a/predictions", "./c.jsonl": "c"} {
		if got := newNamer(paths)(path); got != want {
			t.Errorf("%s is called %s, want %s", path, got, want)
		}
	}
}

func TestBenchUsage(t *testing.T) {
	tests := []struct {
		args string
		code int
		want string
	}{
		{"list", 0, "editreward-bench"},
		{"imagenhub --ratings " + golden + "imagenhub", 2, "nothing to judge: give --predictions"},
		{"imagenhub --ratings /nowhere --baseline random", 2, "/nowhere"},
		{"imagenhub --baseline random", 2, "give --ratings"},
		{"imagenhub --predictions a --predictions b", 2, `already given as "a": give it once`},
		{"imagenhub --ratings a --ratings b", 2, `already given as "a": give it once`},
		{"imagenhub stray", 2, "only --compare takes several files"},
		{
			"imagenhub --ratings " + golden + "imagenhub --predictions " + golden + "genaibench/gpt4o.jsonl",
			1,
			`gpt4o.jsonl:1: the id "0" is not rated`,
		},
		{"nosuch", 2, `unknown command "nosuch"`},
		{"fed-bench --components x --sigma 0", 2, "sigma is 0"},
		{"aurora-pair --epsilon -1", 2, "--epsilon -1: want"},
		{"aurora-pair --epsilon NaN", 2, "--epsilon NaN: want"},
		{"aurora-pair --epsilon inf", 2, "--epsilon +Inf: want"},
		{"imagenhub --resamples -1", 2, "--resamples -1: want 0 or more"},
		{"aim-bench --means m.csv --shard 1/2", 2, "--shard: --means computes"},
		{"aim-bench --means m.csv --merge --scorer s", 2, "--merge, --scorer: --means computes"},
		{"aim-bench --means m.csv --resamples 0", 2, "--resamples: --means computes"},
		{"aim-bench --json --means /nowhere.csv --report r", 1, "/nowhere.csv"},
	}
	for _, tt := range tests {
		if code, stdout, stderr := bench(
			strings.Fields(tt.args)...); code != tt.code ||
			!strings.Contains(stdout+stderr, tt.want) {
			t.Errorf("bench %s: exit code %d, want %d and %q:\n%s%s", tt.args, code, tt.code, tt.want, stdout, stderr)
		}
	}
}
