package runner

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/edit"
	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
)

// ranged is a fake whose scores are on a range.
type ranged struct {
	fake
	on edit.Range
}

func (f *ranged) Info() edit.Info { return edit.Info{Name: "ranged", Range: f.on} }

func (f *ranged) Score(_ context.Context, group []edit.Inputs) (out []edit.Score, _ []error, _ error) {
	for _, in := range group {
		it := in.(item).Edit
		score01 := float64((7*len(it.Instruction)+3*len(it.Editor)+11*int(it.ID[len(it.ID)-1]))%20) / 20
		out = append(out, edit.Score{Value: f.on.Of(score01)})
	}
	return out, make([]error, len(group)), nil
}

// TestOtherRanges: the rule "adiee", which is made for 0 to 10, gives a scorer the same number on any range, also in
// a folder from before runs recorded the range.
func TestOtherRanges(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Data: "../testdata"})
	items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items())
	run := func(on edit.Range, dir string) map[string]any {
		r := Run{Benchmark: "genaibench", Items: items, Dir: dir}
		path := benchtest.Must[string](t)(r.Score(context.Background(), NewJudge(&ranged{on: on}, "ranged")))
		return benchtest.ReadSet(t, s, path)
	}
	want := benchtest.At(run(edit.Range{0, 10}, t.TempDir()), "rules", "adiee", "confusion")
	for _, on := range []edit.Range{{0, 5}, {1, 5}, {0, 1}, {10, 0}} {
		dir := t.TempDir()
		for _, again := range []bool{false, true} {
			got := run(on, dir)
			if d := cmp.Diff(want, benchtest.At(got, "rules", "adiee", "confusion")); d != "" {
				t.Errorf("adiee %s (-want +got):\n%s", on.Words(), d)
			}
			if notes := fmt.Sprint(got["notes"]); !strings.Contains(notes, on.Words()) {
				t.Errorf("notes of a run %s: got %s, want the range", on.Words(), notes)
			}
			file := filepath.Join(dir, "run.json")
			text := string(benchtest.Must[[]byte](t)(os.ReadFile(file)))
			if !strings.Contains(text, `"range"`) {
				t.Errorf("%s, again %t: run.json is %s, want the range in it", on.Words(), again, text)
			}
			before, _, _ := strings.Cut(text, ",\n  \"range\"")
			if err := os.WriteFile(file, []byte(before+"\n}\n"), 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
}
