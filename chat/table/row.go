package table

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/chat"
	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/strictjson"
)

// Row is a line of a table: a conversation, and how it is to be answered.
type Row struct {
	ID       json.RawMessage // as it stands there; nil: there is none
	Messages []chat.Message  // their pictures are empty until they are opened
	Options  chat.Options
	Several  chat.Several
	Given    []string     // the keys that say how it is to be answered
	Pictures []data.Image // of the messages, in order; opened when the row's turn comes
}

// parse reads a line. Every key is understood or refused.
func parse(line []byte) (*Row, error) {
	// encoding/json takes the last of two keys, and puts U+FFFD for what is no character
	if _, err := jsontext.NewDecoder(bytes.NewReader(line)).ReadValue(); err != nil {
		return &Row{ID: idOf(line)}, fmt.Errorf("row: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	o, err := strictjson.Parse("row", line)
	if err != nil {
		return nil, err
	}
	r := &Row{ID: o.Raw("id"), Options: chat.Options{LogProbs: true}, Given: chat.Given(o, "max_new_tokens")}
	r.Options.Read(o, "max_new_tokens")
	r.Several.Read(o, r.Options)
	var messages []json.RawMessage
	o.Get("messages", &messages)
	if len(messages) == 0 {
		o.Failf("messages", "there are none")
	}
	for i, raw := range messages {
		m, err := r.message(raw)
		if err != nil {
			o.Failf("messages", "message %d: %w", i+1, err)
		}
		r.Messages = append(r.Messages, m)
	}
	o.Close()
	return r, o.Err()
}

// idOf is the id of a row that is refused as a whole; nil where it has none that can be told.
func idOf(line []byte) json.RawMessage {
	var row map[string]json.RawMessage
	if json.Unmarshal(line, &row) != nil {
		return nil
	}
	if _, err := jsontext.NewDecoder(bytes.NewReader(row["id"])).ReadValue(); err != nil {
		return nil
	}
	return row["id"]
}

// message reads {role, content}; content is a text, or a list of texts and pictures.
func (r *Row) message(raw json.RawMessage) (m chat.Message, err error) {
	o, err := strictjson.Parse("message", raw)
	if err != nil {
		return m, err
	}
	o.Get("role", &m.Role)
	if m.Role == "" {
		o.Failf("role", "it is missing: system, user or assistant")
	}
	m.Content = chat.ReadContent(o, r.part)
	o.Close()
	return m, o.Err()
}

// Line is a row of a conversation, without the line's end. paths has the pictures' paths. An empty id is left out.
func Line(id string, messages []chat.Message, paths map[*data.Picture]string) ([]byte, error) {
	type message struct {
		Role    string `json:"role"`
		Content any    `json:"content"`
	}
	var all []message
	for _, m := range messages {
		var parts []map[string]string
		for _, p := range m.Content {
			if p.Image != nil {
				parts = append(parts, map[string]string{"type": "image", "image": paths[p.Image]})
			} else {
				parts = append(parts, map[string]string{"type": "text", "text": p.Text})
			}
		}
		if len(parts) == 1 && m.Content[0].Image == nil {
			all = append(all, message{m.Role, m.Content[0].Text})
		} else {
			all = append(all, message{m.Role, parts})
		}
	}
	row := map[string]any{"messages": all}
	if id != "" {
		row["id"] = id
	}
	return json.Marshal(row)
}

// part reads {"type": "text", "text": ...} or {"type": "image", "image": PATH}.
func (r *Row) part(raw json.RawMessage) (p chat.Part, err error) {
	o, err := strictjson.Parse("part", raw)
	if err != nil {
		return p, err
	}
	kind := ""
	switch o.Get("type", &kind); kind {
	case "text":
		if o.Get("text", &p.Text); !o.Has("text") {
			o.Failf("text", "it is missing")
		}
	case "image":
		var image data.Image
		o.Get("image", &image.Path)
		if image.IsZero() {
			o.Failf("image", "a path is wanted, relative to the table's folder")
		}
		p.Image = &data.Picture{} // in its place, until it is opened
		r.Pictures = append(r.Pictures, image)
	default:
		o.Failf("type", "%q is not supported; text and image are", kind)
	}
	o.Close()
	return p, o.Err()
}

// open reads the pictures.
func (r *Row) open(folder string) error {
	next := 0
	for i := range r.Messages {
		for k := range r.Messages[i].Content {
			part := &r.Messages[i].Content[k]
			if part.Image == nil {
				continue
			}
			p, err := r.Pictures[next].Open(folder, data.Limits{})
			if err != nil {
				return err
			}
			part.Image, next = p, next+1
		}
	}
	return nil
}

// Answer is a line of the output: an answer, or an error.
type Answer struct {
	ID            json.RawMessage `json:"id"`
	Text          *string         `json:"text,omitempty"`
	TokenIDs      []int64         `json:"token_ids,omitempty"`
	TokenLogProbs []float64       `json:"token_logprobs,omitempty"`
	FinishReason  string          `json:"finish_reason,omitempty"`
	Choices       []Choice        `json:"choices,omitempty"` // of a row that wants several; the first one is the answer
	Error         string          `json:"error,omitempty"`
}

// Choice is one of several answers to a row. Its index, added to the row's seed, is the seed that gives it alone.
type Choice struct {
	Index         int       `json:"index"`
	Text          string    `json:"text"`
	TokenIDs      []int64   `json:"token_ids,omitempty"`
	TokenLogProbs []float64 `json:"token_logprobs,omitempty"`
	FinishReason  string    `json:"finish_reason"`
}

// set puts the answers to a row in.
func (a *Answer) set(choices []chat.Choice, s chat.Several) {
	first := choices[0]
	a.Text, a.TokenIDs, a.TokenLogProbs, a.FinishReason = &first.Text, first.TokenIDs, first.LogProbs, first.Finish
	if s.Made() == 1 {
		return
	}
	for _, c := range choices {
		a.Choices = append(a.Choices, Choice{c.Index, c.Text, c.TokenIDs, c.LogProbs, c.Finish})
	}
}

// format refuses outputs and inputs that are no JSON lines: messages fit no flat table.
func format(path string) error {
	if ext := filepath.Ext(path); ext != ".jsonl" && ext != ".ndjson" {
		return errors.New(path + ": a .jsonl file is wanted")
	}
	return nil
}

// notOneFile refuses answers in the place of the questions, which they would replace.
func notOneFile(in, out string) error {
	for _, name := range []string{out, out + ".progress"} {
		if atomicfile.Same(in, name) {
			return fmt.Errorf("%s is the table of questions, %s: its rows would be lost; choose another file", name, in)
		}
	}
	return nil
}
