package score

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay"
	"assay/data"
	"assay/internal/hub/hubtest"
	"assay/internal/long"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// rewardCases are the cases of one of package t2i's fixtures.
type rewardCases struct {
	Cases map[string][]struct {
		Picture, Text string
		Score         float64
	}
}

// TestRewards takes a reward of text-to-image models through the commands that score, and the Go API.
func TestRewards(t *testing.T) {
	dir := packed.Unpack(t, "../../../t2i/testdata/t2i.zip")
	at := func(name string) string { return filepath.Join(dir, name) }
	var f rewardCases
	testfile.ReadJSON(t, at("cases.json"), &f)
	for kind, args := range map[string][]string{
		"clip":        {"--base", at("clip"), "--copy"},
		"pickscore":   {"--base", at("pickscore"), "--weights", at("pickscore/model.safetensors")},
		"hpsv2":       {"--base", at("clip"), "--weights", at("HPS_v2_compressed.pt"), "--config", at("hpsv2.json")},
		"aesthetic":   {"--base", at("clip"), "--weights", at("aesthetic.pth")},
		"imagereward": {"--base", at("bert"), "--weights", at("ImageReward.pt"), "--config", at("med_config.json")},
	} {
		t.Run(kind, func(t *testing.T) {
			if kind != "pickscore" {
				long.Test(t)
			}
			tmp := t.TempDir()
			judge := filepath.Join(tmp, kind)
			code, v := command(t, append([]string{"import", kind, "--out", judge}, args...)...)
			if code != 0 || v["kind"] != kind {
				t.Fatalf("import: exit code %d, %v", code, v)
			}
			near := func(what string, got any, want float64) {
				t.Helper()
				if v, ok := got.(float64); !ok || !(math.Abs(v-want) < 1e-4) {
					t.Errorf("%s: got %v, want %g", what, got, want)
				}
			}
			c := f.Cases[kind][1]
			pair := []string{"--scorer", judge, "--edit", at(c.Picture), "--instruction", c.Text}
			code, v = command(t, append([]string{"pair"}, pair...)...)
			if scale, is := v["score_range"]; code != 0 || !is || scale != nil || v["score01"] != nil {
				t.Errorf("pair: got exit code %d, %v; want no score01, and score_range null", code, v)
			}
			near("pair", v["score"], c.Score)
			_, v = command(t, append([]string{"gradient", "--out", filepath.Join(tmp, "g.npy")}, pair...)...)
			near("gradient", v["score"], c.Score)
			code, _, stderr := run(t, append([]string{"pair", "--source", at(c.Picture)}, pair...)...)
			if code != 2 || !strings.Contains(stderr, "one picture") {
				t.Errorf("with --source: got exit code %d, %s; want 2", code, stderr)
			}
			code, _, stderr = run(t, append([]string{"pair", "--dimension", "x"}, pair...)...)
			if code != 2 || !strings.Contains(stderr, "reward of one number") {
				t.Errorf("with --dimension: got exit code %d, %s; want 2", code, stderr)
			}

			var rows strings.Builder
			for _, c := range f.Cases[kind] {
				row := map[string]string{"edit": at(c.Picture), "source": at("odd.png"), "instruction": c.Text}
				raw, err := json.Marshal(row)
				if err != nil {
					t.Fatal(err)
				}
				rows.Write(append(raw, '\n'))
			}
			table, out := filepath.Join(tmp, "edits.jsonl"), filepath.Join(tmp, "scores.jsonl")
			if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
				t.Fatal(err)
			}
			if code, v := command(t, "batch", "--scorer", judge, "--in", table, "--out", out); code != 0 {
				t.Fatalf("batch: exit code %d, %v", code, v)
			}
			for i, row := range lines(t, out) {
				near("batch", row["score"], f.Cases[kind][i].Score)
			}
			if code, v := command(t, "drift", "--before", out, "--after", table, "--scorer", judge); code != 0 {
				t.Errorf("drift: exit code %d, %v", code, v)
			}

			s, err := assay.Open(t.Context(), judge, assay.Options{Device: "cpu"})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			p, err := data.Open(at(c.Picture), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			g, err := s.Gradient(t.Context(), &assay.Edit{Output: p, Instruction: c.Text})
			if err != nil {
				t.Fatal(err)
			}
			near("Go", g.Value, c.Score)
		})
	}
}

// TestRewardBench runs a reward on a benchmark of pairs: its accuracy follows from its scores.
func TestRewardBench(t *testing.T) {
	dir := packed.Unpack(t, "../../../t2i/testdata/t2i.zip")
	layouts := packed.Unpack(t, "../../../internal/benchmarks/testdata/layouts.zip")
	judge, out := filepath.Join(t.TempDir(), "pick"), filepath.Join(t.TempDir(), "run")
	if code, v := command(t, "import", "pickscore", "--base", filepath.Join(dir, "pickscore"), "--out", judge); code != 0 {
		t.Fatalf("import: exit code %d, %v", code, v)
	}
	var expect map[string]layout
	testfile.ReadJSON(t, filepath.Join(layouts, "expect.json"), &expect)
	v := benchJSON(t, "editreward-compass", "--resamples", "20", "--out", out, "--scorer", judge, "--ratings",
		filepath.Join(layouts, "compass/reward_eval.json"))
	want := expect["editreward-compass"]
	expectNumbers(t, numbersOf(v), want.ofScores(predicted(t, out)), 1e-9)
}

