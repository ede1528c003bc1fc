package trainer

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/long"
	"assay/internal/oracle"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
)

// TestRecipes dry-runs every classifier and regression of reproduce/adiee, on small backbones of the same families
// and a small table with the same columns. The dry run succeeds, and the plan lists what each trains.
func TestRecipes(t *testing.T) {
	long.Test(t)
	files, err := filepath.Glob("../../reproduce/adiee/*/[cr]*.yaml") // classifiers and regressions
	if err != nil || len(files) < 13 {
		t.Fatal(files, err)
	}
	root, dir := oracle.Folders(t)[0], t.TempDir()
	var rows strings.Builder
	for g, p := range oracle.Read[[]struct{ Input, Edited string }](t, filepath.Join(root, "images", "pairs.json")) {
		for k, edit := range []string{p.Input, p.Edited} {
			fmt.Fprintf(&rows, `{"id": "%d-%d", "group": "g%d", "source": %q, "edit": %q, "instruction": "edit number %d", `+
				`"label": %d, "score01": %g, "split": %q}`+"\n",
				g, k, g, filepath.Join(root, p.Input), filepath.Join(root, edit), g, k, float64(g%5)/4,
				[]string{"train", "validation"}[g%2])
		}
	}
	table := filepath.Join(dir, "table.jsonl")
	if err := os.WriteFile(table, []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name, _ := filepath.Rel("../../reproduce/adiee", file)
		t.Run(name, func(t *testing.T) {
			c, err := config.Load(file)
			if err != nil {
				t.Fatal(err)
			}
			recipe, stage := filepath.Dir(name), strings.TrimSuffix(filepath.Base(name), ".yaml")
			if want := filepath.Join("runs", "adiee", recipe, stage); !strings.HasSuffix(c.Out, want) {
				t.Errorf("out is %s, want %s", c.Out, want)
			}
			if scored := c.Data.Columns["label"] == "score01"; scored != (stage == "regression" && recipe != "direct") {
				t.Errorf("columns: %v", c.Data.Columns)
			}
			if c.Head.Classes() != (stage == "classifier") || (len(c.Head.Hidden) == 0) != (recipe == "linear") {
				t.Errorf("head: %+v", c.Head)
			}
			family := "llavanext"
			if recipe == "qwen" {
				family = "qwen2_5_vl"
			}
			c.Backbone, c.Out = filepath.Join(root, family, "backbone"), filepath.Join(t.TempDir(), "run")
			c.Data.Train, c.Device, c.Threads = config.Strings{table}, "cpu", 1
			if len(c.PairSize) > 0 { // the backbone is small as well
				c.PairSize = []int{64, 64}
			}
			plan, err := DryRun(context.Background(), c, models.Open)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Trains.Head == 0 || plan.Trains.Adapters["language"] == 0 || plan.Trains.TokenRows != 2 {
				t.Errorf("%+v", plan.Trains)
			}
		})
	}
}

// TestRecipesAreTwoCommands runs examples/adiee/train.sh for every recipe, with commands that only record their
// arguments: each stage reads the output of the previous one, and a second call repeats nothing.
func TestRecipesAreTwoCommands(t *testing.T) {
	root, bin := t.TempDir(), t.TempDir()
	for _, name := range []string{"reproduce", "examples"} {
		from, err := filepath.Abs(filepath.Join("..", "..", name))
		if err == nil {
			err = os.Symlink(from, filepath.Join(root, name))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"train", "score", "label", "reproduce"} {
		note := "#!/bin/sh\necho \"$(basename \"$0\") $*\" >>" + filepath.Join(root, "lines") + "\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(note), 0o777); err != nil {
			t.Fatal(err)
		}
	}
	recipe := func(args ...string) (string, []string, error) {
		c := exec.CommandContext(t.Context(), filepath.Join(root, "examples/adiee/train.sh"), args...)
		c.Env = append(os.Environ(), "REPRODUCE_BIN="+bin)
		out, err := c.CombinedOutput()
		raw, _ := os.ReadFile(filepath.Join(root, "lines"))
		os.Remove(filepath.Join(root, "lines"))
		return string(out), strings.Split(strings.TrimSpace(string(raw)), "\n"), err
	}
	at := func(path string) string { return filepath.Join("..", "..", path) }
	names := []string{"full", "linear", "qwen", "magicbrush", "emu-edit", "sequences", "classifier", "direct"}
	for _, name := range names {
		out, lines, err := recipe(name)
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		var stages []*config.Config
		for _, line := range lines {
			words := strings.Fields(line)
			if words[0] == "train" {
				c, err := config.Load(at(words[2]))
				if err != nil {
					t.Fatal(err)
				}
				stages = append(stages, c)
				continue
			}
			if len(words) != 8 || len(stages) != 1 {
				t.Fatalf("%s: %q", name, lines)
			}
			next, err := config.Load(at("reproduce/adiee/" + name + "/regression.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			for i, want := range []string{stages[0].Out + "/scorer", stages[0].Data.Train[0], next.Data.Train[0]} {
				if got, err := filepath.Abs(at(words[3+2*i])); err != nil || got != want {
					t.Errorf("%s: %s is %s, want %s", name, words[2+2*i], got, want)
				}
			}
		}
		want := map[string]int{"classifier": 1, "direct": 1}[name]
		if want == 0 && (len(stages) != 2 || len(lines) != 3) || want > 0 && (len(stages) != want || len(lines) != want) {
			t.Errorf("%s: %q", name, lines)
		}
		if out, again, err := recipe(name); err != nil || again[0] != "" {
			t.Errorf("%s, again: %q, %v\n%s", name, again, err, out)
		}
	}
	if out, _, err := recipe("half"); err == nil || !strings.Contains(out, "there are: classifier direct emu-edit full") {
		t.Errorf("half: %v\n%s", err, out)
	}
}
