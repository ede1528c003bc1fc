package protocol

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// publishedCSV holds the numbers that papers print, one a row, under the names of the numbers here, with their place in
// the paper. Beside each stands what the paper states of it: the part of the benchmark, the judge and the
// normalisation. Where a paper does not state the rule of a number, its name says so. A paper that contradicts itself
// has a row for every place.
//
//go:embed published.csv
var publishedCSV string

// Reported is one method's numbers in one paper. A paper that contradicts itself has several of them for a method.
type Reported struct {
	Method  string
	Paper   string
	Values  map[string]float64
	Numbers []ReportedNumber
}

// ReportedNumber is a printed number, its place and what the paper states of it.
type ReportedNumber struct {
	Name  string
	Value float64
	Place string // "Table 1"; "" if it is not known
	Terms
	Contradictions []string // what the same paper prints for it elsewhere
}

// Published parses publishedCSV, which is part of the program: a mistake in it is a bug.
var Published = sync.OnceValue(func() map[string][]Reported {
	rows, err := csv.NewReader(strings.NewReader(publishedCSV)).ReadAll()
	if err != nil {
		panic(err)
	}
	type same struct{ benchmark, paper, method, number, subset string }
	elsewhere := map[same][][]string{}
	of := func(r []string) same { return same{r[0], r[1], r[3], r[4], r[6]} }
	for _, r := range rows[1:] {
		elsewhere[of(r)] = append(elsewhere[of(r)], r)
	}
	out := map[string][]Reported{}
	for _, r := range rows[1:] {
		benchmark, paper, place, method, subset := r[0], r[1], r[2], r[3], r[6]
		v, err := strconv.ParseFloat(r[5], 64)
		if err != nil {
			panic(fmt.Errorf("published.csv: %q: %w", r, err))
		}
		number := ReportedNumber{Name: r[4], Value: v, Place: place,
			Terms: Terms{Subset: subset, Judge: r[7], Normalisation: r[8]}}
		for _, other := range elsewhere[of(r)] {
			if w, err := strconv.ParseFloat(other[5], 64); err == nil && w != v {
				number.Contradictions = append(number.Contradictions, fmt.Sprintf("%v in %s", w, other[2]))
			}
		}
		list := out[benchmark]
		at := slices.IndexFunc(list, func(l Reported) bool {
			_, has := l.Values[number.Name]
			return l.Method == method && l.Paper == paper && l.Numbers[0].Subset == subset && !has
		})
		if at < 0 {
			at = len(list)
			list = append(list, Reported{Method: method, Paper: paper, Values: map[string]float64{}})
		}
		list[at].Values[number.Name] = v
		list[at].Numbers = append(list[at].Numbers, number)
		out[benchmark] = list
	}
	return out
})

// Reported returns the published numbers of a benchmark, paper by paper.
func (b *Benchmark) Reported() []Reported { return Published()[b.Name] }
