package protocol

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Reported is one method's numbers in one paper. A paper that contradicts itself has several for a method.
type Reported struct {
	Method  string
	Paper   string
	Numbers []ReportedNumber
}

// ReportedNumber is a printed number, its place and what the paper states about it.
type ReportedNumber struct {
	Name  string
	Value float64
	Place string // "Table 1"; "" if it is not known
	Terms
	Contradictions []string // what the same paper prints for it elsewhere
}

// Reported returns the numbers that papers print for a benchmark, paper by paper, from the rows of its family. They are
// part of the program: a mistake in them is a bug.
func (b *Benchmark) Reported() []Reported {
	rows, err := csv.NewReader(strings.NewReader(b.PublishedCSV)).ReadAll()
	if err != nil {
		panic(err)
	}
	rows = slices.DeleteFunc(rows, func(r []string) bool { return r[0] != b.Name })
	type same struct{ paper, method, number, subset string }
	elsewhere := map[same][][]string{}
	of := func(r []string) same { return same{r[1], r[3], r[4], r[6]} }
	for _, r := range rows {
		elsewhere[of(r)] = append(elsewhere[of(r)], r)
	}
	var list []Reported
	for _, r := range rows {
		paper, place, method, subset := r[1], r[2], r[3], r[6]
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
		at := slices.IndexFunc(list, func(l Reported) bool {
			has := slices.ContainsFunc(l.Numbers, func(n ReportedNumber) bool { return n.Name == number.Name })
			return l.Method == method && l.Paper == paper && l.Numbers[0].Subset == subset && !has
		})
		if at < 0 {
			at, list = len(list), append(list, Reported{Method: method, Paper: paper})
		}
		list[at].Numbers = append(list[at].Numbers, number)
	}
	return list
}
