package records

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

type silent struct{}

func (silent) Add(int64, string) {}
func (silent) Close()            {}

// TestCutBack: a run that resumes from a checkpoint does not record later steps twice.
func TestCutBack(t *testing.T) {
	dir := t.TempDir()
	begin := func(name string, size, events int64, steps ...int64) (int64, int64, string) {
		r, err := New(dir, name, size, events, true)
		if err != nil {
			t.Fatal(err)
		}
		r.Progress = silent{}
		var at [2]int64
		for i, n := range steps {
			if err := r.Step(&StepMetrics{Kind: "train", Step: n, L1: None}); err != nil {
				t.Fatal(err)
			}
			if i == 0 {
				if at[0], at[1], name, err = r.Sync(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		return at[0], at[1], name
	}
	size, events, name := begin("", 0, 0, 1, 2)
	begin(name, size, events, 2, 3)
	text, err := os.ReadFile(filepath.Join(dir, MetricsFile))
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for line := range strings.Lines(string(text)) {
		var m StepMetrics
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			t.Fatal(err)
		}
		if got = append(got, m.Step); !math.IsNaN(float64(m.L1)) {
			t.Errorf("got l1 %v, want none", m.L1)
		}
	}
	if len(got) != 3 || got[0] != 1 || got[1] != 2 || got[2] != 3 {
		t.Errorf("got steps %v, want 1, 2, 3", got)
	}
	if _, err := New(dir, name, size*100, events, true); err == nil {
		t.Error("metrics that are shorter than the checkpoint says were opened")
	}
}

// TestValue: values compare as lower is better, and undefined metrics do not compare.
func TestValue(t *testing.T) {
	share := Number(0.75)
	m := &ValidationMetrics{L1: 0.25, Spearman: 0.5, Pairs: &share}
	for by, want := range map[string]float64{"l1": 0.25, "spearman": -0.5, "pair_accuracy": -0.75} {
		t.Run(by, func(t *testing.T) {
			if got, ok := m.Value(by); got != want || !ok {
				t.Errorf("got %g, %v, want %g", got, ok, want)
			}
		})
	}
	if _, ok := m.Value("loss"); ok {
		t.Error("an undefined metric compares")
	}
}
