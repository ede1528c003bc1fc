package runner

import (
	"context"
	"errors"
	"math"
	"os"
	"strings"
	"testing"

	"assay/edit"
	"assay/internal/benchmarks/adiee"
	"assay/internal/benchmarks/benchtest"
	"assay/internal/benchmarks/protocol"
	"assay/internal/exit"
)

// fake scores by a function and remembers the groups it was given.
type fake struct {
	score  func(it *edit.Edit) float64
	groups []int
	stop   int
	cancel context.CancelFunc
}

// item is the inputs of fake: it does not decode pictures, which need not exist.
type item struct{ *edit.Edit }

func (item) Size(edit.Inputs) int { return 0 }

func (f *fake) Info() edit.Info                            { return edit.Info{Name: "fake", Range: edit.NoRange()} }
func (f *fake) Fingerprint() (string, error)               { return "fake", nil }
func (f *fake) Prepare(it *edit.Edit) (edit.Inputs, error) { return item{it}, nil }
func (f *fake) Close() error                               { return nil }

func (f *fake) Score(_ context.Context, group []edit.Inputs) ([]edit.Score, []error, error) {
	f.groups = append(f.groups, len(group))
	if len(f.groups) == f.stop {
		f.cancel()
	}
	var out []edit.Score
	for k, in := range group {
		out = append(out, edit.Score{Value: f.score(in.(item).Edit) + 0.01*float64(k)})
	}
	return out, make([]error, len(group)), nil
}

// judge runs f on items whose pictures need not exist.
func (f *fake) judge(fingerprint string) *Judge {
	return NewJudge(f, fingerprint)
}

func TestScoreResumes(t *testing.T) {
	s := benchtest.LoadSet(t, adiee.GenAIBench, protocol.Options{Data: "../testdata"})
	items := benchtest.Must[[]*edit.Edit](t)(s.(protocol.Scorable).Items())
	ctx, cancel := context.WithCancel(context.Background())
	f := &fake{score: func(it *edit.Edit) float64 { return float64(len(it.ID)) }, stop: 3, cancel: cancel}
	run := Run{Benchmark: "genaibench", Items: items, Dir: t.TempDir()}
	path, err := run.Score(ctx, f.judge("fake"))
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// an interrupted write leaves half a line
	file := benchtest.Must[*os.File](t)(os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0))
	file.WriteString(`{"id":"3","mod`)
	file.Close()
	last := 0
	run.Progress = func(n, _ int) { last = n }
	if _, err := run.Score(context.Background(), f.judge("fake")); err != nil {
		t.Fatal(err)
	}
	if len(f.groups) != 40 || f.groups[0] != 2 || last != 80 {
		t.Errorf("%d groups were scored, the first of %d, progress ends at %d", len(f.groups), f.groups[0], last)
	}
	got := benchtest.ReadSet(t, s, path)
	benchtest.Near(t, "n", got["n"], 40, 0)
	if _, err := run.Score(context.Background(), f.judge("another")); err == nil ||
		!strings.Contains(err.Error(), "predictions of another run") || exit.Code(err) != exit.Wrong {
		t.Errorf("another judge: got %v, exit code %d, want an error with code %d", err, exit.Code(err), exit.Wrong)
	}
	bad := &fake{score: func(*edit.Edit) float64 { return math.NaN() }}
	run.Dir = t.TempDir()
	if _, err := run.Score(context.Background(), bad.judge("fake")); err == nil ||
		!strings.Contains(err.Error(), "scoring 0 of left: the score is NaN") {
		t.Error(err)
	}
	// equal scores plus 0.01 for the second one: the winner is always the second, so it always flips
	o := benchtest.Must[*Order](t)(CheckOrder(context.Background(), f.judge("fake"), items, nil))
	if o.Pairs != 40 || o.Flips != 40 || o.Rate != 1 || !(math.Abs(o.Largest-0.01) <= 1e-12) {
		t.Errorf("order %+v", o)
	}
}
