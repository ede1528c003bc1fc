package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"

	"assay/data"
)

// folder writes a published layout. It keeps the first error and writes nothing after it.
type folder struct {
	dir      string
	pictures string // folder to copy pictures from
	err      error
}

// read reads a picture to be copied.
func (w *folder) read(name string) (raw []byte) {
	if w.err == nil {
		raw, w.err = os.ReadFile(filepath.Join(w.pictures, filepath.FromSlash(name)))
	}
	return raw
}

// file writes a file.
func (w *folder) file(name string, raw []byte) {
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if w.err == nil {
		w.err = os.MkdirAll(filepath.Dir(path), 0o777)
	}
	if w.err == nil {
		w.err = os.WriteFile(path, raw, 0o666)
	}
}

// copy copies a picture.
func (w *folder) copy(name, to string) { w.file(to, w.read(name)) }

func (w *folder) json(name string, v any) {
	raw, err := json.Marshal(v)
	if w.err == nil {
		w.err = err
	}
	w.file(name, raw)
}

// writeLines writes JSON lines.
func writeLines[T any](w *folder, name string, list []T) {
	var b strings.Builder
	for _, l := range list {
		raw, err := json.Marshal(l)
		if w.err == nil {
			w.err = err
		}
		b.Write(append(raw, '\n'))
	}
	w.file(name, []byte(b.String()))
}

// table writes rows with the same columns as Parquet. Pictures are given by name and read here.
func (w *folder) table(name string, rows [][]cell) {
	var columns []data.Column
	for _, c := range rows[0] {
		columns = append(columns, data.Column{Name: c.name, Kind: c.kind})
	}
	var b strings.Builder
	out, err := data.NewWriter(&b, data.FormatParquet, columns)
	for _, cells := range rows {
		var r data.Record
		for _, c := range cells {
			if c.kind == data.KindImage {
				path := c.value.(string)
				c.value = data.Image{Path: path, Bytes: w.read(path)}
			}
			r.Set(c.name, c.value)
		}
		if err == nil {
			err = out.Write(r)
		}
	}
	if err == nil {
		err = out.Close()
	}
	if w.err == nil {
		w.err = err
	}
	w.file(name, []byte(b.String()))
}
