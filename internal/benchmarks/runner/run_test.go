package runner

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
)

// TestScoreNoticesChanges: with the same folder of predictions, items that changed are scored again, and no others.
func TestScoreNoticesChanges(t *testing.T) {
	dir := t.TempDir()
	picture := func(name, content string) protocol.Picture {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o666); err != nil {
			t.Fatal(err)
		}
		return protocol.Picture{Path: path}
	}
	bytes := func(content string) protocol.Picture {
		return protocol.Picture{Read: func() ([]byte, error) { return []byte(content), nil }}
	}
	var items []*edit.Edit
	for _, id := range []string{"a", "b", "c", "d", "e", "f"} {
		it := protocol.NewItem(protocol.Key{ID: id}, "brighter", picture(id+"0", "source"), picture(id+"1", id))
		it.Group = id
		it.Set(protocol.Target, bytes("wanted"))
		protocol.SetCaptions(it, [2]string{"dark", "bright"})
		items = append(items, it)
	}
	var scored []string
	f := &fake{score: func(it *edit.Edit) float64 {
		scored = append(scored, it.ID)
		return float64(len(scored))
	}}
	run := Run{Benchmark: "test", Items: items, Dir: t.TempDir()}
	score := func() map[string]float64 {
		t.Helper()
		scored = nil
		path := benchtest.Must[string](t)(run.Score(context.Background(), f.judge("fake")))
		out := map[string]float64{}
		for _, r := range benchtest.Must[[]*protocol.Line](t)(protocol.ReadLines(path)) {
			id := r.ID("id")
			if _, twice := out[id]; twice {
				t.Errorf("two predictions for %s", id)
			}
			if out[id] = r.Number("score"); r.Err() != nil {
				t.Fatal(r.Err())
			}
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
	items[3].Texts[protocol.TargetCaption] = "dim"
	items[4].Set(protocol.Target, bytes("something else"))
	got := score()
	if slices.Sort(scored); !slices.Equal(scored, []string{"a", "b", "c", "d", "e"}) || len(got) != 6 || got["f"] != 6 {
		t.Errorf("%v were scored again, predictions are %v", scored, got)
	}
	items[0].Output, items[5].Output = items[5].Output, items[0].Output // the pictures change places
	if score(); len(scored) != 2 {
		t.Errorf("%v were scored again", scored)
	}
}

// TestContentUnknown: the bytes of a picture cannot be read at first, but a moment later they can. This must be an
// error, and not store a prediction under a content digest that is never found again.
func TestContentUnknown(t *testing.T) {
	path := filepath.Join(t.TempDir(), "edit.png")
	if err := os.WriteFile(path, []byte("edit"), 0o666); err != nil {
		t.Fatal(err)
	}
	calls := 0
	busy := protocol.Picture{Read: func() ([]byte, error) {
		if calls++; calls == 1 {
			return nil, errors.New("the disk is busy")
		}
		return []byte("target"), nil
	}}
	item := protocol.NewItem(protocol.Key{ID: "a"}, "brighter", protocol.Picture{Path: path}, protocol.Picture{Path: path})
	item.Group = "a"
	item.Set(protocol.Target, busy)
	run := Run{Benchmark: "test", Items: []*edit.Edit{item}, Dir: t.TempDir()}
	f := &fake{score: func(*edit.Edit) float64 { return 1 }}
	file, err := run.Score(context.Background(), f.judge("fake"))
	if err == nil || !strings.Contains(err.Error(), "the disk is busy") {
		t.Errorf("the error is %v", err)
	}
	if lines, err := os.ReadFile(file); err != nil || len(lines) > 0 {
		t.Errorf("a prediction was stored: %s, %v", lines, err)
	}
	if _, err := run.Score(context.Background(), f.judge("fake")); err != nil {
		t.Errorf("the next run: %v", err)
	}
}
