package strictyaml

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
	"github.com/google/go-cmp/cmp"
)

// section has its own defaults, and knows the name that another program uses for its key.
type section struct {
	Rows  int      `yaml:"rows"`
	Words []string `yaml:"words"`
	Kept  string   `yaml:"-"`
	plain string
}

func (s *section) SetDefaults() { s.Rows, s.plain = 8, "set" }

func (s *section) KeyElsewhere(name string) string {
	return map[string]string{"num_rows": "rows"}[name]
}

// TestDecodePlaces: each mistake has its position and message.
func TestDecodePlaces(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"section: {num_rows: 1}", "1:11: section.num_rows: unknown key (use rows here)"},
		{"section: {row: 1}", "1:11: section.row: unknown key (did you mean rows?)"},
		{"section: {word: 1}", "1:11: section.word: unknown key (did you mean words?)"},
		{"section: {rowwords: 1}", "1:11: section.rowwords: unknown key (did you mean words?)"},
		{"section: {Kept: x}", "1:11: section.Kept: unknown key (known keys: rows, words)"},
		{"section: {words: [a, null, b]}", "1:22: section.words[1]: an empty item"},
		{"section: {words: *none}", "1:18: section.words: want a list, not *none"},
		{"name: *none", "1:7: name: [1:8] could not find alias \"none\""},
		{"other: 1", "1:8: other: a uint8 cannot be decoded"},
		{"big: 18446744073709551615", "1:6: big: want a whole number, not 18446744073709551615"},
		{"big: 9007199254740992.0", "1:6: big: want a whole number, not 9007199254740992.0"},
		{"rate: .inf", "1:7: rate: want a number, not .inf"},
		{"section: " + strings.Repeat("x", 40), "1:10: section: want keys with values (a mapping), not " +
			strings.Repeat("x", 40)},
		{"section: " + strings.Repeat("x", 41), "1:10: section: want keys with values (a mapping), not " +
			strings.Repeat("x", 40) + "..."},
		{"name: {a: 1}", "1:7: name: want a string, not a mapping (put it in quotes)"},
		{"name: [1]", "1:7: name: want a string, not a list (put it in quotes)"},
		{"on: 010",
			"1:5: on: 010 is octal to some YAML parsers and decimal to others: drop the leading zero"},
	} {
		t.Run(c.text, func(t *testing.T) {
			var v struct {
				Section *section `yaml:"section"`
				Name    string   `yaml:"name"`
				Other   uint8    `yaml:"other"`
				Big     int64    `yaml:"big"`
				Rate    float64  `yaml:"rate"`
				On      bool     `yaml:"on"`
			}
			err := Decode("c.yaml", []byte(c.text), &v).Err()
			if err == nil || !strings.HasPrefix(err.Error(), "c.yaml:"+c.want) || strings.Count(err.Error(), "c.yaml:") != 1 {
				t.Errorf("got error %v, want %q alone", err, c.want)
			}
			if strings.Contains(c.text, "on:") && v.On {
				t.Errorf("on: got %t of a refused value, want it as it was", v.On)
			}
		})
	}
}

