package score

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/internal/exit"
	"assay/internal/oracle"
	"assay/internal/packed"
)

// severalCases returns the cases with several sources of a family's sequence scorer, with absolute paths.
func severalCases(t *testing.T) (scorer string, cases []oracle.Case) {
	t.Helper()
	family := filepath.Join(oracle.Folders(t)[0], "qwen2_vl")
	cases = oracle.Read[[]oracle.Case](t, filepath.Join(family, "cases_several.json"))
	for i := range cases {
		cases[i].Edited = filepath.Join(family, cases[i].Edited)
		for k := range cases[i].Sources {
			cases[i].Sources[k] = filepath.Join(family, cases[i].Sources[k])
		}
	}
	return filepath.Join(family, cases[0].Scorer), cases
}

// TestPairOfSeveral: repeated --source results in transformers' score.
func TestPairOfSeveral(t *testing.T) {
	scorer, cases := severalCases(t)
	for _, c := range cases {
		args := []string{"pair", "--scorer", scorer, "--edit", c.Edited, "--instruction", c.Instruction, "--json"}
		for _, source := range c.Sources {
			args = append(args, "--source", source)
		}
		code, stdout, stderr := run(t, args...)
		var got struct{ Score *float64 }
		if err := json.Unmarshal([]byte(stdout), &got); err != nil || code != exit.Done || got.Score == nil ||
			!(math.Abs(*got.Score-c.Score) <= 1e-4) {
			t.Errorf("case %d: got %d %q %q, want %g", c.ID, code, stdout, stderr, c.Score)
		}
	}
	frames := filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl", "scorer_frames")
	code, _, stderr := run(t, "pair", "--scorer", frames, "--edit", cases[0].Edited, "--instruction", "x", "--source",
		cases[0].Sources[0], "--source", cases[0].Sources[1])
	if want := "the edit has 2 sources, and this judge looks at 1"; code != exit.Wrong ||
		!strings.Contains(stderr, want) {
		t.Errorf("frames: got %d %q, want %d and %q", code, stderr, exit.Wrong, want)
	}
}

