package onnx

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// CheckExternal checks every tensor whose bytes are in another file. It must be a regular file below folder, reached
// without symbolic links or "..", which ONNX Runtime refuses, and must contain the full range of the tensor. Problems
// are joined.
func CheckExternal(m *Model, folder string) error {
	var problems []error
	files := map[string]int64{} // location -> size, -1 if a problem was reported
	for _, t := range Externals(&m.Graph) {
		e := t.External
		bad := func(format string, args ...any) {
			problems = append(problems, fmt.Errorf("tensor %q: %w", t.Name, fmt.Errorf(format, args...)))
		}
		size, seen := files[e.Location]
		if !seen {
			var err error
			if size, err = regularFile(folder, e.Location); err != nil {
				size = -1
				bad("its external data %q: %w", e.Location, err)
			}
			files[e.Location] = size
		}
		want := t.Count() * int64(t.Type.Size())
		switch {
		case size < 0 || len(problems) >= maxProblems:
		case e.Offset < 0 || e.Length < 0:
			bad("offset %d and length %d of its external data must not be negative", e.Offset, e.Length)
		case e.Length != want:
			bad("%v%v needs %d bytes, its external data in %q is %d bytes long",
				t.Type, t.Shape, want, e.Location, e.Length)
		case e.Offset > size || e.Length > size-e.Offset:
			bad("want %d bytes at offset %d of %q, the file has %d bytes: "+
				"the offset is wrong or the file is cut short", e.Length, e.Offset, e.Location, size)
		}
	}
	return errors.Join(problems...)
}

// Externals returns the tensors of a graph and its subgraphs whose bytes are in other files.
func Externals(g *Graph) []*Tensor {
	var out []*Tensor
	for _, t := range g.Initializers {
		if t.External != nil {
			out = append(out, t)
		}
	}
	for _, n := range g.Nodes {
		for _, key := range slices.Sorted(maps.Keys(n.Attrs)) {
			switch a := n.Attrs[key].(type) {
			case *Tensor:
				if a.External != nil {
					out = append(out, a)
				}
			case *Graph:
				out = append(out, Externals(a)...)
			}
		}
	}
	return out
}

// regularFile returns the size of a file below folder.
func regularFile(folder, location string) (int64, error) {
	if !filepath.IsLocal(location) || strings.Contains(location, "..") {
		return 0, fmt.Errorf("want a path below the model's folder, without \"..\"")
	}
	path := folder
	for _, part := range strings.Split(filepath.ToSlash(filepath.Clean(location)), "/") {
		path = filepath.Join(path, part)
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return 0, fmt.Errorf("no file %s", path)
		case err != nil:
			return 0, err
		case info.Mode()&fs.ModeSymlink != 0:
			return 0, fmt.Errorf("%s is a symbolic link, which ONNX Runtime refuses; put the file itself there", path)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, fmt.Errorf("%s is not a file", path)
	}
	return info.Size(), nil
}
