package score

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/exit"
	"assay/internal/oracle"
)

// scored writes a table of scored edits of two sources, each row with more fields.
func scored(t *testing.T, name string, more ...string) string {
	t.Helper()
	folder := filepath.Join(oracle.Folders(t)[0], "images")
	var b strings.Builder
	for i, fields := range more {
		source := []string{"coffee", "chelsea"}[i%2]
		fmt.Fprintf(&b, `{"source": %q, "edit": %q, "instruction": "blur it", %s}`+"\n", filepath.Join(folder, source+".png"),
			filepath.Join(folder, "coffee_blur.png"), fields)
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// An infinite score is not a score: it would be the best one, and an end of every range.
func TestInfiniteScores(t *testing.T) {
	in := scored(t, "in.jsonl", `"score01": "inf"`, `"score01": 0.5`, `"score01": 0.4, "score": "inf"`)
	code, v := command(t, "best", "--in", in)
	failed, best := fmt.Sprint(v["failed"]), fmt.Sprint(v["best"])
	if code != exit.Failed || !strings.Contains(failed, "score01 is +Inf") || strings.Contains(best, "Inf") {
		t.Errorf("exit code %d, %v", code, v)
	}
}

// A column that scoring does not read cannot be renamed.
func TestBatchColumns(t *testing.T) {
	in := scored(t, "in.jsonl", `"id": "a"`)
	scorer := filepath.Join(oracle.Folders(t)[0], "llavanext", "scorer")
	for columns, want := range map[string]string{
		"label=degree": `"label" is not used here, only source, edit, instruction`,
		"edit=output":  `no column "output", only source, edit, instruction, id`,
	} {
		code, v := command(t, "batch", "--scorer", scorer, "--in", in, "--out", filepath.Join(t.TempDir(), "out.jsonl"),
			"--columns", columns)
		if code != exit.Wrong || !strings.Contains(fmt.Sprint(v["error"]), want) {
			t.Errorf("exit code %d, %v, want %s", code, v, want)
		}
	}
}

// A flag is obeyed or refused.
func TestConditionRefuses(t *testing.T) {
	in := scored(t, "in.jsonl", `"score01": 0.2`, `"score01": 0.5`)
	for want, more := range map[string][]string{
		"--layouts is empty": {"--layouts", ""},
		"{words} is not one": {"--template", "{instruction} {words} {word}"},
		"--device requires":  {"--device", "cpu"},
		"--threads requires": {"--threads", "3"},
		`no column "degree"`: {"--columns", "id=degree"},
	} {
		out := filepath.Join(t.TempDir(), "out")
		code, v := command(t, append([]string{"condition", "--in", in, "--out", out}, more...)...)
		if _, err := os.Stat(out); code != exit.Wrong || err == nil || !strings.Contains(fmt.Sprint(v["error"]), want) {
			t.Errorf("%v: exit code %d, %v, want %s", more, code, v, want)
		}
	}
}

// A triplet whose values are not numbers is dropped; counts below 0 are refused.
func TestAIMRefuses(t *testing.T) {
	folder := filepath.Join(oracle.Folders(t)[0], "images")
	row := func(emotion, vie, clip string) string {
		return fmt.Sprintf(`{"input": %q, "target": %q, "instruction": "x", "emotion": %q, "clip_i": %s, "vie": %s, `+
			`"clip_t": 0.2, "aesthetic": 5, "score01": 0.5}`, filepath.Join(folder, "coffee.png"),
			filepath.Join(folder, "chelsea.png"), emotion, clip, vie)
	}
	rows := []string{row("awe", `"inf"`, "0.9"), row("awe", "5", "90")}
	for _, e := range []string{"amusement", "anger", "awe", "contentment", "disgust", "excitement", "fear", "sadness"} {
		rows = append(rows, row(e, "5", "0.9"))
	}
	in := filepath.Join(t.TempDir(), "metadata.jsonl")
	if err := os.WriteFile(in, []byte(strings.Join(rows, "\n")), 0o666); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "out")
	code, v := command(t, "aim", "--in", in, "--out", out, "--top", "0")
	if code != exit.Done || v["chosen"] != 8.0 || v["dropped"] != 2.0 {
		t.Fatalf("exit code %d, %v", code, v)
	}
	dropped := fmt.Sprint(lines(t, filepath.Join(out, "dropped.jsonl")))
	for _, want := range []string{"want a finite number, have +Inf", "90 is not a cosine"} {
		if !strings.Contains(dropped, want) {
			t.Errorf("%s, want %s", dropped, want)
		}
	}
	for _, more := range []string{"--top -1", "--per-emotion -3", "--clip-i NaN", "--rule aim", "--normalise table",
		"--rule aim-bench --clip-i 0.5", "--rule aim-bench --per-emotion 1", "--rule aim-40k --top 5",
		"--rule aim-40k --normalise table", "--rule aim-bench --normalise edits"} {
		t.Run(more, func(t *testing.T) {
			args := append([]string{"aim", "--in", in, "--out", out + "2"}, strings.Fields(more)...)
			if code, v := command(t, args...); code != exit.Wrong {
				t.Errorf("exit code %d (%v), want %d", code, v["error"], exit.Wrong)
			}
		})
	}
}

// Deviations of one output, correlations of constants, and means over different inputs are not reported as numbers.
func TestDriftSaysWhatItLacks(t *testing.T) {
	one, two := scored(t, "one.jsonl", `"score01": 0.5`), scored(t, "two.jsonl", `"score01": 0.9`, `"score01": 0.8`)
	code, v := command(t, "drift", "--before", one, "--after", two)
	warnings, first := fmt.Sprint(v["warnings"]), v["facts"].([]any)[0].(map[string]any)
	if code != exit.Done || first["shift"] != nil || first["correlation"] == nil ||
		!strings.Contains(warnings, "1 of 3 outputs have a source and an instruction that the other") ||
		!strings.Contains(warnings, "before there is only one output") {
		t.Errorf("exit code %d, %v", code, v)
	}
	code, v = command(t, "drift", "--before", two, "--after", two)
	if code != exit.Done || v["warnings"] != nil {
		t.Errorf("exit code %d, %v", code, v["warnings"])
	}
	if code, _ = command(t, "drift", "--before", two, "--after", two, "--threads", "2"); code != exit.Wrong {
		t.Errorf("--threads without anything that runs: exit code %d", code)
	}
}

// judged writes a table of edits by 12 instructions, with the scores of two judges.
func judged(t *testing.T, name string, score, held func(i float64) float64) string {
	t.Helper()
	folder := filepath.Join(oracle.Folders(t)[0], "images")
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, `{"source": %q, "edit": %q, "instruction": "blur it %d times", "score01": %g, "other": %g}`+"\n",
			filepath.Join(folder, "coffee.png"), filepath.Join(folder, "coffee_blur.png"), i, score(float64(i)),
			held(float64(i)))
	}
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(b.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// A gain that the held-out judge does not confirm raises an alarm, with its exit code; a confirmed one does not.
func TestDriftOfHeldOutJudge(t *testing.T) {
	line := func(slope, from float64) func(float64) float64 {
		return func(i float64) float64 { return from + slope*i + 0.01*math.Sin(i) }
	}
	before := judged(t, "before.jsonl", line(0.02, 0.1), line(1, 5))
	for _, c := range []struct {
		name  string
		after string
		more  []string
		code  int
		alarm bool
	}{
		{"honest", judged(t, "honest.jsonl", line(0.02, 0.3), line(1, 15)), nil, exit.Done, false},
		{"hacked", judged(t, "hacked.jsonl", line(0.02, 0.3), line(1, 5.1)), nil, exit.Failed, true},
		{"a third seen", judged(t, "third.jsonl", line(0.02, 0.3), line(1, 8.3)), nil, exit.Failed, true},
		{"a third wanted", judged(t, "third.jsonl", line(0.02, 0.3), line(1, 8.3)), []string{"--confirmed", "0.2"}, exit.Done,
			false},
		{"a lower score", judged(t, "lower.jsonl", line(0.02, 0), line(1, 0)), nil, exit.Done, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, v := command(t, append([]string{"drift", "--before", before, "--after", c.after, "--held-out-column",
				"other"}, c.more...)...)
			of, _ := v["confirmation"].(map[string]any)
			if code != c.code || of["alarm"] != c.alarm || of["inputs"] != 12.0 || v["warnings"] != nil {
				t.Errorf("got exit code %d, %v; want %d, alarm %v, no warnings", code, v, c.code, c.alarm)
			}
		})
	}
	for _, c := range []struct {
		want string
		args []string
	}{
		{"has no column another", []string{"--held-out-column", "another"}},
		{"two ways to name one judge", []string{"--held-out-column", "other", "--held-out", "x"}},
		{"--confirmed must be", []string{"--held-out-column", "other", "--confirmed", "1.5"}},
		{"--confirmed requires", []string{"--confirmed", "0.4"}},
	} {
		t.Run(c.want, func(t *testing.T) {
			code, v := command(t, append([]string{"drift", "--before", before, "--after", before}, c.args...)...)
			if code != exit.Wrong || !strings.Contains(fmt.Sprint(v["error"]), c.want) {
				t.Errorf("got exit code %d, %v; want %d, %q", code, v["error"], exit.Wrong, c.want)
			}
		})
	}
}

// Flags without effect are refused, and so are columns that no row has.
func TestFlagsThatNothingReads(t *testing.T) {
	in := scored(t, "in.jsonl", `"id": "a"`)
	out := filepath.Join(t.TempDir(), "out.jsonl")
	for want, line := range map[string][]string{
		"--device requires --scorer": {"bench", "genaibench", "--ratings", in, "--device", "cpu"},
		"--threads requires":         {"bench", "genaibench", "--ratings", in, "--threads", "2"},
		"--dimension requires":       {"bench", "genaibench", "--ratings", in, "--dimension", "following"},
		"--targets requires":         {"bench", "genaibench", "--ratings", in, "--targets", in},
		`no column "output"`: {"judge", "--config", "editscore", "--url", "http://localhost:1", "--model", "m", "--in", in,
			"--out", out, "--columns", "edit=output"},
	} {
		code, v := command(t, line...)
		if code != exit.Wrong || !strings.Contains(fmt.Sprint(v["error"]), want) {
			t.Errorf("%v: exit code %d, %v, want %s", line, code, v, want)
		}
	}
}
