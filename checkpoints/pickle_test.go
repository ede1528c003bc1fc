package checkpoints

import (
	"archive/zip"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"assay/internal/packed"
)

// TestPickles: files of torch.save have the same tensors as the safetensors file next to them, byte for byte.
func TestPickles(t *testing.T) {
	dir := packed.Unpack(t, "testdata/pickles.zip")
	for _, name := range []string{"types", "views", "module", "parameters", "nested"} {
		want, err := OpenFile(filepath.Join(dir, name+".safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		defer want.Close()
		for _, file := range []string{name + ".pt", name + "-legacy.pth", name + "-protocol4.bin"} {
			t.Run(file, func(t *testing.T) {
				got, err := OpenTensors(filepath.Join(dir, file))
				if err != nil {
					t.Fatal(err)
				}
				defer got.Close()
				a, b := slices.Sorted(slices.Values(got.Names())), slices.Sorted(slices.Values(want.Names()))
				if !slices.Equal(a, b) {
					t.Fatalf("got the tensors %v, want %v", a, b)
				}
				for _, tensor := range want.Names() {
					g, _ := got.Info(tensor)
					w, _ := want.Info(tensor)
					if g.Type != w.Type || !slices.Equal(g.Shape, w.Shape) || g.Length != w.Length {
						t.Errorf("%s: got %+v, want %+v", tensor, g, w)
					}
					a, err := got.Bytes(tensor)
					b, _ := want.Bytes(tensor)
					if err != nil || !bytes.Equal(a, b) {
						t.Errorf("%s: got unexpected bytes (%v)", tensor, err)
					}
				}
			})
		}
	}
}

// archive writes an archive like torch.save.
func archive(t *testing.T, path, pickle string, method uint16) {
	t.Helper()
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for name, content := range map[string]string{"a/data.pkl": pickle, "a/data/0": strings.Repeat("\x00", 16)} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: name, Method: method})
		if err == nil {
			_, err = f.Write([]byte(content))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// tensorPickle returns {"w": a tensor on storage 0 with four float32s}, with an offset, a shape and a stride, one
// byte each.
func tensorPickle(offset, shape, stride string) string {
	return "\x80\x02}X\x01\x00\x00\x00wctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n" +
		"FloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ" + offset + shape + stride +
		"\x89ccollections\nOrderedDict\n)RtRs."
}

// TestHostilePickles: instructions that no state dict needs are refused, no code is run, and damage is an error.
func TestHostilePickles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.pt")
	good := tensorPickle("K\x00", "K\x02K\x02\x86", "K\x02K\x01\x86")
	archive(t, path, good, zip.Store)
	f, err := OpenPickle(path)
	if err != nil {
		t.Fatalf("got %v, want the tensor of the example", err)
	}
	f.Close()
	long := "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
	for name, c := range map[string][2]string{
		"a function":        {"\x80\x02cposix\nsystem\nX\x04\x00\x00\x00true\x85R.", `call "system" of Python's`},
		"a function, new":   {"\x80\x04\x8c\x08builtins\x8c\x04eval\x93\x8c\x011\x85R.", `"eval"`},
		"a class":           {"\x80\x02c__main__\nModel\n)\x81}b.", `"Model"`},
		"an instance":       {"(ios\nsystem\n.", "which no state dict needs"},
		"text protocol":     {"cos\nsystem\n(S'true'\ntR.", `"system"`},
		"no state dict":     {"\x80\x02]K\x01a.", "it contains a list"},
		"a number":          {"\x80\x02}X\x01\x00\x00\x00wK\x01s.", "w is a number"},
		"cut short":         {good[:len(good)-9], "the pickle is damaged"},
		"empty stack":       {"\x80\x02R.", "missing or invalid arguments"},
		"no mark":           {"\x80\x02K\x01t.", "missing or invalid arguments"},
		"unknown memo":      {"\x80\x02h\x07.", "missing or invalid arguments"},
		"a long text":       {"\x80\x02X\xff\xff\xff\x7fabc", "a string of 2147483647 bytes"},
		"offset":            {tensorPickle("K\x01", "K\x02K\x02\x86", "K\x02K\x01\x86"), "reaches beyond"},
		"huge offset":       {tensorPickle(long, "K\x02K\x02\x86", "K\x02K\x01\x86"), "do not fit"},
		"shape":             {tensorPickle("K\x00", "K\x05\x85", "K\x01\x85"), "do not fit"},
		"huge shape":        {tensorPickle("K\x00", long+"\x85", "K\x01\x85"), "do not fit"},
		"huge stride":       {tensorPickle("K\x00", "K\x02\x85", long+"\x85"), "do not fit"},
		"negative stride":   {tensorPickle("K\x00", "K\x02\x85", "J\xff\xff\xff\xff\x85"), "do not fit"},
		"more dimensions":   {tensorPickle("K\x00", "K\x02\x85", "K\x02K\x01\x86"), "do not fit"},
		"shape is a text":   {tensorPickle("K\x00", "X\x01\x00\x00\x002\x85", "K\x01\x85"), "missing or invalid arguments"},
		"negated":           {strings.Replace(good, ")RtRs.", ")R}X\x03\x00\x00\x00neg\x88stRs.", 1), "save its clone()"},
		"another storage":   {strings.Replace(good, "\x000X", "\x001X", 1), "is not in the file"},
		"attributes of all": {"\x80\x02K\x01}b.", "sets the attributes of a number"},
	} {
		t.Run(name, func(t *testing.T) {
			archive(t, path, c[0], zip.Store)
			if _, err := OpenPickle(path); err == nil || !strings.Contains(err.Error(), c[1]) {
				t.Errorf("got %v, want %q", err, c[1])
			}
		})
	}
	archive(t, path, good, zip.Deflate)
	if _, err := OpenPickle(path); err == nil || !strings.Contains(err.Error(), "compressed") {
		t.Errorf("got %v, want a refusal of a compressed archive", err)
	}
	for _, content := range []string{"", "PK\x03\x04", "text", "\x80\x02]."} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenPickle(path); err == nil {
			t.Errorf("%q: got no error", content)
		}
	}
	nested := "\x80\x02" + strings.Repeat("}X\x01\x00\x00\x00a", 1<<20) + "K\x01" + strings.Repeat("s", 1<<20) + "."
	archive(t, path, nested, zip.Store)
	if _, err := OpenPickle(path); err == nil {
		t.Error("a million dictionaries in each other: got no error")
	}
}

// FuzzPickle: no input crashes the process, or yields a tensor that cannot be read.
func FuzzPickle(f *testing.F) {
	f.Add([]byte(tensorPickle("K\x00", "K\x02K\x02\x86", "K\x02K\x01\x86")))
	f.Add([]byte("\x80\x02]K\x01a."))
	path := filepath.Join(f.TempDir(), "a.pt")
	f.Fuzz(func(t *testing.T, pickle []byte) {
		archive(t, path, string(pickle), zip.Store)
		p, err := OpenPickle(path)
		if err != nil {
			return
		}
		defer p.Close()
		for _, name := range p.Names() {
			info, ok := p.Info(name)
			raw, err := p.Bytes(name)
			if !ok || err != nil || int64(len(raw)) != info.Length {
				t.Errorf("%s: got %d bytes (%v), want %d", name, len(raw), err, info.Length)
			}
		}
	})
}
