package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/atomicfile"
	"assay/internal/benchmarks/protocol"
)

// results collects the figures of the reports of a chapter's run in one table. The papers' numbers in the reports are
// left out: they must not be mixed with figures of the miniature world.
type results struct{ runs, out string }

func (f *results) write() (int, error) {
	files, err := filepath.Glob(filepath.Join(f.runs, "*", "results.json"))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("%s: no reports", f.runs)
	}
	var b strings.Builder
	b.WriteString("| benchmark | number | judge | value | 95 % interval | guessing |\n|---|---|---|---|---|---|\n")
	var all []figure
	times := map[[3]string]int{}
	for _, file := range files {
		figures, err := readFigures(file)
		if err != nil {
			return 0, err
		}
		for _, g := range figures {
			g.report = filepath.Base(filepath.Dir(file))
			times[g.key()]++
			all = append(all, g)
		}
	}
	for _, g := range all {
		if times[g.key()] > 1 { // one judge with several models
			g.System += " (" + g.report + ")"
		}
		b.WriteString(g.row())
	}
	return len(all), atomicfile.WriteBytes(f.out, []byte(b.String()))
}

// figure is a number of a report.
type figure struct {
	System    string          `json:"system"`
	Name      string          `json:"name"`
	Benchmark string          `json:"benchmark"`
	Value     *protocol.Value `json:"value"` // null: undefined
	Low       *protocol.Value `json:"low"`
	High      *protocol.Value `json:"high"`
	Chance    *protocol.Value `json:"chance"`

	report string // name of its folder
}

func (g *figure) key() [3]string { return [3]string{g.Benchmark, g.Name, g.System} }

// readFigures reads the numbers of a report; for a system of several methods, the numbers of each.
func readFigures(file string) (all []figure, err error) {
	raw, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var report struct {
		Figures []figure `json:"figures"`
		Boards  []struct {
			Of      string   `json:"of"`
			Part    string   `json:"part"`
			Figures []figure `json:"figures"`
		} `json:"boards"`
	}
	if err := json.Unmarshal(raw, &report); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	apart := map[string]bool{}
	for _, b := range report.Boards {
		apart[b.Of] = true
		for _, g := range b.Figures {
			if b.Part != "" {
				g.System += ", " + b.Part
			}
			all = append(all, g)
		}
	}
	mixed := func(g figure) bool { return apart[g.System] }
	return append(slices.DeleteFunc(report.Figures, mixed), all...), nil
}

// row returns the figure as a line of the table.
func (g figure) row() string {
	interval, chance, value := "", "", "undefined"
	if g.Low != nil && g.High != nil {
		interval = fmt.Sprintf("%.3f to %.3f", float64(*g.Low), float64(*g.High))
	}
	if g.Chance != nil {
		chance = fmt.Sprintf("%.3f", float64(*g.Chance))
	}
	if g.Value != nil {
		value = fmt.Sprintf("%.3f", float64(*g.Value))
	}
	return fmt.Sprintf("| %s | %s | %s | %s | %s | %s |\n", g.Benchmark, g.Name, g.System, value, interval, chance)
}
