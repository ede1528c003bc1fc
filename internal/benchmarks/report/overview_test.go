package report

import (
	"fmt"
	"testing"

	"assay/internal/benchmarks/protocol"
)

// TestOverviewNumbers: numbers with different names never share a line, and a failed judge fails in each.
func TestOverviewNumbers(t *testing.T) {
	one, two := protocol.Value(0.25), protocol.Value(0.75)
	o := Overview{Judges: []string{"a", "b", "c"}, Rows: []OverviewRow{
		{Benchmark: "x", Cells: []OverviewCell{{Judge: "a", Number: "accuracy", Value: &one}, {Judge: "b", Error: "gone"},
			{Judge: "c", Number: "spearman", Value: &two}}},
		{Benchmark: "y", Cells: []OverviewCell{{Error: "gone"}, {Error: "gone"}, {Error: "gone"}}},
	}}
	var got string
	for _, r := range o.Table().Rows {
		got += r.Name + ":"
		for _, c := range r.Cells {
			if got += " " + c.Text; c.Text == "" {
				got += fmt.Sprint(c.Value)
			}
		}
		got += "\n"
	}
	const want = "x: accuracy: 0.25 failed -\nx: spearman: - failed 0.75\ny: failed failed failed\n"
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if n := len(o.Table().Notes); n != 4 {
		t.Errorf("got %d notes, want 4: one for each failure", n)
	}
}
