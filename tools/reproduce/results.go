package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"assay/benchmarks"
	"assay/internal/atomicfile"
)

// results gathers what the reports of a chapter's run say into one table. The numbers of papers, which reports show,
// are left out: those of the miniature world must not stand beside them.
type results struct{ runs, out string }

func (f *results) write() (int, error) {
	files, err := filepath.Glob(filepath.Join(f.runs, "*", "results.json"))
	if err != nil {
		return 0, err
	}
	if len(files) == 0 {
		return 0, fmt.Errorf("%s: no reports in it", f.runs)
	}
	var b strings.Builder
	b.WriteString("| benchmark | number | judge | value | 95 % interval | guessing |\n|---|---|---|---|---|---|\n")
	n := 0
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		var report struct {
			Figures []struct {
				System    string            `json:"system"`
				Name      string            `json:"name"`
				Benchmark string            `json:"benchmark"`
				Value     benchmarks.Value  `json:"value"`
				Low       *benchmarks.Value `json:"low"`
				High      *benchmarks.Value `json:"high"`
				Chance    *benchmarks.Value `json:"chance"`
			} `json:"figures"`
		}
		if err := json.Unmarshal(raw, &report); err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		for _, g := range report.Figures {
			interval, chance := "", ""
			if g.Low != nil && g.High != nil {
				interval = fmt.Sprintf("%.3f to %.3f", float64(*g.Low), float64(*g.High))
			}
			if g.Chance != nil {
				chance = fmt.Sprintf("%.3f", float64(*g.Chance))
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %.3f | %s | %s |\n", g.Benchmark, g.Name, g.System, float64(g.Value), interval,
				chance)
			n++
		}
	}
	return n, atomicfile.Write(f.out, func(w io.Writer) error {
		_, err := io.WriteString(w, b.String())
		return err
	})
}
