package data

import (
	"context"
	"fmt"
	"io"

	"assay/internal/atomicfile"
	"assay/internal/remote"
)

// CheckOutput refuses to write to the table itself, whose rows would be replaced.
func (t *Table) CheckOutput(path string) error {
	if path == t.path || !remote.Is(path) && !remote.Is(t.path) && atomicfile.Same(path, t.path) {
		return fmt.Errorf("%s is the table that is read, and would be replaced: write to another file", path)
	}
	return nil
}

// Rewrite writes the rows of the table with further columns into a file, complete or not at all; set fills in row i,
// and its error ends it. A row that cannot be read keeps its place, with what set says of it. Relative paths of
// pictures are rewritten so that they resolve from where the file lies ([Moving]).
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
