package main

import (
	_ "embed"
	"fmt"
	htmltemplate "html/template"
	"io"
	"strings"
	"text/template"

	"assay/internal/page"
	"assay/lab/internal/miniature"
)

// The report as a self-contained HTML page, and as text for a terminal.
var (
	//go:embed page.html
	pageText string
	//go:embed report.txt.tmpl
	plainText string

	pageTemplate  = page.Parse(pageText, htmltemplate.FuncMap(functions))
	plainTemplate = template.Must(template.New("").Funcs(functions).Parse(plainText))
)

var functions = template.FuncMap{
	"figure":  figure,
	"share":   func(m miniature.Measure) string { return fmt.Sprintf("%.0f", 100*float64(m)) },
	"met":     met,
	"join":    strings.Join,
	"short":   short,
	"percent": func(tenths float64) float64 { return 10 * min(10, max(0, tenths)) },
	"family":  func(j Judge, f miniature.Family) string { return figure(j.Result.Families[f]) },
}

// Note returns the caveat of a short report; "" for a long one.
func (r *Report) Note() string {
	if r.Short {
		return "The short form has little data and few steps: it shows that everything runs, but its figures mean nothing."
	}
	return ""
}

// Families returns the families in the exam.
func (r *Report) Families() (out []miniature.Family) {
	for _, f := range miniature.Families {
		if _, ok := r.Judges[0].Result.Families[f]; ok {
			out = append(out, f)
		}
	}
	return out
}

// Examples returns tasks with their outputs.
func (r *Report) Examples() []example { return r.examples }

// Story returns the first part of the page.
func (r *Report) Story() *story { return r.story }

// text writes the report for a terminal.
func (r *Report) text(w io.Writer) error { return plainTemplate.Execute(w, r) }

// page writes the report as one self-contained HTML file.
func (r *Report) page(w io.Writer) error { return pageTemplate.Execute(w, r) }

// figure writes a number with two decimals, "-" if it is undefined.
func figure(v any) string {
	var x float64
	switch v := v.(type) {
	case miniature.Measure:
		x = float64(v)
	case float64:
		x = v
	}
	return page.Number("%.2f", x)
}

func met(ok bool) string {
	if ok {
		return "met"
	}
	return "not met"
}

// short returns a judge's name for a narrow column.
func short(name string) string {
	if s, ok := strings.CutPrefix(name, "- "); ok {
		return "-" + s[:5]
	}
	return name
}
