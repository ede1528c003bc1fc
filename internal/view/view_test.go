package view

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
)

// rows are a scored table: label and score differ, one row failed, one has no label.
const rows = `{"id":"a","source":"p.png","edit":"q.bmp","instruction":"make it <b>","method":"m","label":0.5,` +
	`"score":2,"score01":0.2,"error":null}
{"id":"b","source":"p.png","edit":"gone.png","instruction":"Blur it","method":"n","label":1,"score":9,"score01":0.9}
{"id":"c","source":"p.png","edit":"q.bmp","instruction":"blur it more","label":0,"score":null,"error":"too long"}
{"id":"d","source":"p.png","edit":"tiff","instruction":"grey","label":null,"score":5,"score01":0.5}
`

// newTable opens a table of rows, compared with another judge's table if with is not empty.
func newTable(t *testing.T, text, with string) (*Table, error) {
	t.Helper()
	dir := t.TempDir()
	p := data.NewPicture(4, 3)
	p.Pix[0] = 200
	var png bytes.Buffer
	if err := p.EncodePNG(&png); err != nil {
		t.Fatal(err)
	}
	for name, raw := range map[string][]byte{"p.png": png.Bytes(), "q.bmp": png.Bytes(), "scores.jsonl": []byte(text),
		"other.jsonl": []byte(with), "tiff": []byte("no picture")} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	o := Options{In: filepath.Join(dir, "scores.jsonl")}
	if with != "" {
		o.With = filepath.Join(dir, "other.jsonl")
	}
	table, err := Open(o)
	if err == nil {
		t.Cleanup(func() { table.Close() })
	}
	return table, err
}

// TestFind: a query finds the right rows in the right order, and survives a round trip through Filter.
func TestFind(t *testing.T) {
	other := strings.NewReplacer(`"score":2`, `"score":8`, `"score":9`, `"score":8.5`).Replace(rows)
	table, err := newTable(t, rows, other)
	if err != nil {
		t.Fatal(err)
	}
	for query, want := range map[string]string{
		"": "[0 1 2 3]", "sort=-row": "[3 2 1 0]", "sort=score": "[0 3 1 2]", "sort=-score": "[1 3 0 2]",
		"sort=label": "[2 0 1 3]", "sort=-error": "[0 1 2 3]", "sort=-difference": "[0 1 3 2]", "text=blur": "[1 2]",
		"method=n": "[1]", "failed=1": "[2]", "low=3": "[1 3]", "high=5&sort=-score": "[3 0]", "text=nothing": "[]",
		"page=7": "[0 1 2 3]", "unknown=1": "[0 1 2 3]",
	} {
		t.Run(query, func(t *testing.T) {
			q, err := url.ParseQuery(query)
			if err != nil {
				t.Fatal(err)
			}
			f, err := ParseFilter(q)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(table.Find(f)); got != want {
				t.Errorf("got rows %s, want %s", got, want)
			}
			if again, err := url.ParseQuery(string(f.Query(f.Page))); err != nil {
				t.Error(err)
			} else if g, err := ParseFilter(again); err != nil || g != f {
				t.Errorf("the query %s: got %+v, %v, want %+v", f.Query(f.Page), g, err, f)
			}
		})
	}
	for _, query := range []string{"sort=id", "low=x", "high=x", "page=-1", "page=x"} {
		q, _ := url.ParseQuery(query)
		if f, err := ParseFilter(q); err == nil {
			t.Errorf("%s: got %+v, want an error", query, f)
		}
	}
}

