package main

import (
	"encoding/json"
	"io"

	"assay/internal/atomicfile"
)

func writeLines[T any](path string, rows []T) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		for _, r := range rows {
			if err := e.Encode(r); err != nil {
				return err
			}
		}
		return nil
	})
}
