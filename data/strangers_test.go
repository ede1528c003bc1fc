package data

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/internal/packed"
	"assay/internal/testfile"
)

// ofStrangers are tables written by third-party libraries (tools/oracle/stranger_tables.py).
const ofStrangers = "testdata/strangers.zip"

// CSV is parsed as by Python's csv module: tools/oracle/stranger_tables.py.
func TestCSVAgainstPython(t *testing.T) {
	var cases []struct {
		Text       string
		Comma, Tab [][]string
	}
	if err := json.Unmarshal(packed.File(t, ofStrangers, "csv.json"), &cases); err != nil {
		t.Fatal(err)
	}
	if len(cases) < 300 {
		t.Fatalf("got %d cases, want at least 300", len(cases))
	}
	for _, c := range cases {
		for comma, want := range map[byte][][]string{',': c.Comma, '\t': c.Tab} {
			d := delimited{comma}
			var got [][]string
			var lines []int
			err := d.rows(strings.NewReader(c.Text), func(raw []byte, start int64, line int) error {
				if !strings.HasPrefix(c.Text[start:], string(raw)) {
					t.Errorf("%q: got row %q at %d, want it to be there", c.Text, raw, start)
				}
				got, lines = append(got, d.fields(raw)), append(lines, line)
				return nil
			})
			if want == nil {
				if err == nil {
					t.Errorf("%q: got %q, want an error: a quoted field never ends", c.Text, got)
				}
				continue
			}
			if len(want) == 0 {
				want = nil
			}
			if err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("%q with %q: %q %v, want %q", c.Text, comma, got, err, want)
			}
		}
	}
	var lines []int
	text := "\ufeffa,\"b\r\nb\"\r\n\r\nc,d\re,\"f\rf\"\ng"
	if err := (delimited{','}).rows(strings.NewReader(text), func(_ []byte, _ int64, line int) error {
		lines = append(lines, line)
		return nil
	}); err != nil || cmp.Diff([]int{1, 4, 5, 7}, lines) != "" {
		t.Errorf("got lines %v, %v, want 1, 4, 5, 7", lines, err)
	}
}

// Tables written by pandas, pyarrow and datasets, in all supported formats.
func TestStrangers(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	var expect map[string][]struct {
		Source, Edit, Instruction string
		Label                     *float64
	}
	testfile.ReadJSON(t, filepath.Join(strangers, "expect.json"), &expect)
	for name, want := range expect {
		t.Run(name, func(t *testing.T) {
			got := rows(t, open(t, filepath.Join(strangers, name)))
			if len(got) != len(want) {
				t.Errorf("%s: %d rows, want %d", name, len(got), len(want))
				return
			}
			for i, w := range want {
				r := Row{
					Source:      Image{Path: w.Source},
					Edit:        Image{Path: w.Edit},
					Instruction: w.Instruction,
					Label:       w.Label,
				}
				if d := cmp.Diff(r, got[i]); d != "" {
					t.Errorf("%s: row %d (-want +got):\n%s", name, i+1, d)
				}
			}
		})
	}
	rec, err := open(t, filepath.Join(strangers, "unsigned.parquet")).Record(0)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"n": int64(4000000000), "m": "9223372036854775808"} {
		if v, _ := rec.Get(name); v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
}

func TestStrangersRefused(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	var refused map[string]string
	testfile.ReadJSON(t, filepath.Join(strangers, "refused.json"), &refused)
	for name, want := range refused {
		t.Run(name, func(t *testing.T) {
			table, err := OpenTable(filepath.Join(strangers, name))
			if err == nil {
				for _, e := range table.All() {
					if e != nil && err == nil {
						err = e
					}
				}
				table.Close()
			}
			if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v, want %q", name, err, want)
			}
		})
	}
}

// An undefined number is written as NaN, an unknown one as null.
func TestUndefinedIsWritten(t *testing.T) {
	nan, zero := 0., 0.
	nan /= zero
	path := filepath.Join(t.TempDir(), "t.parquet")
	row := Row{ID: "a", Source: Image{Path: "s"}, Edit: Image{Path: "e"}, ClipD: &nan, Profile: "p/1"}
	if err := WriteTable(path, func(yield func(Row, error) bool) { yield(row, nil) }); err != nil {
		t.Fatal(err)
	}
	table := open(t, path)
	rec, err := table.Record(0)
	if err != nil {
		t.Fatal(err)
	}
	d, _ := rec.Get("clip_d")
	i, _ := rec.Get("clip_i")
	if x, ok := d.(float64); !ok || x == x || i != nil {
		t.Errorf("clip_d %v, clip_i %v, want NaN and nothing", d, i)
	}
	if got, err := table.Read(0); err != nil || got.ClipD != nil || got.Profile != "p/1" {
		t.Errorf("got %+v, %v, want no clip_d, profile p/1", got, err)
	}
}

// Half floats remain numbers in a copy with added columns.
func TestHalvesAreCopied(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	in := open(t, filepath.Join(strangers, "half.parquet"))
	path := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w, err := in.NewWriter(f, FormatParquet, Column{"score", KindNumber})
	if err != nil {
		t.Fatal(err)
	}
	for rec, err := range in.Records() {
		if err != nil {
			t.Fatal(err)
		}
		rec.Set("score", 1.5)
		if err := w.Write(rec); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(rows(t, in), rows(t, open(t, path))); d != "" {
		t.Error(d)
	}
}

// Text columns may hold values other than text.
func TestTextIsUTF8(t *testing.T) {
	for _, v := range []any{"caf\xe9", []byte("caf\xe9"), []any{"a"}, Record{}} {
		t.Run(fmt.Sprintf("%T", v), func(t *testing.T) {
			if s, err := Text(v); err == nil {
				t.Errorf("%q: got text %q, want an error", v, s)
			}
		})
	}
}

func FuzzCSV(f *testing.F) {
	var cases []struct{ Text string }
	if err := json.Unmarshal(packed.File(f, ofStrangers, "csv.json"), &cases); err != nil {
		f.Fatal(err)
	}
	for _, c := range cases[:60] {
		f.Add([]byte(c.Text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var back bytes.Buffer
		d := delimited{','}
		err := d.rows(bytes.NewReader(raw), func(row []byte, start int64, _ int) error {
			if !bytes.Equal(row, raw[start:start+int64(len(row))]) {
				t.Errorf("got row %q at %d of %q, want it to be there", row, start, raw)
			}
			for i, field := range d.fields(row) {
				if i > 0 {
					back.WriteByte(',')
				}
				back.WriteString(`"` + strings.ReplaceAll(field, `"`, `""`) + `"`)
			}
			back.WriteByte('\n')
			return nil
		})
		if err != nil {
			return
		}
		var again bytes.Buffer
		if err := d.rows(bytes.NewReader(back.Bytes()), func(row []byte, _ int64, _ int) error {
			for i, field := range d.fields(row) {
				if i > 0 {
					again.WriteByte(',')
				}
				again.WriteString(`"` + strings.ReplaceAll(field, `"`, `""`) + `"`)
			}
			again.WriteByte('\n')
			return nil
		}); err != nil || !bytes.Equal(back.Bytes(), again.Bytes()) {
			t.Errorf("%q written as %q and read: got %q, %v, want the same", raw, back.Bytes(), again.Bytes(), err)
		}
	})
}