// TestDecodeValues: numbers in every spelling, tags, anchors of anchors, and defaults of a section.
func TestDecodeValues(t *testing.T) {
	type values struct {
		A, B, C, D, E float64
		I             int64
		U             uint64
		S             string
		List          []string
		Section       *section
	}
	var v struct {
		A       float64  `yaml:"a"`
		B       float64  `yaml:"b"`
		C       float64  `yaml:"c"`
		D       float64  `yaml:"d"`
		E       float64  `yaml:"e"`
		I       int64    `yaml:"i"`
		U       uint64   `yaml:"u"`
		S       string   `yaml:"s"`
		List    []string `yaml:"list"`
		Section *section `yaml:"section"`
	}
	text := `a: -3
b: 18446744073709551615
c: 1.5
d: -2E+3
e: !!float 7
i: 9007199254740991.0
u: 9223372036854775807
s: &s !!str "5e3"
list: &l [*s, &t x, *t]
section: {words: *l}
`
	if err := Decode("c.yaml", []byte(text), &v).Err(); err != nil {
		t.Fatal(err)
	}
	got := values{v.A, v.B, v.C, v.D, v.E, v.I, v.U, v.S, v.List, v.Section}
	want := values{-3, 1 << 64, 1.5, -2000, 7, 1<<53 - 1, math.MaxInt64, "5e3", []string{"5e3", "x", "x"},
		&section{Rows: 8, Words: []string{"5e3", "x", "x"}, plain: "set"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(section{})); d != "" {
		t.Errorf("values (-want +got):\n%s", d)
	}
}

// TestInt: a plain value is an integer if the conversion is lossless.
func TestInt(t *testing.T) {
	for _, c := range []struct {
		v    any
		want int64
		ok   bool
	}{
		{int64(-5), -5, true},
		{uint64(5), 5, true},
		{uint64(math.MaxInt64), math.MaxInt64, true},
		{uint64(math.MaxInt64) + 1, 0, false},
		{2.0, 2, true},
		{2.5, 0, false},
		{float64(1<<53 - 1), 1<<53 - 1, true},
		{float64(1 << 53), 0, false},
		{float64(-1 << 53), 0, false},
		{math.Inf(1), 0, false},
		{"5", 0, false},
		{nil, 0, false},
	} {
		t.Run(fmt.Sprintf("%T %v", c.v, c.v), func(t *testing.T) {
			if got, ok := Int(c.v); ok != c.ok || ok && got != c.want {
				t.Errorf("Int(%v): got %d, %t, want %d, %t", c.v, got, ok, c.want, c.ok)
			}
		})
	}
}

// TestFloat: a plain value is a number if it is finite.
func TestFloat(t *testing.T) {
	for _, c := range []struct {
		v    any
		want float64
		ok   bool
	}{
		{int64(-5), -5, true},
		{uint64(5), 5, true},
		{2.5, 2.5, true},
		{math.Inf(-1), 0, false},
		{math.Inf(1), 0, false},
		{math.NaN(), 0, false},
		{"5", 0, false},
	} {
		t.Run(fmt.Sprintf("%T %v", c.v, c.v), func(t *testing.T) {
			if got, ok := Float(c.v); ok != c.ok || ok && got != c.want {
				t.Errorf("Float(%v): got %g, %t, want %g, %t", c.v, got, ok, c.want, c.ok)
			}
		})
	}
}

// TestDistance: Levenshtein's, and the nearest key is suggested.
func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"abc", "abc", 0}, {"kitten", "sitting", 3}, {"saturday", "sunday", 3},
		{"ab", "ba", 2},
	} {
		t.Run(c.a+" "+c.b, func(t *testing.T) {
			if got := distance(c.a, c.b); got != c.want {
				t.Errorf("distance(%q, %q): got %d, want %d", c.a, c.b, got, c.want)
			}
		})
	}
}

// TestSuggest: the nearest key, the first of several, or all.
func TestSuggest(t *testing.T) {
	for _, c := range []struct{ name, keys, want string }{
		{"rte", "rate rates", " (did you mean rate?)"},
		{"ratesx", "rate rates", " (did you mean rates?)"},
		{"rat", "rate rats", " (did you mean rate?)"},
		{"xyz", "rate rates", " (known keys: rate, rates)"},
		{"abcdef", "abcxyz", " (did you mean abcxyz?)"}, // three of six letters
		{"abcde", "abxyz", " (known keys: abxyz)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fields := map[string]int{}
			for i, key := range strings.Fields(c.keys) {
				fields[key] = i
			}
			if got := suggest(c.name, fields, reflect.Value{}); got != c.want {
				t.Errorf("suggest(%q) of %s: got %q, want %q", c.name, c.keys, got, c.want)
			}
		})
	}
}

// TestBytesAreWritten: a size is written in the largest unit that divides it, or as a plain number.
func TestBytesAreWritten(t *testing.T) {
	for size, want := range map[Bytes]string{0: "0", 1: "1", 1000: "1000", 1023: "1023", 1024: "1KiB", 1536: "1536",
		3 << 20: "3MiB", 1 << 30: "1GiB", 5 << 40: "5TiB", 1<<40 + 1024: "1073741825KiB", -1024: "-1024"} {
		t.Run(want, func(t *testing.T) {
			if got := size.String(); got != want {
				t.Errorf("String of %d: got %s, want %s", int64(size), got, want)
			}
			raw, err := yaml.Marshal(map[string]Bytes{"b": size})
			if got := strings.TrimSpace(string(raw)); err != nil || got != "b: "+want {
				t.Errorf("YAML of %d: got %q, %v, want %q", int64(size), got, err, "b: "+want)
			}
		})
	}
	if got := Bytes(0).Type(); got != "bytes" {
		t.Errorf("Type: got %q, want bytes", got)
	}
}