func TestOpen(t *testing.T) {
	for name, c := range map[string]struct{ text, with, want string }{
		"another number of rows": {rows, rows[:strings.Index(rows, "\n")+1], "compared tables must have the same rows"},
		"another edit":           {rows, strings.Replace(rows, `"id":"b"`, `"id":"x"`, 1), "not the same edit as"},
		"no scores":              {`{"source":"p.png","edit":"p.png"}` + "\n", "", "no row has a number in the column score"},
		"a score that is none":   {strings.Replace(rows, `"score":9`, `"score":"good"`, 1), "", "score: want a number"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := newTable(t, c.text, c.with); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestPages: the list, a row, pictures and a heat map are served; missing ones are an error that says so.
func TestPages(t *testing.T) {
	table, err := newTable(t, rows, "")
	if err != nil {
		t.Fatal(err)
	}
	failing := errors.New("no gradient")
	h := table.Handler(func(_ *http.Request, e *edit.Edit) (*edit.Gradient, error) {
		if e.Instruction == "grey" {
			return nil, failing
		}
		g := data.NewGradient(4, 3)
		g.Values[0] = 1
		return &edit.Gradient{Output: g}, nil
	})
	get := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w
	}
	for path, want := range map[string]struct {
		code int
		has  string
	}{
		"/":                  {200, "4 of 4 edits"},
		"/?sort=-score":      {200, `href="/row/2?sort=-score"`},
		"/?failed=1":         {200, `<span class="error">too long</span>`},
		"/?sort=x":           {400, "sort: want one of"},
		"/?page=5":           {200, "4 of 4 edits"},
		"/row/1":             {200, "<h1>make it &lt;b&gt;</h1>"},
		"/row/2?sort=-score": {200, `id="next" href="/row/4?sort=-score"`},
		"/row/1?low=3":       {200, "<td>method</td><td>m</td>"}, // not among the rows found
		"/row/0":             {404, "the table has 4"},
		"/row/5":             {404, "the table has 4"},
		"/row/1/source":      {200, "PNG"},
		"/row/1/edit":        {200, "PNG"}, // by its content, not by its name
		"/row/1/target":      {404, "no such picture"},
		"/row/2/edit":        {404, "gone.png"},
		"/row/4/edit":        {422, "tiff"},
		"/row/1/heat":        {200, "PNG"},
		"/row/4/heat":        {422, "no gradient"},
		"/elsewhere":         {404, "not found"},
	} {
		t.Run(path, func(t *testing.T) {
			if w := get(path); w.Code != want.code || !strings.Contains(w.Body.String(), want.has) {
				t.Errorf("got %d, %s, want %d with %q", w.Code, w.Body, want.code, want.has)
			}
		})
	}
	if a, b := get("/row/1/heat").Body.Bytes(), get("/row/1/edit").Body.Bytes(); bytes.Equal(a, b) {
		t.Error("got the picture itself as its heat map, want another one")
	}
	if w := get("/row/3"); strings.Contains(w.Body.String(), `id="heat"`) {
		t.Error("a row that failed: got a button for its heat map, want none")
	}
}

// TestManyRows: the list shows one page of a large table, with links to the other pages.
func TestManyRows(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, `{"source":"p.png","edit":"p.png","instruction":"x","score":%d}`+"\n", i)
	}
	table, err := newTable(t, text.String(), "")
	if err != nil {
		t.Fatal(err)
	}
	w := httptest.NewRecorder()
	table.Handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/?page=1&sort=-score", nil))
	got := w.Body.String()
	if n := strings.Count(got, `class="card"`); n != perPage || !strings.Contains(got, "page 2 of 3") {
		t.Errorf("got %d cards, want %d of page 2 of 3", n, perPage)
	}
	for _, want := range []string{`href="/?sort=-score"`, `href="/?page=2&amp;sort=-score"`,
		`href="/row/52?sort=-score"`} {
		if !strings.Contains(got, want) {
			t.Errorf("got no link %s", want)
		}
	}
	w = httptest.NewRecorder()
	table.Handler(nil).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/row/1/heat", nil))
	if w.Code != http.StatusNotFound {
		t.Errorf("a heat map without a scorer: got %d, want 404", w.Code)
	}
}

// TestSources: the page of an edit with several sources shows all of them, and its heat map gets all of them.
func TestSources(t *testing.T) {
	table, err := newTable(t, `{"id":"a","sources":["p.png","q.bmp"],"edit":"q.bmp","instruction":"x","score":2}`, "")
	if err != nil {
		t.Fatal(err)
	}
	h := table.Handler(func(_ *http.Request, e *edit.Edit) (*edit.Gradient, error) {
		if len(e.Sources) != 2 {
			t.Errorf("got the heat map of %d sources, want 2", len(e.Sources))
		}
		return &edit.Gradient{Output: data.NewGradient(4, 3)}, nil
	})
	for path, want := range map[string]struct {
		code int
		has  string
	}{
		"/row/1": {200, `src="/row/1/source2"`}, "/row/1/source": {200, "PNG"}, "/row/1/source2": {200, "PNG"},
		"/row/1/source3": {404, "no such picture"}, "/row/1/heat": {200, "PNG"},
	} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Code != want.code || !strings.Contains(w.Body.String(), want.has) {
			t.Errorf("%s: got %d, %s, want %d with %q", path, w.Code, w.Body, want.code, want.has)
		}
	}
}
