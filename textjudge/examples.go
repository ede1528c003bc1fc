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

// OpenExamples opens a judge without a model, for [Judge.Example]; name is as in [Open]. The judge must ask one
// question about single edits of all kinds, show only pictures of the item, and have a choice as its answer.
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
		err = fmt.Errorf("it shows pictures of its own, but examples can only show pictures of the items")
	case len(j.Choices()) == 0:
		err = fmt.Errorf("examples need a judge whose answer is a choice of words (choice)")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return j, nil
}

// Choices returns the choices that the judge accepts as the answer to its question, sorted.
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

// Example returns a conversation: the judge's question about an item and the right answer, one of its choices. A
// model trained on it (train with mode: text) is asked exactly the same later. It is a line of a .jsonl file without
// the line break. Pictures are paths by role.
func (j *Judge) Example(id, instruction string, pictures map[string]string, answer string) ([]byte, error) {
	if words := j.Choices(); !slices.Contains(words, answer) {
		return nil, fmt.Errorf("answer %q: the judge accepts %s", answer, strings.Join(words, ", "))
	}
	// Empty pictures stand in for the paths, so that the judge's own code builds the messages.
	shown := &edit.Views{Edit: &edit.Edit{Instruction: instruction}, ByRole: map[string]*data.Picture{}}
	paths := map[*data.Picture]string{}
	roles, err := j.shown("")
	if err != nil {
		return nil, err
	}
	for _, role := range roles {
		if pictures[role] == "" {
			return nil, fmt.Errorf("%w: no picture %q", chat.ErrRequest, role)
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
