package data

import (
	"crypto/sha256"
	"fmt"
)

// Swapped says that source and edit look swapped, and why; "" if they do not. An edit is made from one source, and a
// source has one edit or more, so there are as many edits as sources, or more: see [LookSwapped]. It looks at the first
// 256 rows, and at the first 32 MiB of pictures inside the table.
func (t *Table) Swapped() string {
	const rows, most = 256, 32 << 20
	bytes := 0
	sources, edits := map[string]bool{}, map[string]bool{}
	for i := range min(rows, t.Len()) {
		row, err := t.Read(i)
		if err != nil || row.Source.IsZero() || row.Edit.IsZero() {
			continue
		}
		sources[row.SourcesKey()], edits[row.Edit.key()] = true, true
		if bytes += len(row.Source.Bytes) + len(row.Edit.Bytes); bytes > most {
			break
		}
	}
	if !LookSwapped(len(sources), len(edits)) {
		return ""
	}
	return fmt.Sprintf("%s has %d sources and only %d edits in its first rows: are the columns source and edit swapped? "+
		"An edit is made from one source (--columns source=...,edit=... says which column is which)", t.Path(), len(sources),
		len(edits))
}

// LookSwapped reports whether so many different sources and edits are probably the wrong way round: at least four
// sources, and two or more for each edit.
func LookSwapped(sources, edits int) bool { return sources >= 4 && sources >= 2*edits }

// key is what tells pictures of one table apart without a look at their files.
func (m Image) key() string {
	if len(m.Bytes) == 0 {
		return m.Path
	}
	sum := sha256.Sum256(m.Bytes)
	return string(sum[:])
}