// TestImportRewardRefuses: flags of other kinds, and what is missing.
func TestImportRewardRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"--out is needed":     {"import", "clip", "--base", "x"},
		"--base is needed":    {"import", "imagereward", "--out", "x", "--weights", "w.pt"},
		"--weights is needed": {"import", "aesthetic", "--out", "x", "--base", "b"},
		"does not belong to":  {"import", "pickscore", "--out", "x", "--base", "b", "--prompts", "p"},
		"--preprocessing":     {"import", "pickscore", "--out", "x", "--base", "b", "--preprocessing", "p"},
		"belongs to the kind": {"import", "choices", "--out", "x", "--base", "b", "--preprocessing", "tensor"},
		"already exists":      {"import", "clip", "--out", ".", "--base", "b"},
	} {
		t.Run(want, func(t *testing.T) {
			if code, _, stderr := run(t, args...); code != 2 || !strings.Contains(stderr, want) {
				t.Errorf("%v: got exit code %d, %s; want 2 and %q", args, code, stderr, want)
			}
		})
	}
}

// TestRewardCalibrated: score calibrate fits a reward to pictures without sources, and its scores are on 0 to 1 from
// then on.
func TestRewardCalibrated(t *testing.T) {
	long.Test(t)
	dir := packed.Unpack(t, "../../../t2i/testdata/t2i.zip")
	tmp := t.TempDir()
	judge, table := filepath.Join(tmp, "pick"), filepath.Join(tmp, "labels.jsonl")
	if code, v := command(t, "import", "pickscore", "--base", filepath.Join(dir, "pickscore"), "--out", judge); code != 0 {
		t.Fatalf("import: exit code %d, %v", code, v)
	}
	var rows strings.Builder
	for i := range 60 {
		p := data.NewPicture(32, 32)
		for k := range p.Pix {
			p.Pix[k] = byte(k*(i+3) ^ i*37)
		}
		picture := filepath.Join(tmp, fmt.Sprint(i, ".png"))
		if err := p.WritePNG(picture); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&rows, "{\"edit\": %q, \"instruction\": \"a cup\", \"label\": %g}\n", picture, float64(i)/59)
	}
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	pair := []string{"pair", "--scorer", judge, "--edit", filepath.Join(tmp, "5.png"), "--instruction", "a cup"}
	_, before := command(t, pair...)
	if code, v := command(t, "calibrate", "--scorer", judge, "--in", table, "--method", "inverse"); code != 0 {
		t.Fatalf("calibrate: exit code %d, %v", code, v)
	}
	_, after := command(t, pair...)
	if after["raw01"] != before["score"] || fmt.Sprint(after["score_range"]) != "[0 1]" || after["interval"] == nil {
		t.Errorf("got %v, want a calibrated score of %v", after, before["score"])
	}
	if code, v := command(t, "calibrate", "--scorer", judge, "--in", table, "--method", "isotonic"); code != 0 {
		t.Errorf("calibrate again: exit code %d, %v", code, v)
	}
	_, again := command(t, pair...)
	if again["raw01"] != before["score"] || again["score"] == after["score"] {
		t.Errorf("calibrated again: got %v, want another map of %v", again, before["score"])
	}
	code, _, stderr := run(t, "calibrate", "--scorer", judge, "--in", table, "--dimension", "x")
	if code != 2 || !strings.Contains(stderr, "reward of one number") {
		t.Errorf("--dimension: got exit code %d, %s; want 2", code, stderr)
	}
}

// TestRewardByName: the released weights may be given by their name on the Hub, and so may a folder with a complete
// reward.
func TestRewardByName(t *testing.T) {
	dir := packed.Unpack(t, "../../../t2i/testdata/t2i.zip")
	at := func(name string) string { return filepath.Join(dir, name) }
	weights, err := os.ReadFile(at("HPS_v2_compressed.pt"))
	if err != nil {
		t.Fatal(err)
	}
	judge := filepath.Join(t.TempDir(), "judge")
	if code, v := command(t, "import", "hpsv2", "--base", at("clip"), "--weights", at("HPS_v2_compressed.pt"), "--config",
		at("hpsv2.json"), "--out", judge); code != 0 {
		t.Fatalf("import: exit code %d, %v", code, v)
	}
	files, err := hubtest.Files(judge)
	if err != nil {
		t.Fatal(err)
	}
	main := map[string]string{"main": hubtest.Commit("x")}
	s := hubtest.Start(
		&hubtest.Repo{Kind: "model", ID: "org/hps", Refs: main,
			Commits: map[string]map[string][]byte{main["main"]: {"HPS_v2.1_compressed.pt": weights, "README.md": []byte("x")}}},
		&hubtest.Repo{Kind: "model", ID: "org/judge", Refs: main,
			Commits: map[string]map[string][]byte{main["main"]: files}},
	)
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	again := filepath.Join(t.TempDir(), "again")
	if code, v := command(t, "import", "hpsv2", "--base", at("clip"), "--weights", "hf://org/hps/HPS_v2.1_compressed.pt",
		"--config", at("hpsv2.json"), "--out", again); code != 0 {
		t.Fatalf("import by name: exit code %d, %v", code, v)
	}
	var want any
	for i, scorer := range []string{judge, again, "org/judge"} {
		code, v := command(t, "pair", "--scorer", scorer, "--edit", at("wide.png"), "--instruction", "a cup")
		if i == 0 {
			want = v["score"]
		}
		if code != 0 || v["score"] != want || want == nil {
			t.Errorf("%s: got exit code %d, %v, want the score %v", scorer, code, v, want)
		}
	}
}
