// Package page contains what HTML reports have in common: the head of a page and its base style (base.html), charts
// as SVG, pictures as data URLs, and a server for pages on this machine.
package page

import (
	"bytes"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"math"
)

//go:embed base.html
var base string

// Number formats a number for readers with a verb such as "%.2f"; NaN is "-".
func Number(verb string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(verb, v)
}

// DataURL returns a file of a media type as a data URL, to embed it in a page.
func DataURL(mediaType string, raw []byte) template.URL {
	return template.URL("data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(raw))
}

// PNG returns as a data URL what encode writes, such as a picture's EncodePNG.
func PNG(encode func(w io.Writer) error) (template.URL, error) {
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		return "", err
	}
	return DataURL("image/png", b.Bytes()), nil
}

// Parse parses the text of a page, and panics if it is invalid. The text starts with {{template "head"}}, before the
// title, and its style with {{template "style"}}, whose colours are the variables --accent, --line and --soft.
func Parse(text string, funcs template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New("page").Funcs(funcs).Parse(base)).Parse(text))
}
