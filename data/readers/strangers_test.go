package readers

import (
	"archive/tar"
	"bytes"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/data"
	"assay/internal/packed"
	"assay/internal/testfile"
)

// ofStrangers are datasets written by third-party libraries (tools/oracle/stranger_tables.py).
const ofStrangers = "testdata/strangers.zip"

// Shards written by webdataset itself, named in all supported ways.
func TestWebDataset(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	want := []string{"0000/a||10 >add a hat> 11|a man > a man with a hat|mgie 61 label 0.5",
		"0000/b||20 >remove the “dog”> -|sdedit 62",
		"0001/a||11 >make it red> -|edit 63 label 1"}
	for _, path := range []string{"webdataset", "webdataset/shard-{000..001}.tar", "webdataset/shard-{000,001}.tar",
		"webdataset/shard-*.tar"} {
		t.Run(path, func(t *testing.T) {
			got := all(t, "webdataset", Options{Path: filepath.Join(strangers, path), Editor: "edit"})
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s (-want +got):\n%s", path, d)
			}
		})
	}
	if got := all(t, "webdataset", Options{Path: filepath.Join(strangers, "webdataset/shard-001.tar"),
		Editor: "edit"}); cmp.Diff(want[2:], got) != "" {
		t.Error(got)
	}
	var expect []map[string]any // as read by webdataset
	testfile.ReadJSON(t, filepath.Join(strangers, "webdataset/expect.json"), &expect)
	r, err := openTars(filepath.Join(strangers, "webdataset"))
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if r.len() != len(expect) {
		t.Fatalf("%d samples, want %d", r.len(), len(expect))
	}
	for i, sample := range expect {
		if key := r.(*tars).rows[i].key; key != sample["__key__"] {
			t.Errorf("sample %d: key %q, want %q", i, key, sample["__key__"])
		}
		if n := len(r.(*tars).rows[i].members); n != len(sample)-1 {
			t.Errorf("sample %d: %d files, want %v", i, n, sample)
		}
	}
}

func TestBraces(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	var expect map[string][]string
	testfile.ReadJSON(t, filepath.Join(strangers, "braces.json"), &expect)
	for pattern, want := range expect {
		t.Run(pattern, func(t *testing.T) {
			if got, err := braces(pattern); err != nil || cmp.Diff(want, got) != "" {
				t.Errorf("%s: %v %v, want %v", pattern, got, err, want)
			}
		})
	}
	for _, pattern := range []string{"a{", "a}", "{a", "{a}", "{1..}", "{0..99999999}", "{3..1}"} {
		t.Run(pattern, func(t *testing.T) {
			if got, err := braces(pattern); err == nil {
				t.Errorf("%s: got %v, %v, want an error", pattern, got, err)
			}
		})
	}
}

