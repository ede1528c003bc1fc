package grammar

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Limits of a schema. A schema within them is compiled, and its first mask computed, in about a second
// (docs/chat.md).
const (
	maxBytes    = 128 << 10 // of the schema's text
	maxDepth    = 64        // nested schemas
	maxSchemas  = 5000      // schemas and values of enum in total; a $ref's target counts each time
	maxOpen     = 64        // alternatives that a text may be in at the same time
	maxShortest = 1 << 24   // bytes of the shortest text of an array
)

// measure refuses a schema that exceeds the limits. Invalid schemas are left to the compiler.
func measure(raw json.RawMessage) error {
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return fmt.Errorf("schema: %w", err)
	}
	m := &meter{inside: map[string]bool{}}
	m.root, _ = root.(map[string]any)
	_, err := m.schema(root, 1)
	return err
}

// tooLarge refuses the text of a schema before it is read.
func tooLarge(raw json.RawMessage) error {
	if len(raw) > maxBytes {
		return fmt.Errorf("schema: %d bytes, at most %d are supported: make it shorter", len(raw), maxBytes)
	}
	return nil
}

// meter counts the parts of a schema.
type meter struct {
	root   map[string]any
	inside map[string]bool // references that are being followed
	n      int             // schemas and values
}

// add counts n more.
func (m *meter) add(n int) error {
	if m.n += n; m.n > maxSchemas {
		return fmt.Errorf("schema: more than %d schemas and values of enum (a $ref's target counts each time): split "+
			"the question, or leave some out", maxSchemas)
	}
	return nil
}

// schema counts a schema and returns how many of its alternatives a text may be in at the same time.
func (m *meter) schema(v any, depth int) (open int, err error) {
	if depth > maxDepth {
		return 0, fmt.Errorf("schema: more than %d nested schemas: make it flatter", maxDepth)
	}
	if err := m.add(1); err != nil {
		return 0, err
	}
	o, _ := v.(map[string]any)
	open = 1
	if types, ok := o["type"].([]any); ok {
		if err := m.add(len(types)); err != nil {
			return 0, err
		}
	}
	if list, ok := o["enum"].([]any); ok {
		if err := m.add(len(list)); err != nil {
			return 0, err
		}
	}
	if name, ok := o["$ref"].(string); ok && !m.inside[name] {
		m.inside[name] = true
		defer delete(m.inside, name)
		if open, err = m.schema(m.named(name), depth+1); err != nil {
			return 0, err
		}
	}
	parts, _ := o["properties"].(map[string]any) // a text is in one of them at a time
	for _, part := range parts {
		in, err := m.schema(part, depth+1)
		if err != nil {
			return 0, err
		}
		open = max(open, in)
	}
	if item, ok := o["items"]; ok {
		in, err := m.schema(item, depth+1)
		if err != nil {
			return 0, err
		}
		open = max(open, in)
	}
	list, _ := o["anyOf"].([]any)
	all := 0
	for _, part := range list {
		in, err := m.schema(part, depth+1)
		if err != nil {
			return 0, err
		}
		all += in
	}
	if open = max(open, all); open > maxOpen {
		return 0, fmt.Errorf("schema: anyOf has %d alternatives, nested ones included, and at most %d are "+
			"supported: join some, or use enum", open, maxOpen)
	}
	return open, nil
}

// named returns the schema that a reference names; nil: none.
func (m *meter) named(name string) any {
	for _, place := range []string{"$defs", "definitions"} {
		if key, ok := strings.CutPrefix(name, "#/"+place+"/"); ok {
			defs, _ := m.root[place].(map[string]any)
			return defs[key]
		}
	}
	return nil
}
