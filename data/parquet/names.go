package parquet

import (
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// checkNames compares the column names in the schema with those in the metadata of every row group. No checksum
// covers them, and a damaged name would look like a missing column.
func checkNames(f *parquet.File) error {
	schema := f.Schema().Columns()
	for i, g := range f.Metadata().RowGroups {
		if len(g.Columns) != len(schema) {
			return fmt.Errorf("damaged Parquet file: %d columns in row group %d, %d in the schema", len(g.Columns), i,
				len(schema))
		}
		for k, c := range g.Columns {
			if !slices.Equal(c.MetaData.PathInSchema, schema[k]) {
				return fmt.Errorf("damaged Parquet file: column %q of row group %d is %q in the schema",
					c.MetaData.PathInSchema, i, schema[k])
			}
		}
	}
	return nil
}
