package data

import (
	"crypto/sha256"
	"fmt"
)

// Swapped says that source and edit look swapped, and why; "" if they do not. An edit is made from one source, and a
// source has one edit or more. So of the first 256 rows there are about as many edits as sources, or more. If there
// are at least four sources, and two or more for each edit, the columns are probably the wrong way round. Of pictures
// inside the table the first 32 MiB are looked at.
func (t *Table) Swapped() string {
	const rows, fewest, most = 256, 4, 32 << 20
	bytes := 0
	sources, edits := map[string]bool{}, map[string]bool{}
	for i := range min(rows, t.Len()) {
		row, err := t.Read(i)
		if err != nil || row.Source.IsZero() || row.Edit.IsZero() {
			continue
		}
		sources[row.Source.key()], edits[row.Edit.key()] = true, true
		if bytes += len(row.Source.Bytes) + len(row.Edit.Bytes); bytes > most {
			break
		}
	}
	if len(sources) < fewest || len(sources) < 2*len(edits) {
		return ""
	}
	return fmt.Sprintf("%s has %d sources and only %d edits in its first rows: are the columns source and edit swapped? "+
		"An edit is made from one source (--columns source=...,edit=... says which column is which)", t.Path(), len(sources),
		len(edits))
}

// key is what tells pictures of one table apart without a look at their files.
func (m Image) key() string {
	if len(m.Bytes) == 0 {
		return m.Path
	}
	sum := sha256.Sum256(m.Bytes)
	return string(sum[:])
}
