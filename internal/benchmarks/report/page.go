package report

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/benchmarks/protocol"
	"assay/internal/page"
)

//go:embed report.html
var reportHTML string

var reportTemplate = page.Parse(reportHTML, template.FuncMap{
	"plain":    plainView,
	"sorted":   sortedView,
	"bars":     barsOf,
	"radar":    radarOf,
	"scatters": scattersOf,
	"paired":   pairedConfusions,
	"gallery":  gallery,
	"rules":    rulesOf,
	"shade":    shade,
	"soft":     soft,
	"picture":  thumbnail,
	"rest":     func(list []protocol.Key, n int) int { return max(0, len(list)-n) },
	"first":    func(list []protocol.Key, n int) []protocol.Key { return list[:min(n, len(list))] },
})

// markdown writes all tables: the summary, the numbers that stand apart, leaderboards, the differences, and each
// system's own, with their notes.
func (r *Report) markdown(w io.Writer) {
	list := func(lines []string) {
		for _, line := range lines {
			fmt.Fprintf(w, "- %s\n", protocol.Escape(line))
		}
		if len(lines) > 0 {
			fmt.Fprintln(w)
		}
	}
	r.Summary().Markdown(w)
	list(r.Remarks())
	for _, t := range r.Apart() {
		t.Markdown(w)
	}
	for _, b := range r.Boards() {
		b.Summary().Markdown(w)
		list(b.Remarks())
	}
	if r.Comparison != nil {
		t := r.Comparison.Table()
		t.Notes = r.Comparison.Notes
		t.Markdown(w)
	}
	for _, s := range r.Systems {
		title := func(t protocol.Table) protocol.Table {
			if len(r.Systems) > 1 {
				t.Title = s.Name + ": " + t.Title
			}
			return t
		}
		fmt.Fprintf(w, "%s: %d predictions used.\n\n", protocol.Escape(s.Name), s.Result.N)
		list(remarksOf(s.Result))
		for _, t := range slices.Concat(s.Result.Agreement, s.Result.Tables) {
			title(t).Markdown(w)
		}
		for _, c := range s.Result.Confusions {
			t := c.Table()
			t.Title = "confusion (rows: truth, columns: predicted): " + t.Title
			title(t).Markdown(w)
		}
	}
}

// remarksOf returns a result's notes, the samples that could not be computed, and the missing predictions.
func remarksOf(r *protocol.Result) []string {
	out := slices.Clone(r.Notes)
	for _, failed := range r.Failed {
		out = append(out, "not computed: "+failed)
	}
	if n := len(r.Missing); n > 0 {
		out = append(out, fmt.Sprintf("missing: %d without a prediction: %v", n, r.Missing[:min(n, 10)]))
	}
	return out
}

// Write writes index.html (one self-contained page), results.csv (the summary), apart-N.csv (printed numbers that must
// not share its columns, one table each), results.md (all tables) and results.json into a folder.
func (r *Report) Write(dir string) error {
	summary := r.Summary()
	results := map[string]any{}
	for i, s := range r.Systems {
		result, err := r.named(i)
		if err != nil {
			return err
		}
		results[s.Name] = result
	}
	files := map[string]func(io.Writer) error{
		"index.html":  func(w io.Writer) error { return reportTemplate.Execute(w, r) },
		"results.csv": summary.WriteCSV,
		"results.md": func(w io.Writer) error {
			r.markdown(w)
			return nil
		},
		"results.json": indented(struct {
			Systems    map[string]any `json:"systems"`
			Comparison *Comparison    `json:"comparison,omitempty"`
			Figures    []figure       `json:"figures"`
			Boards     []board        `json:"boards,omitempty"`
			Printed    []figure       `json:"printed"`
		}{results, r.Comparison, r.allFigures(), r.boardFigures(), printed(r.Benchmark)}),
	}
	for i, t := range r.Apart() {
		files[fmt.Sprintf("apart-%d.csv", i+1)] = t.WriteCSV
	}
	return writeFiles(dir, files)
}

// writeFiles writes the files of a report into a folder, which it creates.
func writeFiles(dir string, files map[string]func(io.Writer) error) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, write := range files {
		if err := atomicfile.Write(filepath.Join(dir, name), write); err != nil {
			return err
		}
	}
	return nil
}

// indented writes a value as indented JSON.
func indented(v any) func(io.Writer) error {
	return func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(v)
	}
}

// board is a leaderboard in results.json: the numbers of a system's methods in a part of the benchmark.
type board struct {
	Of      string   `json:"of"` // the system, whose own figures mix them
	Part    string   `json:"part,omitempty"`
	Figures []figure `json:"figures"`
}

func (r *Report) boardFigures() (out []board) {
	for _, s := range r.Systems {
		for _, b := range s.boards {
			out = append(out, board{s.Name, b.Part(), b.allFigures()})
		}
	}
	return out
}

// shade returns the background of a confusion cell: its share of its row.
func shade(row []int, n int) template.CSS {
	sum := 0
	for _, v := range row {
		sum += v
	}
	share := 0.0
	if sum > 0 {
		share = float64(n) / float64(sum)
	}
	return template.CSS(fmt.Sprintf("background: color-mix(in srgb, var(--accent) %.0f%%, transparent)", 75*share))
}

// soft returns a name that can be wrapped after its underscores if a column is too narrow.
func soft(name string) template.HTML {
	return template.HTML(strings.ReplaceAll(template.HTMLEscapeString(name), "_", "_<wbr>"))
}

// thumbnailSide bounds the pictures of a report, in pixels; they are embedded in the page.
const thumbnailSide = 224

// thumbnail returns a picture as a data URI; "" if it cannot be read: then only its caption is shown.
func thumbnail(p protocol.Picture) template.URL {
	if p.None() {
		return ""
	}
	raw, err := p.Bytes()
	if err != nil {
		return ""
	}
	pic, err := data.Decode(raw, data.Limits{})
	if err != nil {
		return ""
	}
	url, err := page.PNG(pic.Thumbnail(thumbnailSide, data.Lanczos).EncodePNG)
	if err != nil {
		return ""
	}
	return url
}
