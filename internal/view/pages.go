package view

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"slices"
	"strconv"
	"time"

	"assay/data"
	"assay/edit"
	"assay/internal/page"
	"assay/internal/table"
)

//go:embed page.html
var pageText string

var pageTemplate = page.Parse(pageText, template.FuncMap{
	"number":   func(v float64) string { return page.Number("%.2f", v) },
	"next":     func(n int) int { return n + 1 },
	"previous": func(n int) int { return n - 1 },
})

// perPage is the number of edits on a page of the list.
const perPage = 48

// shown is the data of the template: the list, or one row.
type shown struct {
	*Table
	Filter
	Name     string
	Found    int
	Cards    []card
	Pages    int
	Row      *card // nil: the list
	Fields   []data.Field
	Sources  []string // roles of the row's sources after the first
	Heat     bool     // heat maps are available
	Previous int      // neighbours of this row in the filter's order, from 1; 0: none
	Next     int
}

// card is an edit of the list.
type card struct {
	Number                     int // of the row, from 1
	Score, Label, Other        float64
	Instruction, Method, Error string
}

func (t *Table) card(i int) card {
	r := &t.rows[i]
	return card{i + 1, r.score, r.label, r.other, r.instruction, r.method, r.err}
}

// Handler serves the pages. heat returns the gradient of an edit's score for heat maps; nil: no heat maps.
func (t *Table) Handler(heat func(r *http.Request, e *edit.Edit) (*edit.Gradient, error)) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) { t.list(w, r) })
	mux.HandleFunc("GET /row/{row}", func(w http.ResponseWriter, r *http.Request) { t.one(w, r, heat != nil) })
	mux.HandleFunc("GET /row/{row}/{role}", func(w http.ResponseWriter, r *http.Request) { t.picture(w, r) })
	if heat != nil {
		mux.HandleFunc("GET /row/{row}/heat", func(w http.ResponseWriter, r *http.Request) { t.heatmap(w, r, heat) })
	}
	return mux
}

func (t *Table) list(w http.ResponseWriter, r *http.Request) {
	f, err := ParseFilter(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	found := t.Find(f)
	v := &shown{Table: t, Filter: f, Name: t.table.Path(), Found: len(found), Pages: (len(found) + perPage - 1) / perPage}
	for _, i := range found[min(len(found), f.Page*perPage):min(len(found), (f.Page+1)*perPage)] {
		v.Cards = append(v.Cards, t.card(i))
	}
	write(w, v)
}

func (t *Table) one(w http.ResponseWriter, r *http.Request, heat bool) {
	i, ok := t.index(w, r)
	if !ok {
		return
	}
	f, err := ParseFilter(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	rec, err := t.table.Record(i)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	c := t.card(i)
	line, err := t.table.Row(rec)
	if err != nil { // the card shows the error
		line = data.Row{}
	}
	v := &shown{Table: t, Filter: f, Name: t.table.Path(), Row: &c, Heat: heat && c.Error == ""}
	for k := range line.References {
		v.Sources = append(v.Sources, edit.SourceRole(k+1))
	}
	found := t.Find(f)
	if at := slices.Index(found, i); at >= 0 {
		if at > 0 {
			v.Previous = found[at-1] + 1
		}
		if at+1 < len(found) {
			v.Next = found[at+1] + 1
		}
	}
	for _, field := range rec.Fields {
		if text, err := data.Text(field.Value); err == nil && len(text) < 2000 {
			v.Fields = append(v.Fields, data.Field{Name: field.Name, Value: text})
		}
	}
	write(w, v)
}

func write(w http.ResponseWriter, v *shown) {
	var b bytes.Buffer
	if err := pageTemplate.Execute(&b, v); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy",
		"default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; form-action 'self'")
	w.Write(b.Bytes())
}

// index returns the row of a path, from 0; if there is no such row, it sends the error and returns false.
func (t *Table) index(w http.ResponseWriter, r *http.Request) (int, bool) {
	n, err := strconv.Atoi(r.PathValue("row"))
	if err != nil || n < 1 || n > len(t.rows) {
		http.Error(w, fmt.Sprintf("no row %q: the table has %d", r.PathValue("row"), len(t.rows)),
			http.StatusNotFound)
		return 0, false
	}
	return n - 1, true
}

// picture sends a picture as stored in the table, or as PNG if browsers cannot show its format.
func (t *Table) picture(w http.ResponseWriter, r *http.Request) {
	i, ok := t.index(w, r)
	if !ok {
		return
	}
	line, err := t.table.Read(i)
	m, role := line.Edit, r.PathValue("role")
	if role != "edit" {
		m = data.Image{}
		if n := edit.SourceOf(role); n > 0 && n <= len(line.Sources()) {
			m = line.Sources()[n-1]
		}
	}
	if err == nil && m.IsZero() {
		http.Error(w, "the row has no such picture", http.StatusNotFound)
		return
	}
	var raw []byte
	if err == nil {
		raw, err = m.Read(t.table.Folder(), data.Limits{})
	}
	if err == nil && !slices.Contains([]string{"image/png", "image/jpeg", "image/gif", "image/webp", "image/bmp"},
		http.DetectContentType(raw)) {
		raw, err = asPNG(m.Decode(t.table.Folder(), raw, data.Limits{}))
	}
	send(w, r, raw, err)
}

func asPNG(p *data.Picture, err error) ([]byte, error) {
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = p.EncodePNG(&b)
	return b.Bytes(), err
}

// send sends a picture or an error.
func send(w http.ResponseWriter, r *http.Request, raw []byte, err error) {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		http.Error(w, err.Error(), http.StatusNotFound)
	case err != nil:
		http.Error(w, err.Error(), http.StatusUnprocessableEntity)
	default:
		w.Header().Set("Content-Type", http.DetectContentType(raw))
		w.Header().Set("Cache-Control", "private, max-age=600")
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	}
}

// heatmap sends a heat map of where a change of the edited picture would change the score most.
func (t *Table) heatmap(
	w http.ResponseWriter, r *http.Request, heat func(r *http.Request, e *edit.Edit) (*edit.Gradient, error),
) {
	i, ok := t.index(w, r)
	if !ok {
		return
	}
	line, err := t.table.Read(i)
	var raw []byte
	if err == nil {
		raw, err = heatPNG(r, table.EditOf(t.table, &line), heat)
	}
	send(w, r, raw, err)
}

func heatPNG(
	r *http.Request, e *edit.Edit, heat func(r *http.Request, e *edit.Edit) (*edit.Gradient, error),
) ([]byte, error) {
	g, err := heat(r, e)
	if err != nil {
		return nil, err
	}
	p, err := e.Picture("edit").Decode()
	if err != nil {
		return nil, err
	}
	return asPNG(g.Output.Heatmap(p), nil)
}
