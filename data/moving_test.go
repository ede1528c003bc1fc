package data

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestMovingPaths: a path of a table in one folder, as written in a table in another folder.
func TestMovingPaths(t *testing.T) {
	root := t.TempDir()
	at := func(name string) string {
		folder := filepath.Join(root, name)
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
		return folder
	}
	in, beside, below := at("in"), at("beside"), at("in/runs/1")
	real := at("real/deep/place")
	link, same := filepath.Join(root, "link"), filepath.Join(root, "same")
	for name, to := range map[string]string{link: real, same: in} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ from, to, path, want string }{
		{in, in, "./img/../img/a.png", "./img/../img/a.png"},
		{in, same, "img/a.png", "img/a.png"},
		{in, beside, "img/a.png", "../in/img/a.png"},
		{in, beside, "../beside/b.png", "b.png"},
		{in, below, "img/a b.png", "../../img/a b.png"},
		{below, in, "a.png", "runs/1/a.png"},
		{below, in, "../../img/a.png", "img/a.png"},
		{in, link, "img/a.png", in + "/img/a.png"},
		{link, in, "a.png", link + "/a.png"},
		{in, beside, "/data/a.png", "/data/a.png"},
		{in, beside, "s3://bucket/a.png", "s3://bucket/a.png"},
		{in, beside, "https://example.org/a.png", "https://example.org/a.png"},
		{in, beside, "data:image/png;base64,AAAA", "data:image/png;base64,AAAA"},
		{in, beside, "", ""},
		{in, "s3://b/out", "a.png", in + "/a.png"},
		{"s3://b/in", beside, "img/a.png", "s3://b/in/img/a.png"},
		{"s3://b/in", "s3://b/in", "a.png", "a.png"},
		{"s3://b/in", "s3://b/out/x", "img/a.png", "../../in/img/a.png"},
		{"s3://b/in", "s3://b", "img/a.png", "in/img/a.png"},
		{"s3://b/in", "s3://c/in", "img/a.png", "s3://b/in/img/a.png"},
		{"s3://b/in", "gs://b/in", "img/a.png", "s3://b/in/img/a.png"},
	} {
		t.Run(c.from+" "+c.to+" "+c.path, func(t *testing.T) {
			m, err := NewMoving(c.from, c.to)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.Path(c.path); got != c.want {
				t.Errorf("%q of %s in %s: got %q, want %q", c.path, c.from, c.to, got, c.want)
			}
		})
	}
	t.Chdir(beside)
	m, err := NewMoving("../in", ".")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := m.Path("a.png"), "../in/a.png"; got != want {
		t.Errorf("of a relative folder: got %q, want %q", got, want)
	}
	inside := Image{Path: "a.png", Bytes: []byte("x")}
	if got := m.Image(inside); got.Path != "a.png" {
		t.Errorf("the name of a picture inside the table became %q, want a.png", got.Path)
	}
}

// TestRewriteMoves: every picture of a rewritten table resolves from its folder, whatever the formats of the two
// tables, and nothing else changes.
func TestRewriteMoves(t *testing.T) {
	root := t.TempDir()
	in := filepath.Join(root, "in", "tables")
	for _, folder := range []string{in, filepath.Join(root, "in", "img"), filepath.Join(root, "out")} {
		if err := os.MkdirAll(folder, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"a.png", "b.png"} {
		if err := os.WriteFile(filepath.Join(root, "in", "img", name), picture(t, "grey.png"), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(in, name), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	write("t.jsonl", `{"id": "../img/a.png", "before": "../img/a.png", "edit": {"path": "../img/b.png", "bytes": null},`+
		` "instruction": "i", "target": "a red car", "edit2": "../img/a.png", "rejected": "no", "source": "magicbrush"}`+"\n"+
		`{"id": "2", "before": "../img/a.png", "edit": null, "instruction": "../img/a.png"}`+"\n")
	write("t.csv", "id,before,edit,instruction,edit2,target\n"+
		"../img/a.png,../img/a.png,../img/b.png,i,../img/a.png,a red car\n")
	options := []Option{WithColumns(map[string]string{"source": "before"}), WithOnly("source", "edit", "instruction"),
		WithRequired("source")}
	var names []string
	for _, name := range []string{"t.jsonl", "t.csv"} { // and the same as Parquet, with paths as text and in objects
		from, err := OpenTable(filepath.Join(in, name), options...)
		if err != nil {
			t.Fatal(err)
		}
		if err := from.Rewrite(t.Context(), filepath.Join(in, name+".parquet"), FormatParquet, nil, keep); err != nil {
			t.Fatal(err)
		}
		from.Close()
		names = append(names, name, name+".parquet")
	}
	for _, name := range names {
		for _, ending := range []string{".jsonl", ".parquet"} {
			checkMoved(t, filepath.Join(in, name), filepath.Join(root, "out", name+ending), options)
		}
	}
}

func keep(int, *Record) error { return nil }

func checkMoved(t *testing.T, in, out string, options []Option) {
	t.Helper()
	from, err := OpenTable(in, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	format, err := FormatOf(out)
	if err != nil {
		t.Fatal(err)
	}
	added := []Column{{"score", KindNumber}}
	set := func(_ int, r *Record) error {
		r.Set("score", 1.0)
		return nil
	}
	if err := from.Rewrite(t.Context(), out, format, added, set); err != nil {
		t.Fatal(err)
	}
	to, err := OpenTable(out, options...)
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	row, err := to.Read(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Image{"source": row.Source, "edit": row.Edit} {
		if _, err := p.Open(to.Folder(), Limits{}); err != nil {
			t.Errorf("%s: %s: got error %v, want none", out, name, err)
		}
	}
	before, err := from.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	after, err := to.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	texts := func(r Record) map[string]string {
		texts := map[string]string{}
		for _, f := range r.Fields {
			v, err := unwrap(f.Value)
			if err != nil {
				t.Fatal(err)
			}
			if p, err := ToImage(v); err == nil && p.Path != "" {
				v = p.Path
			}
			texts[f.Name] = fmt.Sprint(v)
		}
		return texts
	}
	want := texts(before)
	want["score"] = "1"
	for _, name := range []string{"before", "edit", "edit2"} {
		want[name] = strings.Replace(want[name], "..", "../in", 1)
	}
	if d := cmp.Diff(want, texts(after)); d != "" {
		t.Errorf("%s: -want +got\n%s", out, d)
	}
}

// TestCheckOutput: a table is not overwritten by output derived from it, whatever its name.
func TestCheckOutput(t *testing.T) {
	folder := t.TempDir()
	path, link := filepath.Join(folder, "t.jsonl"), filepath.Join(folder, "link.jsonl")
	if err := os.WriteFile(path, []byte(`{"source": "a", "edit": "b", "instruction": "i"}`), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("t.jsonl", link); err != nil {
		t.Fatal(err)
	}
	table := open(t, path)
	t.Chdir(folder)
	for _, out := range []string{path, link, "t.jsonl", "./t.jsonl"} {
		t.Run(out, func(t *testing.T) {
			if err := table.CheckOutput(out); err == nil {
				t.Errorf("%s was accepted, want an error: it is the input table", out)
			}
		})
	}
	for _, out := range []string{path + "l", "other.jsonl", "s3://b/t.jsonl"} {
		t.Run(out, func(t *testing.T) {
			if err := table.CheckOutput(out); err != nil {
				t.Errorf("%s: got %v, want no error", out, err)
			}
		})
	}
}
