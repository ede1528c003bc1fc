package scoring

import (
	"iter"

	"assay/data"
)

// windowRows is how far ahead edits of the same source and instruction are looked for.
const windowRows = 1024

// grouping splits the rows of a table into batches in which edits of the same source and instruction are adjacent: a
// scorer computes their shared prefix once. All sources of an edit are compared, by path, or by bytes if they are
// stored in the table.
type grouping struct {
	table *data.Table
	of    map[int]int // row -> first row of its group, in the current window
}

type groupName struct{ sources, instruction string }

// batches splits rows into batches. Within a window, groups are ordered by their first rows; a batch does not end
// within a group that fits into the next batch.
func (g *grouping) batches(rows iter.Seq[int]) iter.Seq[[]int] {
	return func(yield func([]int) bool) {
		var window []int
		for i := range rows {
			if window = append(window, i); len(window) < windowRows {
				continue
			}
			if !g.cut(window, yield) {
				return
			}
			window = nil
		}
		g.cut(window, yield)
	}
}

// cut yields the batches of a window; false: yield returned false.
func (g *grouping) cut(window []int, yield func([]int) bool) bool {
	var batch []int
	for _, group := range g.groups(window) {
		for len(group) > 0 {
			if len(batch) > 0 && len(batch)+len(group) > batchRows {
				if !yield(batch) {
					return false
				}
				batch = nil
			}
			n := min(len(group), batchRows)
			batch, group = append(batch, group[:n]...), group[n:]
		}
	}
	return len(batch) == 0 || yield(batch)
}

// groups groups rows by source and instruction. An unreadable row is a separate group.
func (g *grouping) groups(window []int) (out [][]int) {
	g.of = map[int]int{}
	at := map[groupName]int{}
	for _, i := range window {
		row, err := g.table.Read(i)
		if err != nil {
			g.of[i], out = i, append(out, []int{i})
			continue
		}
		k := groupName{row.SourcesKey(), row.Instruction}
		j, ok := at[k]
		if !ok {
			j = len(out)
			at[k], out = j, append(out, nil)
		}
		out[j] = append(out[j], i)
		g.of[i] = out[j][0]
	}
	return out
}

// joined reports whether two rows of a batch are in the same group.
func (g *grouping) joined(a, b int) bool { return g.of[a] == g.of[b] }
