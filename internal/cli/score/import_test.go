package score

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/packed"
)

// released is the folder of the released judges' fixtures.
func releasedFiles(t *testing.T) (dir, images string) {
	t.Helper()
	folder := oracle.Folders(t)[0]
	if dir = filepath.Join(folder, "released"); !isDir(dir) {
		dir = packed.Unpack(t, dir+".zip")
	}
	return dir, filepath.Join(folder, "images")
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// importEditReward imports EditReward's fixture with a limit of few pixels.
func importEditReward(t *testing.T, dir, out string) {
	t.Helper()
	base := filepath.Join(dir, "editreward")
	code, v := command(t, "import", "editreward", "--base", filepath.Join(base, "base"), "--weights",
		filepath.Join(base, "weights"), "--config", filepath.Join(base, "config", "EditReward-tiny.yaml"),
		"--prompts", filepath.Join(base, "prompts"), "--out", out)
	if code != 0 || v["published"] != false || len(v["warnings"].([]any)) != 2 {
		t.Fatalf("import: exit code %d, %v", code, v)
	}
}

// TestImported takes an imported judge through all commands that score.
func TestImported(t *testing.T) {
	dir, images := releasedFiles(t)
	tmp := t.TempDir()
	scorer := filepath.Join(tmp, "editreward")
	importEditReward(t, dir, scorer)
	type cases struct {
		Cases []struct {
			Source, Edited, Instruction, Config string
			Score                               float64
			Fused                               map[string][2]float64
			Passes                              []struct {
				Name string
				Mu   float64
			}
		}
	}
	all := oracle.Read[cases](t, filepath.Join(dir, "editreward", "cases.json"))
	picture := func(path string) string { return filepath.Join(images, filepath.Base(path)) }
	c := all.Cases[0]
	pair := []string{"--scorer", scorer, "--source", picture(c.Source), "--edit", picture(c.Edited),
		"--instruction", c.Instruction}
	near := func(what string, got any, want float64) {
		t.Helper()
		if v, ok := got.(float64); !ok || !(math.Abs(v-want) < 1e-4) {
			t.Errorf("%s: %v, want %g", what, got, want)
		}
	}

	code, v := command(t, append([]string{"pair"}, pair...)...)
	_, bounded := v["score01"]
	if scale, ok := v["score_range"]; code != 0 || bounded || !ok || scale != nil {
		t.Errorf("pair: exit code %d, %v; want no score01, and score_range null", code, v)
	}
	near("pair", v["score"], c.Score)
	near("pair's sigma", v["sigma"], math.Exp(c.Fused["mean"][1]))
	for _, p := range c.Passes {
		near(p.Name, v["dimensions"].(map[string]any)[p.Name].(map[string]any)["score"], p.Mu)
		_, one := command(t, append([]string{"pair", "--dimension", p.Name}, pair...)...)
		near("pair --dimension "+p.Name, one["score"], p.Mu)
	}
	code, _, stderr := run(t, "pair", "--scorer", scorer, "--edit", picture(c.Edited), "--instruction", "x")
	if code != 2 {
		t.Errorf("without --source: exit code %d, %s", code, stderr)
	}

	var rows strings.Builder
	var want []float64
	for _, c := range all.Cases {
		if strings.Contains(c.Config, "tiny") && strings.TrimSpace(c.Instruction) != "" {
			fmt.Fprintf(&rows, "{\"source\": %q, \"edit\": %q, \"instruction\": %q}\n", picture(c.Source), picture(c.Edited),
				c.Instruction)
			want = append(want, c.Score)
		}
	}
	table, out := filepath.Join(tmp, "edits.jsonl"), filepath.Join(tmp, "scores.jsonl")
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, v := command(t, "batch", "--scorer", scorer, "--in", table, "--out", out); code != 0 {
		t.Fatalf("batch: exit code %d, %v", code, v)
	}
	for i, row := range lines(t, out) {
		near("batch", row["score"], want[i])
		if row["score01"] != nil || row["sigma"].(float64) <= 0 || row["score_following"] == nil ||
			row["sigma_quality"] == nil {
			t.Errorf("row %d: %v", i, row)
		}
	}
	for _, from := range [][]string{{"--in", out}, {"--in", table, "--scorer", scorer}} {
		_, best := command(t, append([]string{"best"}, from...)...)
		first := best["best"].([]any)[0].(map[string]any)
		near("best", first["score"], want[0])
	}
	conditioned := []string{"condition", "--in", out, "--out", filepath.Join(tmp, "labels")}
	if code, _, stderr := run(t, conditioned...); code != 2 || !strings.Contains(stderr, "--range") {
		t.Errorf("condition without --range: exit code %d, %s", code, stderr)
	}
	if code, v := command(t, append(conditioned, "--range", "auto")...); code != 0 {
		t.Errorf("condition --range auto: exit code %d, %v", code, v)
	}
	if code, v := command(t, "drift", "--before", out, "--after", out); code != 0 {
		t.Errorf("drift: exit code %d, %v", code, v)
	}
	file := filepath.Join(tmp, "g.safetensors")
	code, v = command(t, append([]string{"gradient", "--out", file}, pair...)...)
	if code != 0 || v["score01"] != nil {
		t.Errorf("gradient: exit code %d, %v, want no score01 of a scorer without a range", code, v)
	}
	if raw, err := os.ReadFile(file); err != nil || bytes.Contains(raw, []byte("score01")) {
		t.Errorf("%s: got score01, or %v, want no score01 of a scorer without a range", file, err)
	}
	near("gradient", v["score"], c.Score)
}

// TestDimensions: every command that scores reports the requested dimension, as pair does, and refuses unknown ones.
func TestDimensions(t *testing.T) {
	long.Test(t)
	dir, images := releasedFiles(t)
	tmp := t.TempDir()
	scorer := filepath.Join(tmp, "editreward")
	importEditReward(t, dir, scorer)
	source, table := filepath.Join(images, "coffee.png"), filepath.Join(tmp, "edits.jsonl")
	var rows strings.Builder
	edits := []string{"coffee_blur", "chelsea", "coffee"}
	for i := range 12 {
		edit := filepath.Join(images, edits[i%3]+".png")
		fmt.Fprintf(&rows, "{\"id\": \"%d\", \"source\": %q, \"edit\": %q, \"instruction\": \"blur it\"}\n", i, source, edit)
	}
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	near := func(what string, got any, want float64) {
		t.Helper()
		if v, ok := got.(float64); !ok || !(math.Abs(v-want) < 1e-4) {
			t.Errorf("%s: %v, want %g", what, got, want)
		}
	}
	for _, name := range []string{"following", "quality"} {
		by := func(args ...string) []string { return append(args, "--scorer", scorer, "--dimension", name) }
		want, mean := map[string]float64{}, 0.0
		for i, edit := range edits {
			_, v := command(t, by("pair", "--source", source, "--edit", filepath.Join(images, edit+".png"),
				"--instruction", "blur it")...)
			want[edit], mean = v["score"].(float64), mean+v["score"].(float64)/3
			if i > 0 {
				continue
			}
			_, v = command(t, by("gradient", "--source", source, "--edit", filepath.Join(images, edit+".png"),
				"--instruction", "blur it", "--out", filepath.Join(tmp, "g.npy"))...)
			near("gradient", v["score"], want[edit])
		}
		out := filepath.Join(tmp, name+"scores.jsonl")
		if code, v := command(t, by("batch", "--in", table, "--out", out)...); code != 0 {
			t.Fatalf("batch: exit code %d, %v", code, v)
		}
		for i, row := range lines(t, out) {
			near("batch", row["score"], want[edits[i%3]])
		}
		scores := slices.Collect(maps.Values(want))
		lowest, highest := slices.Min(scores), slices.Max(scores)
		_, best := command(t, by("best", "--in", table)...)
		near("best", best["best"].([]any)[0].(map[string]any)["score"], highest)
		labels := filepath.Join(tmp, name+"labels")
		if code, v := command(t, by("condition", "--in", table, "--out", labels, "--range", "auto")...); code != 0 {
			t.Errorf("condition: exit code %d, %v", code, v)
		}
		for i, row := range lines(t, filepath.Join(labels, "metadata.jsonl")) { // on 0..10 over the table's own range
			near("condition", row["score"].(float64)*(highest-lowest)/10, want[edits[i%3]]-lowest)
		}
		_, drifted := command(t, by("drift", "--before", table, "--after", out)...)
		first := drifted["facts"].([]any)[0].(map[string]any)
		if near("drift", first["before"], mean); first["name"] != "score" {
			t.Errorf("drift: %v", first)
		}
	}
	for _, args := range [][]string{
		{"pair", "--source", source, "--edit", source, "--instruction", "x"},
		{"gradient", "--source", source, "--edit", source, "--instruction", "x", "--out", filepath.Join(tmp, "g.npy")},
		{"batch", "--in", table, "--out", filepath.Join(tmp, "no.jsonl")}, {"best", "--in", table},
		{"condition", "--in", table, "--out", filepath.Join(tmp, "no")}, {"drift", "--before", table, "--after", table},
		{"calibrate", "--in", table},
	} {
		code, _, stderr := run(t, append(args, "--scorer", scorer, "--dimension", "looks")...)
		if code != 1 || !strings.Contains(stderr, `"looks"`) || !strings.Contains(stderr, "following") {
			t.Errorf("%s: exit code %d, %s", args[0], code, stderr)
		}
	}
}

// TestImportedOnePicture scores a picture that has no source.
func TestImportedOnePicture(t *testing.T) {
	dir, images := releasedFiles(t)
	tmp := t.TempDir()
	scorer, base := filepath.Join(tmp, "hpsv3"), filepath.Join(dir, "hpsv3")
	config := filepath.Join(tmp, "hpsv3.yaml")
	type cases struct {
		MaxPixels int `json:"max_pixels"`
		Cases     []struct {
			Picture, Text string
			Score         float64
		}
	}
	all := oracle.Read[cases](t, filepath.Join(base, "cases.json"))
	if err := os.WriteFile(config, fmt.Appendf(nil, "max_pixels: %d\n", all.MaxPixels), 0o666); err != nil {
		t.Fatal(err)
	}
	code, v := command(t, "import", "hpsv3", "--base", filepath.Join(base, "base"), "--config", config, "--weights",
		filepath.Join(base, "HPSv3.safetensors"), "--prompts", filepath.Join(base, "prompts", "picture.txt"), "--out", scorer)
	if code != 0 {
		t.Fatalf("import: exit code %d, %v", code, v)
	}
	var rows strings.Builder
	for _, c := range all.Cases {
		edit := filepath.Join(images, filepath.Base(c.Picture))
		_, v := command(t, "pair", "--scorer", scorer, "--edit", edit, "--instruction", c.Text)
		if got, ok := v["score"].(float64); !ok || !(math.Abs(got-c.Score) < 1e-4) {
			t.Errorf("%v, want %g", v, c.Score)
		}
		fmt.Fprintf(&rows, "{\"edit\": %q, \"instruction\": %q}\n", edit, c.Text)
	}
	table, out := filepath.Join(tmp, "pictures.jsonl"), filepath.Join(tmp, "scores.jsonl")
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	if code, v := command(t, "batch", "--scorer", scorer, "--in", table, "--out", out); code != 0 {
		t.Errorf("batch: exit code %d, %v", code, v)
	}
	edit := filepath.Join(images, filepath.Base(all.Cases[0].Picture))
	code, _, stderr := run(t, "pair", "--scorer", scorer, "--source", edit, "--edit", edit, "--instruction", "x")
	if code != 2 || !strings.Contains(stderr, "one picture") {
		t.Errorf("with --source: exit code %d, %s", code, stderr)
	}
}

func TestImportRefuses(t *testing.T) {
	for want, args := range map[string][]string{
		"invalid argument": {"import", "unknown", "--out", "x"},
		"--out is needed":  {"import", "adiee"},
		"--base is needed": {"import", "choices", "--out", "x"},
		"belongs to":       {"import", "adiee", "--out", "x", "--choices", "a,b"},
		"two numbers":      {"import", "adiee", "--out", "x", "--pair-size", "512"},
		"not a number":     {"import", "choices", "--base", "b", "--prompts", "p", "--choices", "Y,N", "--out", "x"},
		"for 2 choices":    {"import", "choices", "--base", "b", "--choices", "Y,N", "--values", "1", "--out", "x"},
		"not be empty":     {"import", "choices", "--base", "b", "--choices", "Y,N", "--values", "1,1", "--out", "x"},
	} {
		if code, _, stderr := run(t, args...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("%v: exit code %d, %s; want 2 and %q", args, code, stderr, want)
		}
	}
}
