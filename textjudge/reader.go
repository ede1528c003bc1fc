package textjudge

import (
	"fmt"
)

// Reader reads answers by the grammar of a judge of one question, without a model.
type Reader struct {
	Name   string // the judge's
	Digest string // of the grammar
	answer Grammar
}

// OpenReader opens the grammar of a judge, by its name as in [Open].
func OpenReader(name string) (*Reader, error) {
	j, _, err := read(name, Settings{})
	if err != nil {
		return nil, err
	}
	if len(j.Config.Questions) != 1 {
		return nil, fmt.Errorf("%s: it asks %d questions: want a judge of one, whose answer is read", name,
			len(j.Config.Questions))
	}
	answer := j.Config.Questions[0].Answer
	return &Reader{Name: j.Config.Name, Digest: fmt.Sprintf("%+v", answer.values()) + answer.After, answer: answer}, nil
}

// Read reads an answer: numbers by their names, or an UnreadableError.
func (r *Reader) Read(text string) (map[string]float64, error) { return r.answer.Read(text) }
