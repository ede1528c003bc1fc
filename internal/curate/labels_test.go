package curate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/image/bmp"

	"assay/data"
	"assay/edit"
	"assay/internal/scoring"
	"assay/internal/table"
)

// TestRepeated: rows are repeated until all levels that occur are equally frequent, each at least once, and the
// counts of two rows of a level differ by at most one; the same seed gives the same rows.
func TestRepeated(t *testing.T) {
	var examples []RewardLabel
	for level, n := range map[int]int{1: 3, 4: 7, 5: 20} {
		for k := range n {
			examples = append(examples, RewardLabel{ID: fmt.Sprint(level, "-", k), Level: level, Weight: 0.5})
		}
	}
	first := repeated(examples, 5)
	levels, times := map[int]int{}, map[string]int{}
	for _, e := range first {
		levels[e.Level]++
		times[e.ID]++
		if e.Weight != 1 {
			t.Fatalf("the weight of a repeated row is %g, want 1", e.Weight)
		}
	}
	if len(first) != 60 || levels[1] != 20 || levels[4] != 20 || levels[5] != 20 {
		t.Errorf("%d rows, %v of the levels, want 20 of each of three", len(first), levels)
	}
	for _, e := range examples {
		want := map[int][2]int{1: {6, 7}, 4: {2, 3}, 5: {1, 1}}[e.Level]
		if n := times[e.ID]; n < want[0] || n > want[1] {
			t.Errorf("%s comes %d times, want %v", e.ID, n, want)
		}
	}
	if !cmp.Equal(first, repeated(examples, 5)) {
		t.Error("the same seed gave other rows")
	}
	if cmp.Equal(first, repeated(examples, 6)) {
		t.Error("another seed gave the same rows")
	}
	if got := repeated(nil, 1); len(got) != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

// labelTable writes a table of three edits of one source and one of another, whose formats differ.
func labelTable(t *testing.T) (*data.Table, scoring.Scores) {
	t.Helper()
	dir := t.TempDir()
	p := data.NewPicture(8, 8)
	for _, name := range []string{"a.png", "e0.png", "e1.png", "e2.png", "e3.PNG"} {
		p.Pix[0]++
		if err := p.WritePNG(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	m := image.NewNRGBA(image.Rect(0, 0, 9, 5))
	for i := range m.Pix {
		m.Pix[i] = byte(37 * i)
		if i%4 == 3 {
			m.Pix[i] = 255
		}
	}
	var raw bytes.Buffer
	if err := bmp.Encode(&raw, m); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "b.bmp"), raw.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "t.jsonl")
	text := ""
	scores := scoring.Scores{Range: edit.Range{0, 10}, Lines: map[int]table.Line[edit.Score]{}}
	for i, r := range [][2]string{{"a.png", "e0.png"}, {"a.png", "e1.png"}, {"b.bmp", "e2.png"}, {"a.png", "e3.PNG"}} {
		text += fmt.Sprintf(`{"id": "%d", "source": %q, "edit": %q, "instruction": "x < %d, \"é\""}`+"\n", i, r[0], r[1], i)
		score01 := []float64{0.1, 0.15, 0.9, 1}[i]
		scores.Lines[i] = table.Line[edit.Score]{Row: i, Value: edit.Score{Value: 10 * score01, Score01: score01}}
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	rows, err := data.OpenTable(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rows.Close() })
	return rows, scores
}

// files lists a folder, and fails for dangling links.
func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, err := os.Stat(filepath.Join(dir, e.Name())); err != nil {
			t.Error(err)
		}
		names = append(names, e.Name())
	}
	return names
}

