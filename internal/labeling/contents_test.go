package labeling

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"assay/data"
	"assay/internal/shards"
	"assay/internal/store"
)

// write writes a file and, if it existed, restores its former times.
func write(t *testing.T, path, text string) {
	t.Helper()
	info, statErr := os.Stat(path)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	if statErr == nil {
		if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestChangedInputs: if a picture is replaced under the same name, or an instruction or a caption is edited in the
// table, its part is measured again and the table is up to date. Of a table with more rows only the new rows are
// measured; unchanged parts are not.
func TestChangedInputs(t *testing.T) {
	dir := t.TempDir()
	picture := func(name string, red byte) {
		p := data.NewPicture(8, 8)
		for i := range p.Pix {
			p.Pix[i] = red
		}
		path := filepath.Join(dir, name)
		info, statErr := os.Stat(path)
		if err := p.WritePNG(path); err != nil {
			t.Fatal(err)
		}
		if statErr == nil {
			if err := os.Chtimes(path, info.ModTime(), info.ModTime()); err != nil {
				t.Fatal(err)
			}
		}
	}
	picture("a.png", 1)
	picture("b.png", 2)
	var rows strings.Builder
	rows.WriteString("source,target,edit,method,instruction,source_caption,target_caption\n")
	for i := range 3 * samplesPerPart / 2 { // two parts
		edit := "a.png"
		if i == 0 {
			edit = "b.png"
		}
		rows.WriteString("a.png,a.png," + edit + ",aurora,edit " + string(rune('a'+i%26)) + ",a man,a dog\n")
	}
	table0 := filepath.Join(dir, "t.csv")
	write(t, table0, rows.String())
	write(t, filepath.Join(dir, "label.yaml"), "out: out\nsources:\n  - {layout: table, path: t.csv}\n")
	label := func(name string, want bool) []data.Row {
		t.Helper()
		c, err := Load(filepath.Join(dir, "label.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		e := &colours{}
		j, err := Open(context.Background(), c)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		defer j.Close()
		todo := todo(t, j)
		if (todo > 0) != want {
			t.Errorf("%s: got %d samples to measure, want any: %v", name, todo, want)
		}
		if _, err := j.Merge(context.Background()); want == (err == nil) {
			t.Errorf("%s: merged without measuring: got error %v, want one: %v", name, err, want)
		}
		if err := measure(t.Context(), j, models{Clip: e, Dino: e}, shards.Ref{}, nil); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if _, err := j.Merge(context.Background()); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := e.pictures.Load(); (n > 0) != want || todo <= samplesPerPart && n > 4*2 {
			t.Errorf("%s: got %d pictures encoded, want any: %v", name, n, want)
		}
		return readTable(t, c)
	}
	find := func(rows []data.Row) *float64 {
		for _, r := range rows {
			if r.Method == "aurora" && r.ClipI != nil && *r.ClipI < 0.9999999 {
				return r.ClipI
			}
		}
		t.Fatal("got no edit with CLIP-I below 1, want one")
		return nil
	}
	before := *find(label("first", true))
	label("unchanged", false)
	picture("b.png", 200)
	if after := *find(label("a picture was replaced", true)); after == before {
		t.Errorf("got CLIP-I %g as before, want another", after)
	}
	label("unchanged since", false)
	text := strings.Replace(rows.String(), "edit a,", "other,", 1)
	write(t, table0, text)
	found := false
	for _, r := range label("an instruction was edited", true) {
		found = found || r.Instruction == "other"
	}
	if !found {
		t.Error("got the former instruction, want other")
	}
	text = strings.Replace(text, "a dog", "a cat", 1)
	write(t, table0, text)
	label("a caption was edited", true)
	text += "b.png,a.png,a.png,aurora,another,a man,a dog\n"
	write(t, table0, text)
	label("a row was added", true)
	label("unchanged at last", false)
}

// remembering is an encoder with a cache.
type remembering struct {
	*colours
	known map[store.Key][]float32
	mu    sync.Mutex
}

func (r *remembering) Images(ctx context.Context, pictures []*data.Picture) ([][]float32, error) {
	out, err := r.colours.Images(ctx, pictures)
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, p := range pictures {
		r.known[p.Digest()] = out[i]
	}
	return out, err
}

func (r *remembering) Known(pixels store.Key) []float32 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.known[pixels]
}

// TestDecodedOnce: a picture that is a source here and an output there, in several parts, is decoded and encoded once.
// The table is the same as without a store, and a second job decodes nothing.
func TestDecodedOnce(t *testing.T) {
	yaml := many(t)
	plain := load(t, yaml)
	if _, err := run(t, plain, models{Clip: &colours{}, Dino: &colours{}}, 1); err != nil {
		t.Fatal(err)
	}
	kept, err := store.Open(t.TempDir(), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	known, knownDino := map[store.Key][]float32{}, map[store.Key][]float32{}
	wanted := readTable(t, plain)
	for i, want := range []int64{5, 0} { // distinct pictures
		e := &remembering{colours: &colours{}, known: known}
		c := load(t, yaml)
		if _, err := run(t, c, models{Clip: e, Dino: &remembering{colours: &colours{}, known: knownDino}, Store: kept},
			1); err != nil {
			t.Fatal(err)
		}
		if n := e.pictures.Load(); n != want {
			t.Errorf("job %d decoded and encoded %d pictures, want %d", i, n, want)
		}
		for k, row := range readTable(t, c) {
			if w := wanted[k]; row.ID != w.ID || (row.ClipI == nil) != (w.ClipI == nil) || row.ClipI != nil &&
				*row.ClipI != *w.ClipI {
				t.Fatalf("row %d is %+v, want %+v", k, row, w)
			}
		}
	}
}

// TestUnreadablePart: an existing but unreadable part is an error that names it, not a missing part.
func TestUnreadablePart(t *testing.T) {
	dir := t.TempDir() // can be opened but not read
	if _, err := madeOf(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("got error %v, want one that names %s", err, dir)
	}
	if of, err := madeOf(filepath.Join(dir, "none")); of != "" || err != nil {
		t.Errorf("a part that is not there: got %q, %v, want nothing", of, err)
	}
}

// TestPartOfAnEarlierVersion: a part in an older format is recognized by its first line and measured again.
func TestPartOfAnEarlierVersion(t *testing.T) {
	c := load(t, "out: out\nprofile: adiee-released\nsources: [{layout: folder, path: FIXTURES/folder}]\n")
	if _, err := run(t, c, models{}, 1); err != nil {
		t.Fatal(err)
	}
	path := part{}.file(c.Out)
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	write(t, path, `{"of":"0123","sample":0}`+"\n"+`{"sample":0,"row":{"id":"folder/dog/source"}}`+"\n")
	if _, err := run(t, c, models{}, 1); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != string(want) {
		t.Errorf("got the part\n%s\n%v, want\n%s", got, err, want)
	}
}
