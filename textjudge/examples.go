package textjudge

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/chat"
	"assay/chat/table"
	"assay/data"
	"assay/edit"
)

// OpenExamples opens a judge, as [Open], without a model, for [Judge.Example]. It must ask one question, once, about
// pictures of the item alone, and its answer must be one of some words.
func OpenExamples(name string, s Settings) (*Judge, error) {
	j, _, err := read(name, s)
	if err != nil {
		return nil, err
	}
	c := &j.Config
	switch {
	case len(c.Questions) != 1 || c.Pair || len(c.Kinds) > 0:
		err = fmt.Errorf("examples need a judge of single edits with one question, for all kinds of edits")
	case len(j.files) > 0:
		err = fmt.Errorf("it shows pictures of its own: examples name those of the items alone")
	case len(j.Choices()) == 0:
		err = fmt.Errorf("examples need a judge whose answer is one of some words (choice)")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return j, nil
}

// Choices are the answers of some words that the judge reads to its question, sorted.
func (j *Judge) Choices() (words []string) {
	answer := &j.Config.Questions[0].Answer
	for _, v := range answer.values() {
		for _, word := range slices.Sorted(maps.Keys(v.Choice)) {
			if n, err := answer.Read(answer.say(word)); err == nil && n[v.As] == v.Choice[word] {
				words = append(words, word)
			}
		}
	}
	return words
}

// Example is a conversation of the judge's question about an item and its right answer, one of its choices. A model is
// trained on it, by train with mode: text, to be asked the very same later. It is a line of a .jsonl file without its
// end. Pictures are paths by role.
func (j *Judge) Example(id, instruction string, pictures map[string]string, answer string) ([]byte, error) {
	if words := j.Choices(); !slices.Contains(words, answer) {
		return nil, fmt.Errorf("the answer %q: the judge reads %s", answer, strings.Join(words, ", "))
	}
	// The pictures stand for their paths: what is asked is made where the judge makes it.
	shown := &edit.Views{Edit: &edit.Edit{Instruction: instruction}, ByRole: map[string]*data.Picture{}}
	paths := map[*data.Picture]string{}
	roles, err := j.shown("")
	if err != nil {
		return nil, err
	}
	for _, role := range roles {
		if pictures[role] == "" {
			return nil, fmt.Errorf("%w: there is no picture %q", chat.ErrRequest, role)
		}
		shown.ByRole[role] = &data.Picture{}
		paths[shown.ByRole[role]] = pictures[role]
	}
	asked, err := j.messages(0, shown)
	if err != nil {
		return nil, err
	}
	said := j.Config.Questions[0].Answer.say(answer)
	turn := chat.Message{Role: "assistant", Content: []chat.Part{{Text: said}}}
	return table.Line(id, append(asked, turn), paths)
}
