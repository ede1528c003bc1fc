// Package jsonfile writes JSON documents and JSON lines atomically, and reads JSON lines back.
package jsonfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"assay/internal/atomicfile"
)

// Write writes a value as an indented document. <, > and & are not escaped.
func Write(path string, v any) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		e := encoder(w)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}

// WriteLines writes values, one per line. <, > and & are not escaped.
func WriteLines[Row any](path string, rows []Row) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		e := encoder(w)
		for i := range rows {
			if err := e.Encode(&rows[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

func encoder(w io.Writer) *json.Encoder {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e
}

// Lines reads values written by WriteLines. An error, which names the file and the value, ends the iteration.
func Lines[Row any](path string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		var none Row
		f, err := os.Open(path)
		if err != nil {
			yield(none, err)
			return
		}
		defer f.Close()
		d := json.NewDecoder(f)
		for n := 1; ; n++ {
			var row Row
			switch err := d.Decode(&row); {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(none, fmt.Errorf("%s: line %d: %w", path, n, err))
				return
			}
			if !yield(row, nil) {
				return
			}
		}
	}
}
