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

// Examples makes conversations of a judge's question and its right answer: what a model is trained on, by train with
// mode: text, to be asked the very same later.
type Examples struct{ judge *Judge }

// OpenExamples opens a judge, as [Open], without a model. It must ask one question, once, about pictures of the item
// alone, and its answer must be one of some words.
func OpenExamples(name string, s Settings) (*Examples, error) {
	j, _, err := read(name, s)
	if err != nil {
		return nil, err
	}
	c, e := &j.Config, &Examples{j}
	switch {
	case len(c.Questions) != 1 || c.Pair || len(c.Kinds) > 0:
		err = fmt.Errorf("examples need a judge of single edits with one question, for all kinds of edits")
	case len(j.files) > 0:
		err = fmt.Errorf("it shows pictures of its own: examples name those of the items alone")
	case len(e.Words()) == 0:
		err = fmt.Errorf("examples need a judge whose answer is one of some words (choice)")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return e, nil
}

// Words are the answers that the judge reads, sorted.
func (e *Examples) Words() (words []string) {
	answer := &e.judge.Config.Questions[0].Answer
	for _, v := range answer.values() {
		for _, word := range slices.Sorted(maps.Keys(v.Choice)) {
			if n, err := answer.Read(word); err == nil && n[v.As] == v.Choice[word] {
				words = append(words, word)
			}
		}
	}
	return words
}

// Warnings are of prompts that are not the published ones.
func (e *Examples) Warnings() []string { return e.judge.Warnings }

// Line is the conversation about an item, a line of a .jsonl file without its end. Pictures are paths by role; the
// answer is one of the words.
func (e *Examples) Line(id, instruction string, pictures map[string]string, answer string) ([]byte, error) {
	if words := e.Words(); !slices.Contains(words, answer) {
		return nil, fmt.Errorf("the answer %q: the judge reads %s", answer, strings.Join(words, ", "))
	}
	// The pictures stand for their paths: what is asked is made where the judge makes it.
	shown := &request{&edit.Edit{Instruction: instruction}, map[string]*data.Picture{}}
	paths := map[*data.Picture]string{}
	roles, err := e.judge.shown("")
	if err != nil {
		return nil, err
	}
	for _, role := range roles {
		if pictures[role] == "" {
			return nil, fmt.Errorf("%w: there is no picture %q", chat.ErrRequest, role)
		}
		shown.pictures[role] = &data.Picture{}
		paths[shown.pictures[role]] = pictures[role]
	}
	asked, err := e.judge.messages(0, shown)
	if err != nil {
		return nil, err
	}
	said := chat.Message{Role: "assistant", Content: []chat.Part{{Text: answer}}}
	return table.Line(id, append(asked, said), paths)
}
