package main

import (
	_ "embed"
	"html/template"
	"io"
	"strings"

	"assay/internal/page"
	"assay/lab/internal/miniature"
)

//go:embed page.html
var pageText string

var pageTemplate = page.Parse(pageText, template.FuncMap{
	"figure":  figure,
	"met":     met,
	"join":    strings.Join,
	"percent": func(tenths float64) float64 { return 10 * min(10, max(0, tenths)) },
	"family":  func(j Judge, f miniature.Family) string { return figure(j.Result.Families[f]) },
})

// page writes the report as one HTML file that loads nothing.
func (r *Report) page(w io.Writer) error {
	v := struct {
		*Report
		Note     string
		Families []miniature.Family
		Examples []example
	}{Report: r, Examples: r.examples}
	if r.Short {
		v.Note = shortNote
	}
	for _, f := range miniature.Families {
		if _, ok := r.Judges[0].Result.Families[f]; ok {
			v.Families = append(v.Families, f)
		}
	}
	return pageTemplate.Execute(w, v)
}
