package table

import (
	"assay/data"
	"assay/edit"
	"assay/internal/remote"
	"assay/internal/store"
)

// EditJob returns a job over the edits of t, which is o.In opened; the caller sets its Work.
//
// read reads a row, and returns an edit also with an error. The edit's pictures are files that are opened when its
// turn comes. parts returns what a result depends on, see [Content]. roles are the pictures whose bytes count for the
// balance of shards.
func EditJob[V any](
	t *data.Table, o Options, read func(i int) (*edit.Edit, error), parts func(e *edit.Edit) []any, roles ...string,
) *Job[*edit.Edit, V] {
	return &Job[*edit.Edit, V]{
		Options: o,
		Rows:    t.Len(),
		Read:    read,
		Content: func(e *edit.Edit, err error) (string, error) {
			return Content(t.Folder(), append([]any{err}, parts(e)...)...)
		},
		Weigh: func(i int) (bytes int64, begins bool) {
			e, err := read(i)
			if err != nil {
				return 0, true
			}
			for _, role := range roles {
				images := []data.Image{Image(e, role)}
				if role == "source" {
					images = Sources(e)
				}
				for _, m := range images {
					bytes += m.Size(t.Folder())
				}
			}
			return bytes, true
		},
	}
}

// EditOf returns the edit in a row of t. Pictures that the row lacks are left out.
func EditOf(t *data.Table, row *data.Row) *edit.Edit {
	e := &edit.Edit{ID: row.ID, Group: row.Group, Instruction: row.Instruction}
	for i, m := range row.Sources() {
		SetImage(e, edit.SourceRole(i), m, t)
	}
	SetImage(e, "edit", row.Edit, t)
	SetImage(e, "target", row.Target, t)
	return e
}

// SetImage sets a picture of an edit to a picture of t, to be opened later, unless it is the zero one.
func SetImage(e *edit.Edit, role string, m data.Image, t *data.Table) {
	if !m.IsZero() {
		e.Set(role, data.File{Image: m, Folder: t.Folder()})
	}
}

// Image returns the location of an edit's picture; the zero Image if there is none.
func Image(e *edit.Edit, role string) data.Image {
	f, _ := e.Picture(role).(data.File)
	return f.Image
}

// Sources returns the locations of the sources of an edit; one zero Image if it has none.
func Sources(e *edit.Edit) []data.Image {
	out := []data.Image{Image(e, "source")}
	for i := 1; i < len(e.Sources); i++ {
		out = append(out, Image(e, edit.SourceRole(i)))
	}
	return out
}

// head identifies the table and the judge of scores; in the plan of shards with the digest of the table's bytes.
type head struct {
	In      string            `json:"in"`
	Rows    int               `json:"rows"`
	Judge   string            `json:"judge"`
	Table   string            `json:"table,omitempty"`
	Columns map[string]string `json:"columns,omitempty"`
}

// Identify sets the heads of journal and shards to the rows of t and the fingerprint of a judge.
func (j *Job[Row, V]) Identify(t *data.Table, judge string) error {
	in, err := remote.Abs(t.Path())
	if err != nil {
		return err
	}
	h := head{In: in, Rows: t.Len(), Judge: judge}
	j.Head = h
	j.Plan = func() (any, error) {
		digest, err := store.FileDigest(t.Path())
		h.Table, h.Columns = digest.String(), j.Columns
		return h, err
	}
	return nil
}
