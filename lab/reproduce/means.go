package main

import (
	"fmt"
	"math"
	"os"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/stats"
)

// means computes means of numbers of a table for each editor, with 95 % intervals over rows.
type means struct {
	in, by, out string
	of          []string
}

func (f *means) write() (int, error) {
	t, err := data.OpenTable(f.in, data.WithRequired(), data.WithOnly())
	if err != nil {
		return 0, err
	}
	defer t.Close()
	values := map[string]map[string][]float64{}
	var groups []string
	for r, err := range t.Records() {
		if err != nil {
			return 0, err
		}
		v, _ := r.Get(f.by)
		group, err := data.Text(v)
		if err != nil || group == "" {
			return 0, fmt.Errorf("%s: a row has no text in %s (%v)", f.in, f.by, err)
		}
		if values[group] == nil {
			values[group], groups = map[string][]float64{}, append(groups, group)
		}
		for _, name := range f.of {
			v, ok := r.Get(name)
			if !ok {
				return 0, fmt.Errorf("%s: no column %s", f.in, name)
			}
			if v == nil {
				continue // an undefined similarity, or an edit that could not be scored
			}
			x, err := data.Number(v)
			if err != nil || x == nil || math.IsNaN(*x) || math.IsInf(*x, 0) {
				return 0, fmt.Errorf("%s: %s is %v (%v)", f.in, name, v, err)
			}
			values[group][name] = append(values[group][name], *x)
		}
	}
	if len(groups) == 0 {
		return 0, fmt.Errorf("%s: no rows", f.in)
	}
	slices.Sort(groups)
	return len(groups), f.print(groups, values)
}

func (f *means) print(groups []string, values map[string]map[string][]float64) error {
	var b strings.Builder
	fmt.Fprintf(&b, "| %s |", f.by)
	for _, name := range f.of {
		fmt.Fprintf(&b, " mean %s (95 %% interval; rows) |", name)
	}
	b.WriteString("\n|" + strings.Repeat("---|", 1+len(f.of)) + "\n")
	for _, g := range groups {
		fmt.Fprintf(&b, "| %s |", g)
		for _, name := range f.of {
			x := values[g][name]
			intervals := stats.Bootstrap(stats.NewRand(1), len(x), 2000, 0.95, func(units []int) []float64 {
				sum := 0.0
				for _, u := range units {
					sum += x[u]
				}
				return []float64{sum / float64(len(units))}
			})
			if len(x) == 0 || len(intervals) == 0 {
				b.WriteString(" - (0) |")
				continue
			}
			fmt.Fprintf(&b, " %.3f (%.3f to %.3f; %d) |", stats.Mean(x), intervals[0].Low, intervals[0].High, len(x))
		}
		b.WriteString("\n")
	}
	fmt.Fprint(os.Stderr, b.String())
	return atomicfile.WriteBytes(f.out, []byte(b.String()))
}
