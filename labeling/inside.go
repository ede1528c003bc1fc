package labeling

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"assay/data"
)

// What the guard looks for in folders, by the ends of names.
var (
	// Picture files, also of formats that are not read: that is said of each of them.
	pictureFile = names(".png .jpg .jpeg .webp .gif .bmp .tif .tiff .avif .heic .heif .jp2 .jxl")
	// Tables that may hold pictures.
	tableFile = names(".parquet .jsonl .ndjson .json")
	// Files that may hold pictures and are not looked into. That is said, too.
	closedFile = names(".zip .tar .tgz .gz .zst .xz .7z .rar .arrow .feather .npz .h5 .hdf5 .lmdb .mdb .tfrecord .pkl .pt")
)

func names(ends string) map[string]bool {
	set := map[string]bool{}
	for end := range strings.FieldsSeq(ends) {
		set[end] = true
	}
	return set
}

// tablePictures calls add for every picture that lies inside a table, in lists and objects too. Those that a table
// names by their paths are files, found as such.
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

// inside calls add for every picture in a value of a table: binary data, objects with bytes, base64 in text, and all of
// these in lists and objects.
func inside(v any, add func(data.Image)) {
	if raw, ok := v.(json.RawMessage); ok {
		v = fromJSON(raw)
	}
	switch v := v.(type) {
	case string:
		if m, ok := base64Picture(v); ok {
			add(m)
		}
	case []any:
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

// fromJSON returns text, lists and objects in which pictures may lie; nil for anything else.
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

// base64Picture tells whether text is a picture in base64, also as a data URL.
func base64Picture(s string) (m data.Image, ok bool) {
	if rest, url := strings.CutPrefix(s, "data:"); url {
		_, s, _ = strings.Cut(rest, ",")
	}
	const head = 64 // nearly all other text is told by its first characters
	if len(s) < head {
		return m, false
	}
	if _, err := base64.StdEncoding.DecodeString(s[:head]); err != nil {
		return m, false
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return m, false
	}
	if _, _, err := data.Size(raw, data.Limits{}); err != nil {
		return m, false
	}
	return data.Image{Bytes: raw}, true
}
