package textjudge

import (
	"errors"
	"fmt"
	"slices"

	"assay/chat"
	"assay/chat/table"
	"assay/data"
	"assay/internal/store"
)

// fewShot holds the examples that a judge shows before its question: for each, a question about its own pictures and
// the right answer.
type fewShot struct {
	turns    []chat.Message
	pictures map[store.Key]string // the example that shows a picture, by the picture's digest
}

// ExamError reports that a judge is asked about a picture whose right answer it was shown.
type ExamError struct{ Example string }

func (e *ExamError) Error() string {
	return fmt.Sprintf("the picture belongs to an example (%s), which the judge is shown with its right answer: use "+
		"examples whose pictures are not in the exam", e.Example)
}

// readFewShot picks n conversations from a table, as [Judge.Example] writes them: one of each answer in turn, in the
// order of the table. They are the same for every question.
func (j *Judge) readFewShot(path string, n int) (parts []string, err error) {
	if len(j.Config.Questions) != 1 || j.Config.Pair {
		return nil, errors.New("examples are for judges of single edits with one question")
	}
	t, err := table.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, t.Close()) }()
	chosen, err := j.chooseShots(t, n)
	if err != nil {
		return nil, err
	}
	j.few = &fewShot{pictures: map[store.Key]string{}}
	for _, i := range chosen {
		row, err := t.Read(i)
		if err == nil {
			err = row.OpenPictures(t.Folder())
		}
		if err != nil {
			return nil, err
		}
		for _, m := range row.Messages {
			parts = append(parts, m.Role)
			for _, p := range m.Content {
				if parts = append(parts, p.Text); p.Image != nil {
					digest := store.Key(p.Image.Digest())
					j.few.pictures[digest] = fmt.Sprintf("%s, row %d", path, i+1)
					parts = append(parts, digest.String())
				}
			}
		}
		j.few.turns = append(j.few.turns, row.Messages...)
	}
	j.Config.Name += fmt.Sprintf(", %d examples", n)
	return parts, nil
}

// chooseShots returns the rows of n examples. Each must be one question and an answer that the grammar reads.
func (j *Judge) chooseShots(t *table.Conversations, n int) (chosen []int, err error) {
	byAnswer, answers := map[string][]int{}, []string(nil)
	for i := range t.Len() {
		row, err := t.Read(i)
		if err != nil {
			return nil, err
		}
		m := row.Messages
		if len(m) != 2 || m[0].Role != "user" || m[1].Role != "assistant" || len(m[1].Content) != 1 {
			return nil, fmt.Errorf("%s, row %d: want one question and one answer", t.Path(), i+1)
		}
		text := m[1].Content[0].Text
		if _, err := j.Config.Questions[0].Answer.Read(text); err != nil {
			return nil, fmt.Errorf("%s, row %d: the judge cannot read the answer %q: %w", t.Path(), i+1, text, err)
		}
		if byAnswer[text] == nil {
			answers = append(answers, text)
		}
		byAnswer[text] = append(byAnswer[text], i)
	}
	slices.Sort(answers)
	for round := 0; len(chosen) < n; round++ {
		before := len(chosen)
		for _, text := range answers {
			if round < len(byAnswer[text]) && len(chosen) < n {
				chosen = append(chosen, byAnswer[text][round])
			}
		}
		if len(chosen) == before {
			return nil, fmt.Errorf("%s has %d examples, want %d", t.Path(), len(chosen), n)
		}
	}
	return chosen, nil
}

// before returns the turns before a question that shows pictures; its error is an ExamError if one of the pictures
// belongs to an example.
func (f *fewShot) before(pictures map[string]*data.Picture) ([]chat.Message, error) {
	if f == nil {
		return nil, nil
	}
	for _, p := range pictures {
		if example, ok := f.pictures[store.Key(p.Digest())]; ok {
			return nil, &ExamError{example}
		}
	}
	return slices.Clone(f.turns), nil
}
