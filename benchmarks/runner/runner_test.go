package runner

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"assay/benchmarks/adiee"
	"assay/benchmarks/benchtest"
	"assay/benchmarks/protocol"
)

// fake scores by a function and remembers the groups it was given.
type fake struct {
	score  func(it protocol.Item) float64
	groups []int
	stop   int
	cancel context.CancelFunc
}

func (f *fake) Prepare(it protocol.Item) (protocol.Item, error) { return it, nil }

func (f *fake) Score(_ context.Context, group []protocol.Item) ([]float64, error) {
	f.groups = append(f.groups, len(group))
	if len(f.groups) == f.stop {
		f.cancel()
	}
	var out []float64
	for k, it := range group {
		out = append(out, f.score(it)+0.01*float64(k))
	}
	return out, nil
}

// scorer runs f on items whose pictures are not there.
func (f *fake) scorer(fingerprint string) *Scorer {
	s := newScorer(f, f.Prepare, nil)
	s.Fingerprint = fingerprint
	return s
}

func TestScoreResumes(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Data: "../testdata"})
	items := benchtest.Must[[]protocol.Item](t)(s.(protocol.Scorable).Items())
	ctx, cancel := context.WithCancel(context.Background())
	f := &fake{score: func(it protocol.Item) float64 { return float64(len(it.ID)) }, stop: 3, cancel: cancel}
	run := Run{Benchmark: "genaibench", Items: items, Dir: t.TempDir()}
	path, err := run.Score(ctx, f.scorer("fake"))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// an interrupted write leaves half a line
	file := benchtest.Must[*os.File](t)(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	file.WriteString(`{"id":"3","mod`)
	file.Close()
	last := 0
	run.Progress = func(n, _ int) { last = n }
	if _, err := run.Score(context.Background(), f.scorer("fake")); err != nil {
		t.Fatal(err)
	}
	if len(f.groups) != 40 || f.groups[0] != 2 || last != 80 {
		t.Errorf("%d groups were scored, the first of %d, progress ends at %d", len(f.groups), f.groups[0], last)
	}
	got := benchtest.ReadSet(t, s, path)
	benchtest.Near(t, "n", got["n"], 40, 0)
	if _, err := run.Score(context.Background(), f.scorer("another")); err == nil ||
		!strings.Contains(err.Error(), "predictions of another run") {
		t.Error(err)
	}
	bad := &fake{score: func(protocol.Item) float64 { return math.NaN() }}
	run.Dir = t.TempDir()
	if _, err := run.Score(context.Background(), bad.scorer("fake")); err == nil ||
		!strings.Contains(err.Error(), "scoring 0 of left: the score is NaN") {
		t.Error(err)
	}
	// equal scores plus 0.01 for the second one: the winner is always the second, so it always flips
	o := benchtest.Must[*Order](t)(CheckOrder(context.Background(), f.scorer("fake"), items, nil))
	if o.Pairs != 40 || o.Flips != 40 || o.Rate != 1 || math.Abs(o.Largest-0.01) > 1e-12 {
		t.Errorf("order %+v", o)
	}
}
