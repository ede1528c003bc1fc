package readers

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"assay/internal/fuzzing"
)

// FuzzArrow: any bytes are an arrow stream whose rows are read, or an error.
func FuzzArrow(f *testing.F) {
	for _, raw := range fuzzing.Files(f, 8<<10, "testdata/adiee/train/*.arrow") {
		f.Add(raw)
	}
	path := fuzzing.File(f, "data-00000-of-00001.arrow")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		fuzzing.Bounded(t, 64<<20+1024*uint64(len(raw)), func() {
			r, err := openArrow(filepath.Dir(path), []string{path})
			if err != nil {
				return
			}
			for i := range min(r.len(), 3) {
				_, _ = r.record(i)
			}
			r.close()
		})
	})
}

// FuzzArchive: any bytes are a tar file, packed or not, or an error; nothing is written outside of the folder.
func FuzzArchive(f *testing.F) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"a/1.png", "../1.png", "x/a/1.png"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: 4, Mode: 0o644}); err != nil {
			f.Fatal(err)
		}
		w.Write([]byte("1234"))
	}
	w.Close()
	f.Add(b.Bytes())
	f.Add(b.Bytes()[:700])
	f.Add([]byte{0x1f, 0x8b, 8, 0})
	path := fuzzing.File(f, "a.tar")
	root := f.TempDir()
	dir := filepath.Join(root, "into")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		wanted := newNameSet()
		wanted.add("a/1.png")
		fuzzing.Bounded(t, 64<<20+1024*uint64(len(raw)), func() {
			_ = unpackOne(context.Background(), []string{path}, dir, wanted)
		})
		if outside, err := os.ReadDir(root); err != nil || len(outside) > 1 {
			t.Errorf("%v beside the folder (%v)", outside, err)
		}
	})
}
