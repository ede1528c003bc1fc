package trainer

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/internal/oracle"
)

// TestRecipes dry-runs every classifier and regression of reproduce/adiee, on small backbones of the families that
// they name and a small table with the columns that theirs have: the plan stands, and says what each trains.
func TestRecipes(t *testing.T) {
	files, err := filepath.Glob("../reproduce/adiee/*/[cr]*.yaml") // classifiers and regressions
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
		name, _ := filepath.Rel("../reproduce/adiee", file)
		t.Run(name, func(t *testing.T) {
			c, err := Load(file)
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
			c.Data.Train, c.Device, c.Threads = Strings{table}, "cpu", 1
			if len(c.PairSize) > 0 { // the backbone is small, too
				c.PairSize = []int{64, 64}
			}
			plan, err := DryRun(context.Background(), c, OpenModel)
			if err != nil {
				t.Fatal(err)
			}
			if plan.Trains.Head == 0 || plan.Trains.Adapters["language"] == 0 || plan.Trains.TokenRows != 2 {
				t.Errorf("%+v", plan.Trains)
			}
		})
	}
}
