package data

import (
	"archive/zip"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const drawn = "testdata/headers.zip"

var (
	update  = flag.Bool("update", false, "rewrite the table in docs/pictures.md and testdata/damaged.txt")
	headers = flag.String("headers", drawn, "another draw of tools/oracle/data_headers.py")
)

//go:generate go test -run TestHeaders -update

// An expectedPicture is Pillow's result for a file (tools/oracle/data_headers.py).
type expectedPicture struct {
	Size   []int
	SHA256 string // half of the digest of the RGB bytes, over white; none for a JPEG
	Bare   string // the same without compositing transparency, if different
}

// TestHeaders decodes every combination of depth, type, compression, orientation and extra channels that Pillow
// reads. Each equals Pillow's result, or is refused for a reason listed in docs/pictures.md or testdata/damaged.txt.
func TestHeaders(t *testing.T) {
	for _, decoder := range decoders {
		t.Run(decoder, func(t *testing.T) {
			withDecoders(t, decoder)
			testHeaders(t, decoder)
		})
	}
}

// decoders are the two ways to decode JPEG and WebP, and to inflate if libdeflate is available.
var decoders = []string{"go", "libjpeg-turbo"}

// withDecoders decodes with Go's packages or with the libraries. Without libraries the test is skipped: make setup
// fetches them.
func withDecoders(t *testing.T, name string) {
	t.Helper()
	if name == "go" {
		jpeg, webp, deflate := noLibjpeg, noLibwebp, noLibdeflate
		t.Cleanup(func() { noLibjpeg, noLibwebp, noLibdeflate = jpeg, webp, deflate })
		noLibjpeg = func() error { return errors.New("a test") }
		noLibwebp, noLibdeflate = noLibjpeg, noLibjpeg
	} else if err := errors.Join(noLibjpeg(), noLibwebp()); err != nil {
		t.Skip(err)
	}
}

func testHeaders(t *testing.T, decoder string) {
	archive, err := zip.OpenReader(*headers)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	read := func(name string) []byte {
		raw, err := fs.ReadFile(archive, name)
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var expect map[string]expectedPicture
	if err := json.Unmarshal(read("headers.json"), &expect); err != nil {
		t.Fatal(err)
	}
	counts := map[string][2]int{}                           // format: read, refused
	kinds, damaged := map[notRead]bool{}, map[string]bool{} // the reasons for refusing files
	for name, want := range expect {
		raw := read(name)
		f, _ := detectFormat(raw)
		n := counts[f.name]
		p, err := Decode(raw, Limits{})
		if err != nil {
			n[1]++
			if k := (notRead{}); errors.As(err, &k) {
				kinds[k] = true
			} else {
				damaged[err.Error()] = true
			}
		} else {
			n[0]++
			if err := equalsPillow(p, want, decoder == "go", func() []byte { return read(name + ".rgb") }); err != nil {
				t.Errorf("%s: got %v, want Pillow's picture", name, err)
			}
		}
		counts[f.name] = n
	}
	t.Log("read and refused:", counts)
	all := 0
	for _, n := range counts {
		all += n[0]
	}
	if len(expect) < 2000 || 3*all < 2*len(expect) {
		t.Errorf("%d of %d files are read, want two thirds of 2000 or more", all, len(expect))
	}
	checkRefused(t, kinds, damaged, *headers == drawn && decoder == "go")
}

// equalsPillow allows for the rounding of the inverse DCT in a JPEG, if rounded.
func equalsPillow(p *Picture, want expectedPicture, rounded bool, rgb func() []byte) error {
	if p.Width != want.Size[0] || p.Height != want.Size[1] {
		return fmt.Errorf("%d x %d pixels, want %v", p.Width, p.Height, want.Size)
	}
	if want.SHA256 == "" {
		allowed := 0
		if rounded {
			allowed = 3
		}
		mean, most := difference(p, &Picture{Width: p.Width, Height: p.Height, Pix: rgb()})
		if most > allowed {
			return fmt.Errorf("differs from Pillow by %.2f levels on average and %d at most, want %d at most", mean, most,
				allowed)
		}
		return nil
	}
	half := func(p *Picture) string {
		sum := sha256.Sum256(p.Pix)
		return hex.EncodeToString(sum[:16])
	}
	if got := half(p); got != want.SHA256 {
		return fmt.Errorf("differs from Pillow: %s, want %s", got, want.SHA256)
	}
	if want.Bare == "" {
		want.Bare = want.SHA256
	}
	bare, err := p.DropAlpha()
	if err == nil && half(bare) != want.Bare {
		return fmt.Errorf("differs from Pillow where its transparency is dropped: %s, want %s", half(bare), want.Bare)
	}
	return nil
}

// checkRefused compares the reasons for refusing pictures with the table in docs/pictures.md, which is between two
// marker lines, and with testdata/damaged.txt. whole is false if a different sample or decoder may produce only some
// of them.
func checkRefused(t *testing.T, kinds map[notRead]bool, damaged map[string]bool, whole bool) {
	const page, begin, end = "../docs/pictures.md", "<!-- made by go generate ./data -->\n\n", "\n<!-- until here -->"
	raw, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := bytes.Cut(raw, []byte(begin))
	had, after, ok2 := bytes.Cut(rest, []byte(end))
	if !ok || !ok2 {
		t.Fatalf("%s: got no table between %q and %q, want one", page, begin, end)
	}
	formats := map[string][]string{}
	for k := range kinds {
		with := cmp.Or(strings.TrimSuffix(k.with, ","), "all")
		formats[k.format] = append(formats[k.format], with)
		if !whole && !strings.Contains(string(had), with) {
			t.Errorf("%s: got no %q of %s, want it", page, with, k.format)
		}
	}
	const list = "testdata/damaged.txt"
	messages, err := os.ReadFile(list)
	if err != nil && !*update {
		t.Fatal(err)
	}
	for m := range damaged {
		if !whole && !strings.Contains(string(messages), m+"\n") {
			t.Errorf("%s: got no line %q, want it", list, m)
		}
	}
	if !whole {
		return
	}
	table := "| format | what is not read |\n|---|---|\n"
	for _, format := range slices.Sorted(maps.Keys(formats)) {
		slices.Sort(formats[format])
		table += fmt.Sprintf("| %s | %s |\n", format, strings.Join(formats[format], "; "))
	}
	golden(t, page, raw, slices.Concat(before, []byte(begin+table+end), after))
	golden(t, list, messages, []byte(strings.Join(slices.Sorted(maps.Keys(damaged)), "\n")+"\n"))
}

// golden compares a file with its expected content, or writes that with -update.
func golden(t *testing.T, path string, got, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(filepath.FromSlash(path), want, 0o666); err != nil {
			t.Fatal(err)
		}
	} else if !bytes.Equal(got, want) {
		t.Errorf("%s: got other reasons than occurred, want (go generate ./data)\n%s", path, want)
	}
}
