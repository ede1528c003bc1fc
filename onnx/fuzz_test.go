package onnx

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"assay/internal/fuzzing"
	archive "assay/internal/packed"
)

// FuzzDecodeModel: arbitrary bytes are read as a model or refused. A model that is read, written and read back is
// unchanged. (FuzzAppend, in onnx/grad, checks, types and differentiates such models.)
func FuzzDecodeModel(f *testing.F) {
	x := fuzzing.New(f)
	models := archive.Unpack(f, "../testdata/oracle/onnx.zip")
	x.Add(fuzzing.Files(f, 2<<10, filepath.Join(models, "*", "model.onnx"))...)
	cases := protoCases()
	for _, name := range slices.Sorted(maps.Keys(cases)) {
		x.Add(cases[name])
	}
	x.Run(func(t testing.TB, raw []byte) {
		fuzzing.Bounded(t, 16<<20+uint64(len(raw))<<10, func() {
			m, err := Decode(raw)
			if err != nil {
				return
			}
			once, err := m.Encode()
			if err != nil {
				t.Fatal(err)
			}
			again, err := Decode(once)
			if err != nil {
				t.Fatalf("reading what was written: got error %v, want none", err)
			}
			if twice, err := again.Encode(); err != nil || !bytes.Equal(once, twice) {
				t.Fatalf("read and written again: got %d bytes, %v, want the same %d", len(twice), err, len(once))
			}
		})
	})
}
