package guard

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"assay/data"
)

// tablePictures calls add for every picture inside a table, including lists and objects. Pictures that a table refers
// to by path are found as files.
func tablePictures(ctx context.Context, path string, add func(string, data.Image)) error {
	if info, err := os.Stat(path); err != nil || info.Size() == 0 {
		return err
	}
	t, err := data.OpenTable(path, data.WithRequired())
	if err != nil {
		return err
	}
	defer t.Close()
	row := 0
	for rec, err := range t.Records() {
		row++
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		for _, f := range rec.Fields {
			name := fmt.Sprintf("%s: row %d, %s", path, row, f.Name)
			inside(f.Value, func(m data.Image) { add(name, m) })
		}
	}
	return nil
}

// inside calls add for every picture in a cell: binary data, objects with bytes, base64 in text, and all of these in
// lists and objects.
func inside(v any, add func(data.Image)) {
	if raw, ok := v.(json.RawMessage); ok {
		v = fromJSON(raw)
	}
	switch v := v.(type) {
	case string:
		inText(v, add)
	case []any:
		if m, ok := byteList(v); ok {
			add(m)
			return
		}
		for _, one := range v {
			inside(one, add)
		}
	case data.Record:
		if m, err := data.ToImage(v); err == nil {
			if len(m.Bytes) > 0 {
				add(m)
			}
			return
		}
		for _, f := range v.Fields {
			inside(f.Value, add)
		}
	default:
		if m, err := data.ToImage(v); err == nil && len(m.Bytes) > 0 {
			add(m)
		}
	}
}

// fromJSON returns text, lists and objects, which may contain pictures; nil for anything else.
func fromJSON(raw json.RawMessage) any {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil
	}
	switch raw[0] {
	case '"':
		var s string
		if json.Unmarshal(raw, &s) == nil {
			return s
		}
	case '[':
		var list []json.RawMessage
		if json.Unmarshal(raw, &list) == nil {
			out := make([]any, len(list))
			for i, v := range list {
				out[i] = v
			}
			return out
		}
	case '{':
		var r data.Record
		if json.Unmarshal(raw, &r) == nil {
			return r
		}
	}
	return nil
}

// inText calls add for every picture in text: text that is base64, data URLs anywhere, and JSON.
func inText(s string, add func(data.Image)) {
	s = strings.TrimSpace(s)
	if s == "" {
		return
	}
	if s[0] == '[' || s[0] == '{' {
		inside(fromJSON(json.RawMessage(s)), add)
	}
	const url = "data:image/"
	if !strings.Contains(s, url) {
		if rest, ok := strings.CutPrefix(s, "data:"); ok {
			_, s, _ = strings.Cut(rest, ",")
		}
		if m, ok := base64Picture(s); ok {
			add(m)
		}
		return
	}
	for _, part := range strings.Split(s, url)[1:] {
		if _, text, ok := strings.Cut(part, "base64,"); ok {
			if end := strings.IndexAny(text, "\"'<>() "); end >= 0 {
				text = text[:end]
			}
			if m, ok := base64Picture(text); ok {
				add(m)
			}
		}
	}
}

// heads are the first characters of pictures in base64: PNG, JPEG, WebP, GIF, TIFF.
var heads = []string{"iVBORw0KG", "/9j/", "UklGR", "R0lGOD", "SUkqA", "TU0AK"}

// base64Picture reads a picture in base64: either alphabet, with or without padding and line breaks. Text that only
// starts like a picture is returned as far as it is readable, so that opening it reports the error.
func base64Picture(s string) (m data.Image, ok bool) {
	s = strings.TrimSpace(s)
	const head = 64 // nearly all other text is recognized by its first characters
	if len(s) < head || strings.Contains(s[:head], " ") {
		return m, false
	}
	s = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", "\t", "", "=", "").Replace(s)
	if len(s) < head {
		return m, false
	}
	if _, err := base64.RawStdEncoding.DecodeString(s[:head]); err != nil {
		return m, false
	}
	raw, broken := base64.RawStdEncoding.DecodeString(s)
	_, _, err := data.Size(raw, data.Limits{})
	like := slices.ContainsFunc(heads, func(h string) bool { return strings.HasPrefix(s, h) })
	switch {
	case broken == nil && err == nil:
		return data.Image{Bytes: raw}, true
	case like || err == nil: // a truncated or damaged picture
		return data.Image{Bytes: raw[:min(len(raw), 1<<10)]}, true
	}
	return m, false
}

// byteList returns a list of numbers as bytes, if all are bytes and they form a picture.
func byteList(list []any) (m data.Image, ok bool) {
	if len(list) < 64 {
		return m, false
	}
	raw := make([]byte, len(list))
	for i, v := range list {
		text, isRaw := v.(json.RawMessage)
		n, err := strconv.ParseUint(string(bytes.TrimSpace(text)), 10, 8)
		if !isRaw || err != nil {
			return m, false
		}
		raw[i] = byte(n)
	}
	if _, _, err := data.Size(raw, data.Limits{}); err != nil {
		return m, false
	}
	return data.Image{Bytes: raw}, true
}
