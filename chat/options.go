package chat

import (
	"encoding/json"
	"slices"

	"assay/internal/grammar"
	"assay/internal/strictjson"
)

// optionKeys are the keys that Read reads, in addition to the names of max_new_tokens.
var optionKeys = []string{
	"temperature", "top_k", "top_p", "repetition_penalty", "seed", "stop", "stop_token_ids", "response_format", "n",
	"best_of",
}

// Read reads the options of an answer from a JSON object. most are the keys for MaxNewTokens: tables call it
// max_new_tokens, OpenAI's protocol max_tokens and max_completion_tokens. stop is a text or a list; a null value
// counts as absent.
func (o *Options) Read(from *strictjson.Object, most ...string) {
	for _, key := range most {
		from.Opt(key, &o.MaxNewTokens)
		if from.Has(key) && o.MaxNewTokens < 1 {
			from.Failf(key, "%d must be positive", o.MaxNewTokens)
		}
	}
	from.Opt("temperature", &o.Temperature)
	from.Opt("top_k", &o.TopK)
	from.Opt("top_p", &o.TopP)
	from.Opt("repetition_penalty", &o.RepetitionPenalty)
	from.Opt("stop_token_ids", &o.StopTokenIDs)
	for _, key := range []string{"stop", "stop_token_ids"} {
		var list []json.RawMessage
		if json.Unmarshal(from.Raw(key), &list) == nil &&
			slices.ContainsFunc(list, func(raw json.RawMessage) bool { return string(raw) == "null" }) {
			from.Failf(key, "null is not allowed in the list")
		}
	}
	var below int64
	if json.Unmarshal(from.Raw("seed"), &below) == nil && below < 0 {
		from.Failf("seed", "%d must not be negative", below)
	} else {
		from.Opt("seed", &o.Seed)
	}
	var one string
	if raw := from.Raw("stop"); from.Has("stop") && json.Unmarshal(raw, &one) == nil {
		o.Stop = []string{one}
	} else {
		from.Opt("stop", &o.Stop)
	}
	o.readFormat(from)
}

// readFormat reads response_format as in OpenAI's protocol: text, or json_schema.
func (o *Options) readFormat(from *strictjson.Object) {
	format := from.Sub("response_format")
	if format == nil {
		return
	}
	var kind string
	switch format.Get("type", &kind); kind {
	case "text":
	case "json_schema":
		s := format.Sub("json_schema")
		if s == nil || !s.Has("schema") {
			format.Failf("json_schema", "missing: want an object with a schema")
			break
		}
		g, err := grammar.FromSchema(s.Raw("schema"), true)
		if err != nil {
			s.Failf("", "%w", err)
		}
		s.Close(strictjson.Harmless{"name": nil, "description": nil, "strict": nil})
		o.Grammar = g
	default:
		format.Failf("type", "%q is not supported; text and json_schema are", kind)
	}
	format.Close()
}

// Given returns the keys of Read that an object has.
func Given(from *strictjson.Object, most ...string) (keys []string) {
	for _, key := range append(most, optionKeys...) {
		if from.Has(key) {
			keys = append(keys, key)
		}
	}
	return keys
}

// ReadMessages reads the key messages: objects with role and content, which is a text or a list of parts that part
// reads. Problems are added to the object's problems, with messages counted from first. harmless are further keys of
// messages that are accepted.
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
				object.Failf("role", "missing: want system, user or assistant")
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
		o.Failf("content", "empty")
	}
	return content
}
