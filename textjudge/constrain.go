package textjudge

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"assay/chat"
	"assay/internal/grammar"
)

// languages returns, by question, the language that answers must belong to in order to be readable.
func (c *Config) languages(m chat.Model) (all []*grammar.Grammar, err error) {
	for i := range c.Questions {
		q := &c.Questions[i]
		g, err := q.Answer.language()
		if err == nil {
			err = chat.Follows(m, g)
		}
		if err != nil {
			return nil, fmt.Errorf("constrained: question %s: %w", q.Name, err)
		}
		all = append(all, g)
	}
	return all, nil
}

// language returns a language whose every text Read accepts. Objects have all of their keys and no others, in any
// order; numbers, whitespace and spellings are as in [grammar.FromSchema].
func (g *Grammar) language() (*grammar.Grammar, error) {
	if g.Lines != nil || g.After != "" || g.Tag != "" {
		return nil, fmt.Errorf("its answer is %s, with free text around it", g.spoken())
	}
	v := g.Value
	if v == nil {
		schemas := map[string]any{}
		for key, value := range g.Object {
			schemas[key] = value.schema()
		}
		return ofSchema(map[string]any{"type": "object", "properties": schemas, "additionalProperties": false,
			"required": slices.Sorted(maps.Keys(g.Object))})
	}
	choices := v.words()
	if len(choices) == 0 {
		return ofSchema(v.schema())
	}
	if v.Within {
		return grammar.Within(choices...)
	}
	var texts []string
	for _, choice := range choices {
		for _, text := range []string{choice, choice + "."} {
			if _, err := g.Read(text); err == nil {
				texts = append(texts, text)
			}
		}
	}
	return grammar.Choice(texts...)
}

func ofSchema(schema map[string]any) (*grammar.Grammar, error) {
	raw, err := json.Marshal(schema) // map keys are sorted
	if err != nil {
		return nil, err
	}
	return grammar.FromSchema(raw, false)
}

// schema returns the JSON schema of a value.
func (v *Value) schema() map[string]any {
	number := map[string]any{"type": "number"}
	if len(v.Range) == 2 {
		number["minimum"], number["maximum"] = v.Range[0], v.Range[1]
	}
	switch {
	case len(v.List) > 0:
		return map[string]any{"type": "array", "items": number, "minItems": len(v.List), "maxItems": len(v.List)}
	case v.Number != "":
		return number
	case v.Text:
		return map[string]any{"type": "string"}
	}
	var words []any
	for _, word := range v.words() {
		if words = append(words, word); bareWord(word) {
			words = append(words, json.RawMessage(word))
		}
	}
	return map[string]any{"enum": words}
}

// bareWord reports whether a choice may also appear in JSON without quotes: 1 for the choice '1'.
func bareWord(word string) bool {
	var v any
	if strings.TrimSpace(word) != word || json.Unmarshal([]byte(word), &v) != nil {
		return false
	}
	switch v.(type) {
	case float64, bool:
		return true
	}
	return false
}
