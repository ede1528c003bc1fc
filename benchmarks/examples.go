package benchmarks

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/atomicfile"
	"assay/textjudge"
)

// Teachable is a Scorable whose items have right answers in words, from which a model can learn them.
type Teachable interface {
	Scorable
	// Answer is the one of some words that the benchmark's rule reads as the truth of an item, by its place in Items.
	Answer(i int, words []string) (string, error)
}

// WriteExamples writes a conversation about each item, with the question of a judge and the right answer, as rows that
// train (mode: text) learns from. Paths of pictures start at the file's folder.
func WriteExamples(path string, set Teachable, e *textjudge.Examples) (n int, err error) {
	items, err := set.Items()
	if err != nil {
		return 0, err
	}
	if len(items) == 0 {
		return 0, errors.New("there is nothing to learn from")
	}
	words := e.Words()
	return len(items), atomicfile.Write(path, func(w io.Writer) error {
		b := bufio.NewWriter(w)
		for i, item := range items {
			answer, err := set.Answer(i, words)
			if err != nil {
				return fmt.Errorf("%v: %w", item.Key, err)
			}
			pictures := map[string]string{}
			for role, p := range map[string]Picture{"source": item.Source, "edit": item.Edit} {
				if p.Path == "" {
					continue
				}
				if pictures[role], err = atomicfile.From(filepath.Dir(path), p.Path); err != nil {
					return err
				}
			}
			line, err := e.Line(item.ID, item.Instruction, pictures, answer)
			if err != nil {
				return fmt.Errorf("%v: %w", item.Key, err)
			}
			b.Write(append(line, '\n')) // its error comes with Flush
		}
		return b.Flush()
	})
}

// Answer implements Teachable.
func (s *statements) Answer(i int, words []string) (string, error) {
	read := slices.DeleteFunc(slices.Clone(words), func(word string) bool { return parseKeyword(word) != s.label[i] })
	if len(read) != 1 {
		return "", fmt.Errorf("the statement is %s: one answer that says so was expected among the judge's %s",
			s.label[i], strings.Join(words, ", "))
	}
	return read[0], nil
}