// TestTableOfSeveral: a column sources, in a table and in its shards; commands that read the scores preserve the
// lists.
func TestTableOfSeveral(t *testing.T) {
	scorer, cases := severalCases(t)
	dir := t.TempDir()
	var text strings.Builder
	for _, c := range cases {
		for _, output := range []string{c.Edited, c.Sources[0]} {
			raw, err := json.Marshal(map[string]any{"id": fmt.Sprint(c.ID), "sources": c.Sources, "edit": output,
				"instruction": c.Instruction})
			if err != nil {
				t.Fatal(err)
			}
			text.Write(append(raw, '\n'))
		}
	}
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, []byte(text.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	scored, pairs := filepath.Join(dir, "out.parquet"), filepath.Join(dir, "pairs.parquet")
	if code, _, stderr := run(t, "batch", "--scorer", scorer, "--in", in, "--out", scored, "--pairs", pairs); code != 0 {
		t.Fatalf("got %d %s", code, stderr)
	}
	table, err := data.OpenTable(scored)
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	for i, c := range cases {
		rec, err := table.Record(2 * i)
		if err != nil {
			t.Fatal(err)
		}
		v, _ := rec.Get("score")
		row, err := table.Row(rec)
		if score, ok := v.(float64); err != nil || !ok || !(math.Abs(score-c.Score) <= 1e-4) ||
			len(row.Sources()) != len(c.Sources) {
			t.Errorf("row %d: got score %v of %d sources (%v), want %g of %d", 2*i, v, len(row.Sources()), err, c.Score,
				len(c.Sources))
		}
	}
	preferred, err := data.OpenEdits(pairs, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer preferred.Close()
	if preferred.Len() != 2*len(cases) {
		t.Errorf("got %d preferred and rejected edits, want %d", preferred.Len(), 2*len(cases))
	}
	for e, err := range preferred.All() {
		if err != nil || len(e.Sources()) < 2 {
			t.Errorf("a preference: got %d sources (%v), want several", len(e.Sources()), err)
		}
	}
	best := filepath.Join(dir, "best.jsonl")
	if code, _, stderr := run(t, "best", "--in", scored, "--out", best); code != 0 {
		t.Fatalf("best: got %d %s", code, stderr)
	}
	raw, err := os.ReadFile(best)
	if n := strings.Count(string(raw), `"sources":[`); err != nil || n != len(cases) {
		t.Errorf("best: got %d lists of sources in %s (%v), want %d", n, raw, err, len(cases))
	}
	code, _, stderr := run(t, "condition", "--in", scored, "--out", filepath.Join(dir, "labels"), "--layouts", "kohya")
	if want := "layout kohya has one source per edit"; code != exit.Wrong || !strings.Contains(stderr, want) {
		t.Errorf("kohya: got %d %q, want %d and %q", code, stderr, exit.Wrong, want)
	}
	out := filepath.Join(dir, "labels")
	if code, _, stderr := run(t, "condition", "--in", scored, "--out", out, "--layouts", "diffsynth,parquet"); code != 0 {
		t.Fatalf("condition: got %d %s", code, stderr)
	}
	raw, err = os.ReadFile(filepath.Join(out, "metadata.jsonl"))
	if err != nil || !strings.Contains(string(raw), `"edit_image":["images/`) {
		t.Errorf("diffsynth: got %s (%v), want lists of pictures", raw, err)
	}
}

// TestChoicesOfSeveral: a scorer of format 2 whose pass shows sources takes any number, one whose pass shows source
// takes one.
func TestChoicesOfSeveral(t *testing.T) {
	_, cases := severalCases(t)
	dir := t.TempDir()
	question := filepath.Join(dir, "question.txt")
	if err := os.WriteFile(question, []byte("Rate it: [INSTRUCTION]"), 0o666); err != nil {
		t.Fatal(err)
	}
	pair := []string{"pair", "--edit", cases[0].Edited, "--instruction", "x", "--json"}
	for _, source := range cases[1].Sources {
		pair = append(pair, "--source", source)
	}
	for pictures, want := range map[string]int{"sources,edit": exit.Done, "source,edit": exit.Wrong} {
		scorer := filepath.Join(dir, pictures)
		code, _, stderr := run(t, "import", "choices", "--base", "../../../backbones/tiny", "--prompts", question,
			"--choices", "0,1,2,3", "--pictures", pictures, "--out", scorer)
		if code != exit.Done {
			t.Fatalf("import: got %d %s", code, stderr)
		}
		if code, stdout, stderr := run(t, append(pair, "--scorer", scorer)...); code != want {
			t.Errorf("pictures %s and %d sources: got %d %s %s, want %d", pictures, len(cases[1].Sources), code, stdout,
				stderr, want)
		}
	}
}

// TestKRISByScorer: a scorer with pair: sequence scores samples of several sources, which frames leave out.
func TestKRISByScorer(t *testing.T) {
	dir := packed.Unpack(t, "../../../internal/benchmarks/testdata/layouts.zip")
	family := filepath.Join(oracle.Folders(t)[0], "qwen2_5_vl")
	in := func(name string) string { return filepath.Join(dir, "kris", name) }
	var scored [2]map[string]float64
	for i, scorer := range []string{"scorer_frames", "scorer_sequence"} {
		out := filepath.Join(t.TempDir(), "run")
		benchJSON(t, "kris-bench", "--ratings", in("KRIS_Bench"), "--editors", in("M"), "--resamples", "20", "--scorer",
			filepath.Join(family, scorer), "--out", out)
		scored[i] = predicted(t, out)
	}
	for id := range scored[0] {
		if _, too := scored[1][id]; !too {
			t.Errorf("%s: got no score by the sequence scorer, want one", id)
		}
	}
	if len(scored[1]) <= len(scored[0]) {
		t.Errorf("got %d scores by the sequence scorer and %d by frames, want more", len(scored[1]), len(scored[0]))
	}
}
