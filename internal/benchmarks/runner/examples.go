package runner

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"assay/internal/atomicfile"
	"assay/internal/benchmarks/protocol"
	"assay/textjudge"
)

// WriteExamples writes a conversation about each item, with the question of a judge and the correct answer, as training
// rows for train (mode: text). Picture paths are relative to the file's folder.
func WriteExamples(path string, set protocol.Teachable, e *textjudge.Judge) (n int, err error) {
	items, err := set.Items()
	if err != nil {
		return 0, err
	}
	if len(items) == 0 {
		return 0, errors.New("there are no items to write examples from")
	}
	words := e.Choices()
	return len(items), atomicfile.Write(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i, item := range items {
			answer, err := set.Answer(i, words)
			if err != nil {
				return fmt.Errorf("%v: %w", protocol.ItemKey(item), err)
			}
			pictures := map[string]string{}
			for _, role := range []string{"source", "edit"} {
				p := protocol.PictureOf(item, role)
				if p.Path == "" {
					continue
				}
				if pictures[role], err = atomicfile.From(filepath.Dir(path), p.Path); err != nil {
					return err
				}
			}
			line, err := e.Example(item.ID, item.Instruction, pictures, answer)
			if err != nil {
				return fmt.Errorf("%v: %w", protocol.ItemKey(item), err)
			}
			b.Write(append(line, '\n')) // Flush returns its error
		}
		return b.Flush()
	})
}
