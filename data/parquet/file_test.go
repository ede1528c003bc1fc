package parquet

import (
	"context"
	"testing"

	"assay/internal/remote"
)

// fields is a nested group.
type fields []Field

func get(f []Field, name string) any {
	for _, f := range f {
		if f.Name == name {
			return f.Value
		}
	}
	return nil
}

func openPath(path string) (*File, error) {
	f, err := remote.Open(context.Background(), path)
	if err != nil {
		return nil, err
	}
	return Open(f, func(f []Field) any { return fields(f) })
}

func open(t testing.TB, path string) *File {
	t.Helper()
	f, err := openPath(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}
