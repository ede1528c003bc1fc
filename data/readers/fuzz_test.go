package readers

import (
	"archive/tar"
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/endian"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	flatbuffers "github.com/google/flatbuffers/go"

	"assay/internal/fuzzing"
)

// FuzzArrow: any bytes are an arrow stream with readable rows, or an error.
func FuzzArrow(f *testing.F) {
	x := fuzzing.New(f)
	x.Add(fuzzing.Files(f, 8<<10, filepath.Join(fixtures, "adiee/train/*.arrow"))...)
	path := fuzzing.File(f, "data-00000-of-00001.arrow")
	x.Run(func(t testing.TB, raw []byte) {
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

// FuzzArchive: any bytes are a tar file, compressed or not, or an error; nothing is written outside the folder.
func FuzzArchive(f *testing.F) {
	x := fuzzing.New(f)
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range []string{"a/1.png", "../1.png", "x/a/1.png"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: 4, Mode: 0o644}); err != nil {
			f.Fatal(err)
		}
		w.Write([]byte("1234"))
	}
	w.Close()
	x.Add(b.Bytes())
	x.Add(b.Bytes()[:700])
	x.Add([]byte{0x1f, 0x8b, 8, 0})
	path := fuzzing.File(f, "a.tar")
	root := f.TempDir()
	dir := filepath.Join(root, "into")
	x.Run(func(t testing.TB, raw []byte) {
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		wanted := newNameSet()
		wanted.add("a/1.png")
		fuzzing.Bounded(t, 64<<20+1024*uint64(len(raw)), func() {
			_ = unpackOne(context.Background(), []string{path}, dir, wanted)
		})
		if outside, err := os.ReadDir(root); err != nil || len(outside) > 1 {
			t.Errorf("beside the folder: got %v, %v, want nothing", outside, err)
		}
	})
}

// A schema that claims more fields than it has bytes is refused before memory is allocated for them.
func TestArrowSchemaLists(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join(fixtures, "adiee/train/data-00000-of-00002.arrow"))
	if err != nil {
		t.Fatal(err)
	}
	m, _, err := nextMessage(raw)
	if err != nil || checkSchema(m.meta) != nil {
		t.Fatalf("got errors %v, %v, want none", err, checkSchema(m.meta))
	}
	message := flatbuffers.Table{Bytes: m.meta, Pos: flatbuffers.GetUOffsetT(m.meta)}
	var schema flatbuffers.Table
	message.Union(&schema, flatbuffers.UOffsetT(message.Offset(8)))
	fields := schema.Vector(flatbuffers.UOffsetT(schema.Offset(6)))
	flatbuffers.WriteUint32(m.meta[fields-4:], 1<<31-1) // m.meta is part of raw
	path := filepath.Join(t.TempDir(), "data-00000-of-00001.arrow")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	fuzzing.Bounded(t, 1<<20, func() { _, err = openArrow("", []string{path}) })
	if err == nil || !strings.Contains(err.Error(), "longer lists than it has bytes") {
		t.Errorf("%v, want an error about its lists", err)
	}
}

// A big-endian stream is refused: byte-swapping it in the mapped file would crash the process.
func TestArrowBigEndian(t *testing.T) {
	var b bytes.Buffer
	schema := arrow.NewSchemaWithEndian([]arrow.Field{{Name: "a", Type: arrow.PrimitiveTypes.Int64}}, nil,
		endian.BigEndian)
	w := ipc.NewWriter(&b, ipc.WithSchema(schema))
	column := array.NewInt64Builder(memory.DefaultAllocator)
	column.AppendValues([]int64{1, 2, 3}, nil)
	if err := w.Write(array.NewRecordBatch(schema, []arrow.Array{column.NewArray()}, 3)); err != nil {
		t.Fatal(err)
	}
	w.Close()
	path := filepath.Join(t.TempDir(), "data-00000-of-00001.arrow")
	if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openArrow("", []string{path}); err == nil || !strings.Contains(err.Error(), "big-endian") {
		t.Errorf("%v, want an error about its byte order", err)
	}
}
