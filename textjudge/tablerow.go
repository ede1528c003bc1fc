package textjudge

import (
	"fmt"

	"assay/data"
	"assay/internal/remote"
	"assay/store"
)

// row is what became of a row of a table: a line of OUT.progress.
type row struct {
	Row     int    `json:"row"`
	Content string `json:"of"` // digest of the instruction and of the content of the pictures
	Result
	Error      string `json:"error,omitempty"`
	Unreadable bool   `json:"unreadable,omitempty"`

	passing bool // the error may not come again: the server failed
}

// columns are those of the roles; reference is the label table's target.
func column(role string) string {
	if role == "reference" {
		return "target"
	}
	return role
}

func (r *run) required() []string {
	list := []string{"instruction"}
	for _, role := range r.roles {
		if role == "source" || role == "edit" || role == "reference" {
			list = append(list, column(role))
		}
	}
	return list
}

// read reads a row and finds its pictures, without decoding them.
func (r *run) read(i int) (instruction string, pictures map[string]data.Image, err error) {
	rec, err := r.table.Record(i)
	if err != nil {
		return "", nil, err
	}
	line, err := r.table.Row(rec)
	if err != nil {
		return "", nil, err
	}
	pictures = map[string]data.Image{}
	for _, role := range r.roles {
		switch role {
		case "source":
			pictures[role] = line.Source
		case "edit":
			pictures[role] = line.Edit
		case "reference":
			pictures[role] = line.Target
		default:
			v, _ := rec.Get(role)
			if pictures[role], err = data.ToImage(v); err != nil {
				return "", nil, fmt.Errorf("column %q: %w", role, err)
			}
		}
		if pictures[role].IsZero() {
			return "", nil, fmt.Errorf("column %q: there is no picture", column(role))
		}
	}
	return line.Instruction, pictures, nil
}

// content identifies what a row's result depends on besides the judge; err is why the row cannot be read. failed says
// that object storage did, so that nothing is known of the row.
func (r *run) content(i int, pictures map[string]data.Image, err error) (content string, failed error) {
	rec, _ := r.table.Record(i)
	line, _ := r.table.Row(rec)
	parts := []string{fmt.Sprint(err), line.Instruction}
	for _, role := range r.roles {
		k, err := store.Content(r.table.Folder(), pictures[role])
		if remote.Failed(err) {
			return "", err
		}
		parts = append(parts, role, fmt.Sprint(k, err))
	}
	return store.KeyOf(parts...).String(), nil
}

func (r *run) decode(instruction string, images map[string]data.Image) (Item, error) {
	item := Item{Instruction: instruction, Pictures: map[string]*data.Picture{}}
	for role, m := range images {
		p, err := m.Open(r.table.Folder(), data.Limits{})
		if err != nil {
			return item, fmt.Errorf("%s: %w", role, err)
		}
		item.Pictures[role] = p
	}
	return item, nil
}
