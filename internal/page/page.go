// Package page holds what HTML reports have in common: the head of a page, and the base of its style.
package page

import (
	_ "embed"
	"html/template"
)

//go:embed base.html
var base string

// Parse parses the text of a page, which it must be able to: a mistake panics. The text begins with {{template
// "head"}}, up to the title, and its style with {{template "style"}}, whose colours are the variables --accent,
// --line and --soft.
func Parse(text string, funcs template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New("page").Funcs(funcs).Parse(base)).Parse(text))
}
