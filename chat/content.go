package chat

import (
	"encoding/json"

	"assay/internal/strictjson"
)

// ReadMessages reads the key messages: objects of role and content, which is a text, or a list of parts, each of which
// is read by part. What is wrong is among the object's problems, where messages are counted from first. harmless are
// further keys of messages that are let pass.
func ReadMessages(
	o *strictjson.Object, first int, part func(json.RawMessage) (Part, error), harmless strictjson.Harmless,
) (messages []Message) {
	var list []json.RawMessage
	o.Get("messages", &list)
	for i, raw := range list {
		var m Message
		object, err := strictjson.Parse("message", raw)
		if err == nil {
			if object.Get("role", &m.Role); m.Role == "" {
				object.Failf("role", "it is missing: system, user or assistant")
			}
			m.Content = readContent(object, part)
			object.Close(harmless)
			err = object.Err()
		}
		if err != nil {
			o.Failf("messages", "message %d: %w", first+i, err)
		}
		messages = append(messages, m)
	}
	return messages
}

// readContent reads the key content of a message.
func readContent(o *strictjson.Object, part func(json.RawMessage) (Part, error)) (content []Part) {
	var text string
	if raw := o.Raw("content"); o.Has("content") && json.Unmarshal(raw, &text) == nil {
		return []Part{{Text: text}}
	}
	var parts []json.RawMessage
	o.Get("content", &parts)
	for _, raw := range parts {
		p, err := part(raw)
		if err != nil {
			o.Failf("content", "%w", err)
		}
		content = append(content, p)
	}
	if len(content) == 0 {
		o.Failf("content", "there is none")
	}
	return content
}
