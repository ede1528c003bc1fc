package miniature

import (
	"fmt"
	"strings"
)

// about is the README of a data set: what is in it, and where it came from.
func (w *World) about(set Set, s *Summary) string {
	var names, weak, strong []string
	for _, p := range w.Photos {
		names = append(names, p.Name)
	}
	for _, e := range Editors {
		switch {
		case e.Weak:
			weak = append(weak, e.Name)
		case e.Strong:
			strong = append(strong, e.Name)
		}
	}
	ext := ".jsonl"
	if set.Embed {
		ext = ".parquet"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# A miniature world of edits\n\nWritten by `label miniature` from the photographs %s with seed %d: %d instructions with %d outputs, %d chains; pictures of %d x %d pixels.\n\n",
		strings.Join(names, ", "), set.Seed, s.Instructions, s.Outputs, s.Chains, w.Size, w.Size)
	fmt.Fprintf(&b, "- `%s%s`: one row per output: id, group, photo, source, edit, target, instruction, source_caption, target_caption, method.\n", EditsTable, ext)
	if set.Chains > 0 {
		fmt.Fprintf(&b, "- `%s%s`: one row per turn of a chain: img_id, turn_index, source_img, target_img, instruction, source_caption, target_caption, photo.\n", ChainsTable, ext)
	}
	fmt.Fprintf(&b, "- `%s`: the true degree of success of every output and of every picture of a chain. Not for training.\n", TruthFile)
	if !set.Embed {
		fmt.Fprintf(&b, "- `%s/`: PNG files.\n", picturesFolder)
	}
	b.WriteString("\n")
	if set.Exam {
		b.WriteString("It is an exam: every instruction has one output of each kind, under names that do not tell which.\n")
	} else {
		fmt.Fprintf(&b, "Weak editors: %s. Strong editors: %s. A configuration for `label`:\n\n", strings.Join(weak, ", "), strings.Join(strong, ", "))
		fmt.Fprintf(&b, "    sources:\n      - {layout: table, path: %s%s, name: edits, columns: {id: group}}\n", EditsTable, ext)
		if set.Chains > 0 {
			fmt.Fprintf(&b, "      - {layout: magicbrush, path: %s%s, name: chains, chains: true}\n", ChainsTable, ext)
		}
		fmt.Fprintf(&b, "    rules: {weak: [%s], strong: [%s]}\n", strings.Join(weak, ", "), strings.Join(strong, ", "))
	}
	return b.String()
}
