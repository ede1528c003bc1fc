package data

import (
	"context"
	"fmt"
	"io"

	"assay/internal/atomicfile"
	"assay/internal/remote"
)

// CheckOutput refuses an output path that is the table itself, whose rows would be overwritten.
func (t *Table) CheckOutput(path string) error {
	if path == t.path || !remote.Is(path) && !remote.Is(t.path) && atomicfile.Same(path, t.path) {
		return fmt.Errorf("%s is the input table and would be overwritten: write to another file", path)
	}
	return nil
}

// Rewrite writes the rows of the table with added columns to a file, atomically; set fills in row i, and its error
// aborts the write. A row that cannot be read keeps its place, with only the fields that set adds. Relative paths of
// pictures are rewritten so that they resolve from the folder of the new file ([Moving]).
func (t *Table) Rewrite(
	ctx context.Context, path string, f Format, columns []Column, set func(i int, row *Record) error,
) error {
	moving, err := NewMoving(t.Folder(), remote.Dir(path))
	if err != nil {
		return err
	}
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
			t.move(&row, moving)
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
