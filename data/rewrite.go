package data

import (
	"context"
	"io"

	"assay/internal/remote"
)

// Rewrite writes the rows of the table with further columns into a file, complete or not at all; set fills in row i,
// and its error ends it. A row that cannot be read keeps its place, with what set says of it.
func (t *Table) Rewrite(
	ctx context.Context, path string, f Format, columns []Column, set func(i int, row *Record) error,
) error {
	return remote.Write(ctx, path, func(w io.Writer) error {
		out, err := t.NewWriter(w, f, columns...)
		if err != nil {
			return err
		}
		for i := range t.Len() {
			row, err := t.Record(i)
			if remote.Failed(err) {
				return err
			} else if err != nil {
				row = Record{}
			}
			if err := set(i, &row); err != nil {
				return err
			}
			if err := out.Write(row); err != nil {
				return err
			}
		}
		return out.Close()
	})
}
