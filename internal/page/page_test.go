package page

import (
	"strings"
	"testing"
)

// A page has the head and the style, and its data are escaped.
func TestParse(t *testing.T) {
	text := `{{template "head"}}<title>{{.}}</title><style>{{template "style"}} body { max-width: 9rem; }</style></head>`
	var b strings.Builder
	if err := Parse(text, nil).Execute(&b, "a<b"); err != nil {
		t.Fatal(err)
	}
	got := b.String()
	for _, want := range []string{"<!doctype html>\n", "<title>a&lt;b</title>", "h1 { font-size: 1.6rem;",
		"max-width: 9rem"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if !strings.HasPrefix(got, "<!doctype html>") {
		t.Errorf("got %.40q, want a page that begins with the doctype", got)
	}
}
