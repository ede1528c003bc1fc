package data

import (
	"crypto/sha256"
	"fmt"
)

// Swapped returns a warning that source and edit look swapped, and why; "" if they do not. An edit has one source,
// and a source has one edit or more, so there are at least as many edits as sources: see [LookSwapped]. It looks at
// the first 256 rows, and at the first 32 MiB of pictures inside the table.
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
		"An edit is made from one source (set --columns source=...,edit=... to map the columns)", t.Path(), len(sources),
		len(edits))
}

// LookSwapped reports whether these numbers of distinct sources and edits suggest that the columns are swapped: at
// least four sources, and at least twice as many as edits.
func LookSwapped(sources, edits int) bool { return sources >= 4 && sources >= 2*edits }

// key distinguishes pictures of one table without reading their files.
func (m Image) key() string {
	if len(m.Bytes) == 0 {
		return m.Path
	}
	sum := sha256.Sum256(m.Bytes)
	return string(sum[:])
}