// TestBytesSet: the units, fractions of them, and values beyond int64.
func TestBytesSet(t *testing.T) {
	for _, c := range []struct {
		text string
		want Bytes
		ok   bool
	}{
		{"1KB", 1000, true}, {"1KiB", 1024, true}, {"2MB", 2e6, true}, {"2TB", 2e12, true}, {"2TiB", 2 << 40, true},
		{"0.5KiB", 512, true}, {"0GB", 0, true}, {"0B", 0, true}, {" 3 B", 3, true},
		{"8388607TiB", 8388607 << 40, true}, {"8388608TiB", 0, false}, {"9223372036854775807", math.MaxInt64, true},
		{"9223372036854775808", 0, false}, {"NaNB", 0, false}, {"-1B", 0, false}, {"B", 0, false}, {"", 0, false},
	} {
		t.Run(c.text, func(t *testing.T) {
			b := Bytes(7)
			if err := b.Set(c.text); (err == nil) != c.ok || c.ok && b != c.want || !c.ok && b != 7 {
				t.Errorf("Set(%q): got %d, %v, want %d, ok %t", c.text, b, err, c.want, c.ok)
			}
		})
	}
}

// TestReadFile: the text, and the folder of the file as an absolute path.
func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "c.yaml"), []byte("a: 1\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	t.Chdir(dir)
	text, folder, err := ReadFile("c.yaml")
	if want, _ := os.Getwd(); string(text) != "a: 1\n" || folder != want || err != nil {
		t.Errorf("ReadFile: got %q in %s, %v, want a: 1 in %s", text, folder, err, want)
	}
	text, folder, err = ReadFile("none.yaml")
	if text != nil || folder != "" || !errors.Is(err, fs.ErrNotExist) ||
		!strings.HasPrefix(err.Error(), "reading the conf") {
		t.Errorf("ReadFile of none: got %q, %q, %v, want %v", text, folder, err, fs.ErrNotExist)
	}
}

// TestProblems: a problem without a file only has its key, one of a file as a whole has no key, and they are sorted
// by position.
func TestProblems(t *testing.T) {
	var v struct {
		A []int          `yaml:"a"`
		B map[string]int `yaml:"b"`
	}
	d := Decode("c.yaml", []byte("b: {x: 1}\na: [1,\n  x]\n"), &v)
	d.Problem("b.x", "is too small")
	d.Problem("", "is short")
	d.Problem("b.y.z", "is missing")
	for key, want := range map[string]bool{"a": true, "a[1]": true, "b": true, "b.x": true, "b.y": true, "c": false,
		"b.": false} {
		if got := d.Bad(key); got != want {
			t.Errorf("Bad(%q): got %t, want %t", key, got, want)
		}
	}
	want := `c.yaml:1:1: is short
c.yaml:1:1: b.y.z: is missing
c.yaml:1:5: b.x: is too small
c.yaml:3:3: a[1]: want a whole number, not x`
	if d := cmp.Diff(want, d.Err().Error()); d != "" {
		t.Errorf("Err (-want +got):\n%s", d)
	}
	if got := (Problem{Key: "flag", Text: "is wrong"}).String(); got != "flag: is wrong" {
		t.Errorf("problem of no file: got %q, want %q", got, "flag: is wrong")
	}
	if d := Decode("c.yaml", []byte("a: [\n"), &v); !d.Unreadable {
		t.Errorf("Unreadable of what is no YAML: got %t, want true", d.Unreadable)
	}
	if d := Decode("c.yaml", []byte("a: x\n"), &v); d.Unreadable || d.Err() == nil {
		t.Errorf("Unreadable of a wrong value: got %t, error %v, want false and an error", d.Unreadable, d.Err())
	}
}
