// Package page holds what HTML reports have in common: the head of a page, and the base of its style.
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

// Number is a number for people in the form of a verb, as "%.2f"; "-": there is none.
func Number(verb string, v float64) string {
	if math.IsNaN(v) {
		return "-"
	}
	return fmt.Sprintf(verb, v)
}

// DataURL is a file of a media type as part of a page.
func DataURL(mediaType string, raw []byte) template.URL {
	return template.URL("data:" + mediaType + ";base64," + base64.StdEncoding.EncodeToString(raw))
}

// PNG is what encode writes, a picture's EncodePNG, as a data URL.
func PNG(encode func(w io.Writer) error) (template.URL, error) {
	var b bytes.Buffer
	if err := encode(&b); err != nil {
		return "", err
	}
	return DataURL("image/png", b.Bytes()), nil
}

// Parse parses the text of a page, which it must be able to: a mistake panics. The text begins with {{template
// "head"}}, up to the title, and its style with {{template "style"}}, whose colours are the variables --accent,
// --line and --soft.
func Parse(text string, funcs template.FuncMap) *template.Template {
	return template.Must(template.Must(template.New("page").Funcs(funcs).Parse(base)).Parse(text))
}
