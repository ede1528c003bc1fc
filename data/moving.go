package data

import (
	"encoding/json"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/remote"
)

// Moving rewrites a table's picture paths for a table in another folder, so that they still resolve.
type Moving struct {
	from, to string // absolute folders
	how      int
}

// How a path is written.
const (
	unchanged = iota // both tables are in the same folder
	relative         // relative to the new folder
	absolute         // no relative path means the same to every reader
)

// NewMoving determines how paths of a table in folder from are written in a table in folder to. Paths are relative to
// the new table, but absolute if the two folders are on different storage (this machine and object storage, or two
// buckets) or a symbolic link is between them: programs that follow links and programs that do not would resolve a
// relative path differently.
func NewMoving(from, to string) (Moving, error) {
	var m Moving
	var err error
	if m.from, err = remote.Abs(from); err != nil {
		return m, err
	}
	if m.to, err = remote.Abs(to); err != nil {
		return m, err
	}
	switch {
	case m.from == m.to:
		m.how = unchanged
	case remote.Is(m.from) || remote.Is(m.to):
		m.how = absolute
		a, _ := root(m.from)
		if b, _ := root(m.to); a == b {
			m.how = relative
		}
	default:
		m.how = relative
		realFrom, realTo := resolved(m.from), resolved(m.to)
		named, err1 := filepath.Rel(m.to, m.from)
		real, err2 := filepath.Rel(realTo, realFrom)
		switch {
		case realFrom == realTo:
			m.how = unchanged
		case err1 != nil || err2 != nil || named != real:
			m.how = absolute
		}
	}
	return m, nil
}

// resolved follows the symbolic links of a folder; a folder that does not exist yet is returned as it is.
func resolved(folder string) string {
	if real, err := filepath.EvalSymlinks(folder); err == nil {
		return real
	}
	return folder
}

// root splits a name into its bucket and the key as an absolute path. The bucket of local files is "".
func root(name string) (bucket, key string) {
	scheme, rest, ok := strings.Cut(name, "://")
	if !ok {
		return "", name
	}
	host, key, _ := strings.Cut(rest, "/")
	return scheme + "://" + host, "/" + key
}

// Path returns a path as written in the new table. Absolute paths, object storage names and URLs stay as they are.
func (m Moving) Path(name string) string {
	if m.how == unchanged || name == "" || filepath.IsAbs(name) || strings.Contains(name, "://") ||
		strings.HasPrefix(name, "data:") {
		return name
	}
	whole := remote.Join(m.from, name)
	if m.how == absolute {
		return whole
	}
	_, folder := root(m.to)
	_, file := root(whole)
	to, err := filepath.Rel(folder, path.Clean(file))
	if err != nil {
		return whole
	}
	return filepath.ToSlash(to)
}

// Image returns a picture with its path as written in the new table. A picture whose bytes are in the table stays as
// it is.
func (m Moving) Image(p Image) Image {
	if len(p.Bytes) == 0 {
		p.Path = m.Path(p.Path)
	}
	return p
}

// otherPictures are the picture columns, besides those of the label table, of tables that Assay reads. If a command
// does not read such a column, only text with the extension of a picture file is taken for a path.
var otherPictures = []string{
	"edit2", "chosen", "rejected", "input", "original", "source_img", "source_image", "left_output_image",
	"right_output_image",
}

// WithPictures names further picture columns of the file, besides source, edit and target.
func WithPictures(columns ...string) Option { return func(t *Table) { t.pictures = columns } }

// isPicture reports whether a column of the file may hold pictures, and whether that is certain because the column is
// read as pictures.
func (t *Table) isPicture(name string) (is, certain bool) {
	for _, c := range LabelColumns {
		if c.Kind != KindImage {
			continue
		}
		own, mapped := t.names[c.Name]
		if !mapped {
			own = c.Name
		}
		if own == name {
			return true, t.only == nil || slices.Contains(t.only, c.Name)
		}
	}
	if own := sourcesName(t.names); own != "" && own == name {
		return true, true
	}
	if slices.Contains(t.pictures, name) {
		return true, true
	}
	return slices.Contains(otherPictures, name), false
}

// move rewrites the picture paths of a record of the table.
func (t *Table) move(rec *Record, m Moving) {
	if m.how == unchanged {
		return
	}
	for i, f := range rec.Fields {
		is, certain := t.isPicture(f.Name)
		if !is {
			continue
		}
		v, paths := m.value(f.Value, certain)
		if f.Name == sourcesName(t.names) {
			v, paths = m.list(f.Value)
		}
		if len(paths) == 0 {
			continue
		}
		rec.Fields[i].Value = v
		if p, ok := t.source.(*parquetTable); ok {
			rec.raw = p.SetPaths(rec.raw, f.Name, paths)
		}
	}
}

// value returns a picture's value with its path as written in the new table; no paths: the value is unchanged. If it
// is not certain to be a picture, only text with the extension of a picture file is taken for a path.
func (m Moving) value(v any, certain bool) (moved any, paths []string) {
	v, err := unwrap(v)
	if err != nil {
		return v, nil
	}
	p, err := ToImage(v)
	if err != nil || p.Path == "" || len(p.Bytes) > 0 ||
		!certain && !slices.Contains(PictureEndings, strings.ToLower(path.Ext(p.Path))) {
		return v, nil
	}
	to := m.Path(p.Path)
	if to == p.Path {
		return v, nil
	}
	switch v := v.(type) {
	case Record:
		v.Fields = slices.Clone(v.Fields)
		v.Set("path", to)
		return v, []string{to}
	case Image:
		return Image{Path: to}, []string{to}
	}
	return to, []string{to}
}

// list is value for a list of pictures. The path of an unchanged picture is ""; for JSON text the only path is the
// new text itself.
func (m Moving) list(v any) (moved any, paths []string) {
	list, text, err := listOf(v, "pictures (paths, or {path, bytes})")
	if err != nil {
		return v, nil
	}
	list, paths = slices.Clone(list), make([]string, len(list))
	some := false
	for i, one := range list {
		if to, path := m.value(one, true); len(path) > 0 {
			list[i], paths[i], some = to, path[0], true
		}
	}
	if !some {
		return v, nil
	}
	if !text {
		return list, paths
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return v, nil
	}
	return string(raw), []string{string(raw)}
}
