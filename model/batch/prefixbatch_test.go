package batch

import (
	"fmt"
	"testing"
)

// TestSharing: samples with the same start run together as far as the limit allows, and in pairs if a single sample
// exceeds it.
func TestSharing(t *testing.T) {
	for _, c := range []struct {
		name        string
		length, cut int
		want        string
	}{
		{"all at once", 30, 20, "[[0 1 2 3 4]]"},
		{"in parts", 60, 40, "[[0 1] [2 3] [4]]"},
		{"two are too many", 70, 20, "[]"},
		{"one exceeds the limit", 120, 90, "[[0 1] [2 3] [4]]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &PrefixGroup{cut: c.cut, Members: []int{0, 1, 2, 3, 4}}
			spans := make([]Span, len(f.Members))
			for i := range spans {
				spans[i].Length = c.length
			}
			l := Limits{Shared: 80, Near: 1}
			if got := fmt.Sprint(l.sharing(spans, []*PrefixGroup{f}, MinShared)); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