// TestFolders: the layouts of trainers that read folders, with a source of a format that they do not read.
func TestFolders(t *testing.T) {
	table, scores := labelTable(t)
	for _, copied := range []bool{false, true} {
		out := filepath.Join(t.TempDir(), "it's labels")
		c := Conditioning{Template: Presets["adiee"], High: 1, Layouts: LayoutNames(), Copy: copied, Balance: true, Seed: 3}
		r, err := c.Write(table, scores, out)
		if err != nil {
			t.Fatal(err)
		}
		if r.Labelled != 4 || r.Written != 4 || r.Levels != [5]int{2, 0, 0, 0, 2} {
			t.Errorf("%+v, want 4 rows of two levels", r)
		}
		// Every source once, however many edits it has.
		want := []string{"0000000-edit.png", "0000000-source.png", "0000001-edit.png", "0000002-edit.png",
			"0000002-source.bmp", "0000003-edit.PNG"}
		if got := files(t, filepath.Join(out, "images")); !slices.Equal(got, want) {
			t.Errorf("images: got %q, want %q", got, want)
		}
		for _, folder := range []string{"ai-toolkit", "kohya"} {
			want := []string{"0000000.png", "0000001.png", "0000002.png", "0000003.png"}
			if got := files(t, filepath.Join(out, folder, "control")); !slices.Equal(got, want) {
				t.Errorf("%s: control: got %q, want %q", folder, got, want)
			}
			got := files(t, filepath.Join(out, folder, "images"))
			if got = slices.DeleteFunc(got, func(n string) bool { return filepath.Ext(n) == ".txt" }); !slices.Equal(got, want) {
				t.Errorf("%s: images: got %q, want %q", folder, got, want)
			}
			caption, err := os.ReadFile(filepath.Join(out, folder, "images", "0000002.txt"))
			if want := `x < 2, "é". The image quality is five out of five.`; err != nil || string(caption) != want {
				t.Errorf("%s: caption %q, want %q (%v)", folder, caption, want, err)
			}
			a, err := data.Open(filepath.Join(out, folder, "control", "0000002.png"), data.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			b, err := data.Open(filepath.Join(table.Folder(), "b.bmp"), data.Limits{})
			if err != nil || a.Digest() != b.Digest() {
				t.Errorf("%s: the source that was written as PNG is another picture (%v)", folder, err)
			}
		}
		for _, file := range []string{"kohya/dataset.toml", "ai-toolkit/dataset.yaml"} {
			config, err := os.ReadFile(filepath.Join(out, file))
			at := fmt.Sprintf("%q", filepath.Join(out, filepath.Dir(file), "images"))
			if err != nil || !strings.Contains(string(config), at) {
				t.Errorf("%s: got %s, want %s in it (%v)", file, config, at, err)
			}
		}
		checkMetadata(t, out)
	}
}

// checkMetadata checks the image folder of diffusers: its pictures, and numbers that every reader takes for decimal.
func checkMetadata(t *testing.T, out string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(out, "diffusers", "metadata.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for line := range strings.Lines(string(raw)) {
		var row struct {
			Source string      `json:"source_file_name"`
			Edit   string      `json:"edit_file_name"`
			Score  json.Number `json:"score"`
			Weight json.Number `json:"weight"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{row.Source, row.Edit} {
			if _, err := data.Open(filepath.Join(out, "diffusers", name), data.Limits{}); err != nil {
				t.Error(err)
			}
		}
		for _, v := range []json.Number{row.Score, row.Weight} {
			if !strings.ContainsAny(string(v), ".e") {
				t.Errorf("a number is written as %s, want it with a point", v)
			}
		}
		n++
	}
	if n != 4 {
		t.Errorf("%d rows, want 4", n)
	}
}

// TestParquetAlone: the layout with embedded pictures leaves no picture files next to it, which `datasets` would load
// instead.
func TestParquetAlone(t *testing.T) {
	table, scores := labelTable(t)
	out := filepath.Join(t.TempDir(), "labels")
	c := Conditioning{Template: Presets["adiee"], High: 1, Layouts: []string{"parquet"}}
	if _, err := c.Write(table, scores, out); err != nil {
		t.Fatal(err)
	}
	if got, want := files(t, out), []string{"README.md", "data.parquet", "failed.jsonl"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
