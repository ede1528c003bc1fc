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
	"assay/internal/strictjson"
)

// Row is a line of a table: a conversation and the options of its answer.
type Row struct {
	ID       json.RawMessage // as written; nil: none
	Messages []chat.Message  // their pictures are empty until they are opened
	Options  chat.Options
	Several  chat.Several
	Given    []string     // the keys of options that the line has
	Pictures []data.Image // of the messages, in order; opened when the row is processed

	Columns map[string]json.RawMessage // further columns that were requested
}

// parse reads a line with further columns. Unknown keys are refused.
func parse(line []byte, columns ...string) (*Row, error) {
	// encoding/json takes the last of duplicate keys, and replaces invalid characters with U+FFFD
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
	if r.Messages = chat.ReadMessages(o, 1, r.part, nil); len(r.Messages) == 0 {
		o.Failf("messages", "empty")
	}
	for _, name := range columns {
		raw := o.Raw(name)
		if !o.Has(name) {
			o.Failf(name, "missing")
			continue
		}
		if r.Columns == nil {
			r.Columns = map[string]json.RawMessage{}
		}
		r.Columns[name] = raw
	}
	o.Close()
	return r, o.Err()
}

// idOf returns the id of a row that is refused as invalid JSON; nil if it has no readable id.
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

// Line returns the row of a conversation, without the line break. paths holds the pictures' paths. An empty id is
// left out.
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
			o.Failf("text", "missing")
		}
	case "image":
		var image data.Image
		o.Get("image", &image.Path)
		if image.IsZero() {
			o.Failf("image", "want a path, relative to the table's folder")
		}
		p.Image = &data.Picture{} // a placeholder until it is opened
		r.Pictures = append(r.Pictures, image)
	default:
		o.Failf("type", "%q is not supported; text and image are", kind)
	}
	o.Close()
	return p, o.Err()
}

// OpenPictures reads the pictures of a row.
func (r *Row) OpenPictures(folder string) error { return r.open(folder) }

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
	ID           json.RawMessage `json:"id"`
	*chat.Answer                 // nil: an error
	Choices      []chat.Choice   `json:"choices,omitempty"` // of a row that asks for several; the first is the answer
	Error        string          `json:"error,omitempty"`
}

// format refuses inputs and outputs that are not JSON lines: messages do not fit a flat table.
func format(path string) error {
	if ext := filepath.Ext(path); ext != ".jsonl" && ext != ".ndjson" {
		return errors.New(path + ": want a .jsonl file")
	}
	return nil
}
