package chat

import (
	"encoding/json"

	"assay/internal/strictjson"
)

// ReadContent reads the key content of a message: a text, or a list of parts, each of which is read by part. What is
// wrong is among the object's problems.
func ReadContent(o *strictjson.Object, part func(json.RawMessage) (Part, error)) (content []Part) {
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
