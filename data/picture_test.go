package data

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/testfile"
)

func TestNormalizeIsNumpys(t *testing.T) {
	var c struct {
		Noise     [2]int
		Mean, Std [3]float32
		SHA256    string
	}
	testfile.ReadJSON(t, "testdata/normalize.json", &c)
	values := noise(c.Noise[0], c.Noise[1]).Normalize(c.Mean, c.Std)
	var raw bytes.Buffer
	if err := binary.Write(&raw, binary.LittleEndian, values); err != nil {
		t.Fatal(err)
	}
	if sum(&Picture{Pix: raw.Bytes()}) != c.SHA256 {
		t.Errorf("got numbers of digest %s, want numpy's %s", sum(&Picture{Pix: raw.Bytes()}), c.SHA256)
	}
}

// letters is a picture whose pixels are the bytes of rows, in all three channels.
func letters(rows ...string) *Picture {
	p := NewPicture(len(rows[0]), len(rows))
	for y, row := range rows {
		for x := range len(row) {
			for c := range 3 {
				p.Pix[3*(y*p.Width+x)+c] = row[x]
			}
		}
	}
	return p
}

func spell(p *Picture) []string {
	rows := make([]string, p.Height)
	for y := range rows {
		for x := range p.Width {
			v := p.Pix[3*(y*p.Width+x)]
			if v == 0 {
				v = '.'
			}
			rows[y] += string(rune(v))
		}
	}
	return rows
}

func TestMoves(t *testing.T) {
	p := letters("abc", "def")
	for _, c := range []struct {
		name string
		got  *Picture
		want []string
	}{
		{"horizontal", p.FlipHorizontal(), []string{"cba", "fed"}},
		{"vertical", p.FlipVertical(), []string{"def", "abc"}},
		{"transpose", p.Transpose(), []string{"ad", "be", "cf"}},
		{"turn 0", p.Rotate90(4), []string{"abc", "def"}},
		{"turn 1", p.Rotate90(1), []string{"cf", "be", "ad"}},
		{"turn 2", p.Rotate90(2), []string{"fed", "cba"}},
		{"turn -1", p.Rotate90(-1), []string{"da", "eb", "fc"}},
		{"crop", p.Crop(1, 0, 2, 1), []string{"bc"}},
		{"crop beyond", p.Crop(-1, 1, 3, 2), []string{".de", "..."}},
		{"crop outside", p.Crop(5, 5, 1, 1), []string{"."}},
		{"side by side", SideBySide(p, letters("x")), []string{"abcx", "def."}},
		{"side by side, lower left", SideBySide(letters("x"), p), []string{"xabc", ".def"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := spell(c.got); !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		})
	}
}

func TestWritePNG(t *testing.T) {
	folder := t.TempDir()
	path, p := filepath.Join(folder, "p.png"), noise(31, 7)
	if err := p.WritePNG(path); err != nil {
		t.Fatal(err)
	}
	got, err := Open(path, Limits{})
	if err != nil || !bytes.Equal(got.Pix, p.Pix) {
		t.Errorf("read back: got other pixels, error %v, want the same %d", err, len(p.Pix))
	}
	if files, _ := os.ReadDir(folder); len(files) != 1 {
		t.Errorf("folder: got %v, want one file", files)
	}
	if err := p.WritePNG(filepath.Join(folder, "none", "p.png")); err == nil {
		t.Errorf("writing into no folder: got error %v, want one", err)
	}
}

func TestAugmentationIsShared(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(200) {
		a := RandomAugmentation(seed)
		if a != RandomAugmentation(seed) {
			t.Fatalf("drawn again: got %v, want %v", RandomAugmentation(seed), a)
		}
		rows := spell(a.Apply(letters("ab", "cd")))
		seen[rows[0]+rows[1]] = true
	}
	if len(seen) != 8 {
		t.Errorf("got %d symmetries of a square, want all 8", len(seen))
	}
}
