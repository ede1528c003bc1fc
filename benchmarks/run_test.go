package benchmarks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestScoreNoticesChanges: behind one folder of predictions, what changed is scored again, and nothing else.
func TestScoreNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	picture := func(name, content string) Picture {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return Picture{Path: path}
	}
	bytes := func(content string) Picture {
		return Picture{Read: func() ([]byte, error) { return []byte(content), nil }}
	}
	var items []Item
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		items = append(items, Item{Key: Key{ID: id}, Group: id, Instruction: "brighter", Source: picture(id+"0", "source"),
			Edit: picture(id+"1", id), Target: bytes("wanted"), Captions: [2]string{"dark", "bright"}})
	}
	var scored []string
	f := &fake{score: func(it Item) float64 {
		scored = append(scored, it.ID)
		return float64(len(scored))
	}}
	run := Run{Benchmark: "test", Items: items, Dir: t.TempDir()}
	score := func() map[string]float64 {
		t.Helper()
		scored = nil
		path := must[string](t)(run.Score(context.Background(), f.scorer("fake")))
		out := map[string]float64{}
		for _, r := range must[[]row](t)(readRows(path)) {
			id := must[string](t)(r.id("id"))
			if _, twice := out[id]; twice {
				t.Errorf("two predictions for %s", id)
			}
			out[id] = must[float64](t)(r.number("score"))
		}
		return out
	}
	if score(); len(scored) != 6 {
		t.Fatalf("scored %v", scored)
	}
	if score(); len(scored) != 0 {
		t.Fatalf("without a change, %v were scored again", scored)
	}
	picture("a1", "another edit")
	picture("b0", "another source")
	items[2].Instruction = "darker"
	items[3].Captions[1] = "dim"
	items[4].Target = bytes("something else")
	got := score()
	if slices.Sort(scored); !slices.Equal(scored, []string{"a", "b", "c", "d", "e"}) || len(got) != 6 || got["f"] != 6 {
		t.Errorf("%v were scored again, predictions are %v", scored, got)
	}
	items[0].Edit, items[5].Edit = items[5].Edit, items[0].Edit // the pictures change places
	if score(); len(scored) != 2 {
		t.Errorf("%v were scored again", scored)
	}
}
