package benchmarks

import (
	_ "embed"
	"encoding/csv"
	"fmt"
	"strconv"
	"strings"
	"sync"
)

// publishedCSV holds the numbers that papers print, one a row, under the names of the numbers here. Where a paper does
// not state the rule of a number, its method says so.
//
//go:embed published.csv
var publishedCSV string

// Reported is one method's numbers in one paper.
type Reported struct {
	Method string
	Paper  string
	Values map[string]float64
}

// published parses publishedCSV, which is part of the program: a mistake in it is a bug.
var published = sync.OnceValue(func() map[string][]Reported {
	rows, err := csv.NewReader(strings.NewReader(publishedCSV)).ReadAll()
	if err != nil {
		panic(err)
	}
	out := map[string][]Reported{}
	for _, r := range rows[1:] {
		benchmark, paper, method, number := r[0], r[1], r[2], r[3]
		v, err := strconv.ParseFloat(r[4], 64)
		if err != nil {
			panic(fmt.Errorf("published.csv: %q: %w", r, err))
		}
		list := out[benchmark]
		if n := len(list); n == 0 || list[n-1].Method != method || list[n-1].Paper != paper {
			list = append(list, Reported{method, paper, map[string]float64{}})
		}
		list[len(list)-1].Values[number] = v
		out[benchmark] = list
	}
	return out
})

// Reported returns the published numbers of a benchmark, paper by paper.
func (b *Benchmark) Reported() []Reported { return published()[b.Name] }
