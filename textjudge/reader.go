package textjudge

import (
	"fmt"
)

// Reader reads answers with the grammar of a single-question judge, without a model.
type Reader struct {
	Name   string // the judge's
	Digest string // of the grammar
	answer Grammar
}

// OpenReader opens the grammar of a judge, named as in [Open].
func OpenReader(name string) (*Reader, error) {
	j, _, err := read(name, Settings{})
	if err != nil {
		return nil, err
	}
	if len(j.Config.Questions) != 1 {
		return nil, fmt.Errorf("%s: the judge asks %d questions: want a judge with one question, whose answer is read", name,
			len(j.Config.Questions))
	}
	answer := j.Config.Questions[0].Answer
	return &Reader{Name: j.Config.Name, Digest: fmt.Sprintf("%+v", answer.values()) + answer.After, answer: answer}, nil
}

// Read reads an answer: numbers by name, or an UnreadableError.
func (r *Reader) Read(text string) (map[string]float64, error) { return r.answer.Read(text) }