func tarOf(t *testing.T, members ...string) string {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, m := range members {
		name, content, _ := strings.Cut(m, "=")
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "x.tar")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestBrokenTars(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	cut := tarOf(t, "a.source.png=p", "a.edit.png=p", "a.instruction.txt=i")
	raw, err := os.ReadFile(cut)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(cut, raw[:1400], 0o644); err != nil {
		t.Fatal(err)
	}
	sample := []string{"a.source.png=p", "a.edit.png=p", "a.instruction.txt=i"}
	shard := func(end int) string { // three files of two blocks, then two blocks of zeros
		path := tarOf(t, sample...)
		if err := os.Truncate(path, int64(end)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct{ path, want string }{
		{shard(2048), "x.tar: cut off after 2 files"},
		{shard(3072), "x.tar: cut off after 3 files"},
		{shard(3071), "x.tar: cut off after 3 files"}, // the padding is cut, too
		{tarOf(t, "a.source.png=p", "a.edit.png=p", "a.Edit.PNG=q"), `the sample "a" has two files .edit.png`},
		{tarOf(t, "a.source.png=p", "b.edit.png=p", "a.edit.png=q"), `the key "a" occurred before`},
		{tarOf(t, "a.source.png=p", "a.txt=i"), `no column "instruction", only __key__, source, txt`},
		{tarOf(t, "a.source.png=p", "a.instruction.txt=i"), `no column "edit"`},
		{tarOf(t, "a.source.png=p", "a.edit.png=e", "a.instruction.txt=i", `a.json={"instruction": "j"}`),
			`two values of "instruction"`},
		{tarOf(t, "a.source.png=p", "a.edit.png=e", "a.instruction.txt=i", "a.json=no"), "a.json: invalid"},
		{tarOf(t, "a.source.png=p", "a.edit.png=e", "a.instruction.txt=\xff"), "not UTF-8"},
		{cut, "unexpected EOF"},
		{filepath.Join(fixtures, "table.csv"), "table.csv: not a tar file"},
		{strangers + "/webdataset/shard-{000..004}.tar", "shard-002.tar: no such file"},
		{strangers + "/webdataset/shard-{000.tar", "unmatched {"},
		{strangers + "/none-*.tar", "no such files"},
		{strangers + "/hub", "no .tar files in it"},
	} {
		t.Run(c.want, func(t *testing.T) {
			r, err := Open(t.Context(), "webdataset", Options{Path: c.path})
			if err == nil {
				for i := range r.Len() {
					if _, e := r.Read(i); e != nil {
						err = e
					}
				}
				r.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %s", c.path, err, c.want)
			}
		})
	}
	// One block of zeros ends a file in GNU tar and in Python.
	r, err := Open(t.Context(), "webdataset", Options{Path: shard(3072 + 512)})
	if err != nil {
		t.Fatalf("one block of zeros: got %v, want no error", err)
	}
	r.Close()
	// Keys that restart in every shard are prefixed with the shard's name.
	one := tarOf(t, "a.source.png=p", "a.edit.png=p", "a.instruction.txt=i")
	dir := t.TempDir()
	for _, name := range []string{"s0.tar", "s1.tar"} {
		raw, err := os.ReadFile(one)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if r, err = Open(t.Context(), "webdataset", Options{Path: dir}); err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, want := range []string{"s0/a", "s1/a"} {
		if s, err := r.Read(i); err != nil || s.ID != want {
			t.Errorf("%v %v, want %s", s, err, want)
		}
	}
}

func TestHubInstructPix2Pix(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	got := all(t, "instructpix2pix-hub", Options{Path: strangers + "/hub"})
	want := []string{"000000|a man|10 >add a hat> 11|a man > a man with a hat",
		"000001|a dog|20 >make it red> 21|a dog > a red dog"}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

// Half floats in arrow files, including those below 2^-14.
func TestHalfFloats(t *testing.T) {
	strangers := packed.Unpack(t, ofStrangers)
	var want []*string
	testfile.ReadJSON(t, strangers+"/half.json", &want)
	r, err := Open(t.Context(), "table", Options{Path: strangers + "/half"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for i, w := range want {
		s, err := r.Read(i)
		if err != nil {
			t.Fatal(err)
		}
		d := s.Outputs[0].ClipD
		x, known := d.Value()
		switch {
		case w == nil && !d.Unknown(), w != nil && *w == "nan" && !d.Undefined():
			t.Errorf("row %d: got %v, want a number", i, d)
		case w != nil && *w != "nan":
			var y float64
			if fmt.Sscan(*w, &y); !known || x != y || math.IsNaN(x) {
				t.Errorf("row %d is %v, want %s", i, d, *w)
			}
		}
	}
}

// Labels that are not numbers are errors of their rows in every format.
func TestNoNumbers(t *testing.T) {
	tables := packed.Unpack(t, "../testdata/strangers.zip")
	for _, name := range []string{"nan.csv", "nan.jsonl", "nan.parquet", "nan_half.parquet", "infinity.csv",
		"infinity.parquet", "outside.parquet"} {
		t.Run(name, func(t *testing.T) {
			r, err := Open(t.Context(), "table", Options{Path: filepath.Join(tables, name)})
			if err != nil {
				t.Errorf("%s: Open: got error %v, want none", name, err)
				return
			}
			for i := range r.Len() {
				if _, err := r.Read(i); (err != nil) != (i == 1) || err != nil && !strings.Contains(err.Error(), name) {
					t.Errorf("%s: row %d: got error %v, want one only in row 2, with the file name", name, i+1, err)
				}
			}
			r.Close()
		})
	}
}

// Times, dates and durations in arrow files are numbers of their units, decimals are rounded once (tools/oracle/
// arrow_times.py). The row of an error is counted from the beginning of its file.
func TestArrowTimes(t *testing.T) {
	dir := packed.Unpack(t, "testdata/times.zip")
	var expect map[string][]*float64
	testfile.ReadJSON(t, dir+"/expect.json", &expect)
	if len(expect) != 9 {
		t.Fatalf("got %d columns, want 9", len(expect))
	}
	r, err := openRows(dir + "/disk")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	for i := range r.len() {
		rec, err := r.record(i)
		if err != nil {
			t.Fatalf("row %d: %v", i, err)
		}
		for column, want := range expect {
			v, _ := rec.Get(column)
			got, err := data.AnyNumber(v)
			if err != nil || (got == nil) != (want[i] == nil) || got != nil && *got != *want[i] {
				t.Errorf("row %d, column %s: got %v (%v), want %v", i, column, v, err, want[i])
			}
		}
	}
	table, err := Open(t.Context(), "table", Options{Path: dir + "/disk"})
	if err != nil {
		t.Fatal(err)
	}
	defer table.Close()
	if _, err = table.Read(1); err != nil {
		t.Errorf("row 2: got error %v, want none", err)
	}
	const want = `data-00001-of-00002.arrow: row 1: column "instruction": is empty`
	if _, err = table.Read(2); err == nil || err.Error() != want {
		t.Errorf("got error %v, want %s", err, want)
	}
}
