package aimbench

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"assay/internal/benchmarks/protocol"
)

// aimColumns are the columns of the paper's Table 1 and the bounds between which Overall normalises them: From
// maps to 0, To to 1.
var aimColumns = []protocol.Axis{
	{Number: "clip_t", From: 0.20, To: 0.30}, {Number: "sc", From: 5, To: 10}, {Number: "aesthetic", From: 0, To: 10},
	{Number: "pq", From: 5, To: 10}, {Number: "s_gtc", From: 5, To: 10}, {Number: "acc", From: 0, To: 100},
	{Number: "f1", From: 0, To: 100}, {Number: "d_vad", From: 3, To: 2},
}

// aimOverall returns 100 times the mean of the normalised columns; NaN if one is missing.
func aimOverall(means map[string]float64) float64 {
	sum := 0.0
	for _, c := range aimColumns {
		v, ok := means[c.Number]
		if !ok {
			return math.NaN()
		}
		sum += min(1, max(0, (v-c.From)/(c.To-c.From))) // min and max keep NaN
	}
	return 100 * sum / float64(len(aimColumns))
}

// aimMeans computes Overall from published means: a CSV with the columns method, clip_t, sc, aesthetic, pq, s_gtc, acc,
// f1, d_vad, and, to compare with, overall.
func aimMeans(path string) (*protocol.Result, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	if len(records) < 2 {
		return nil, fmt.Errorf("%s: want a header and a row per method", filepath.Base(path))
	}
	var p protocol.Problems
	checkAIMHeader(&p, filepath.Base(path)+":1", records[0])
	if err := p.Err(); err != nil {
		return nil, err
	}
	type method struct {
		Method     string         `json:"method"`
		Overall    protocol.Value `json:"overall"`
		Printed    protocol.Value `json:"printed"`
		Difference protocol.Value `json:"difference"`
	}
	out := struct {
		Benchmark string         `json:"benchmark"`
		Methods   []method       `json:"methods"`
		Largest   protocol.Value `json:"largest_difference"`
	}{Benchmark: "aim-bench", Largest: protocol.Value(math.NaN())}
	table := protocol.Table{Title: "overall, from the means", Columns: []string{"overall", "printed", "difference"}}
	seen := map[string]int{}
	for n, record := range records[1:] {
		where := fmt.Sprintf("%s:%d", filepath.Base(path), n+2)
		name, m := aimMeansRow(&p, where, records[0], record)
		if first, twice := seen[name]; twice {
			p.Add(where, "a second row of %q (the first is line %d)", name, first)
		} else {
			seen[name] = n + 2
		}
		overall := aimOverall(m)
		d := overall - m["overall"]
		out.Methods = append(out.Methods, method{name, protocol.Value(overall), protocol.Value(m["overall"]),
			protocol.Value(d)})
		if !(math.Abs(d) <= float64(out.Largest)) && !math.IsNaN(d) {
			out.Largest = protocol.Value(math.Abs(d))
		}
		table.Rows = append(table.Rows, protocol.TableRow{Name: name, Cells: protocol.Cells(overall, m["overall"], d)})
	}
	return &protocol.Result{JSON: out, N: len(out.Methods), Tables: []protocol.Table{table}}, p.Err()
}

// aimMeansRow reads a method's row. overall is NaN if it is not given.
func aimMeansRow(p *protocol.Problems, where string, header, record []string) (name string, m map[string]float64) {
	m = map[string]float64{"overall": math.NaN()}
	for c, column := range header {
		if column == "method" {
			name = record[c]
			continue
		}
		v, err := strconv.ParseFloat(record[c], 64)
		if err != nil && !(column == "overall" && record[c] == "") {
			p.Add(where, "%s is %q: want a number", column, record[c])
		} else if math.IsNaN(v) || math.IsInf(v, 0) {
			p.Add(where, "%s is %q: want a finite number", column, record[c])
		} else if err == nil {
			m[column] = v
			if b, ok := aimBounds[column]; ok {
				if err := b.Check(column, v); err != nil {
					p.Add(where, "%v", err)
				}
			}
		}
	}
	return name, m
}

// checkAIMHeader: every column of the means once.
func checkAIMHeader(p *protocol.Problems, where string, header []string) {
	columns := []string{"method"}
	for _, c := range aimColumns {
		columns = append(columns, c.Number)
	}
	for _, c := range columns {
		if !slices.Contains(header, c) {
			p.Add(where, "there is no column %q", c)
		}
	}
	for c, column := range header {
		if slices.Contains(header[:c], column) {
			p.Add(where, "a second column %q", column)
		}
	}
}
