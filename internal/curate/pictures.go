package curate

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/internal/atomicfile"
	"assay/internal/remote"
)

// pictures places the pictures of a table in a folder of labels, each once.
type pictures struct {
	table  *data.Table
	dir    string
	copied bool              // copy files instead of linking to them
	placed map[string]string // file, or digest of the bytes -> where it is in the folder
}

func newPictures(t *data.Table, dir string, copied bool) *pictures {
	return &pictures{t, dir, copied, map[string]string{}}
}

// place places a picture under a name with its own ending and returns the path within the folder; a picture that was
// already placed keeps its path. Files are linked or copied; pictures inside the table and on object storage are
// written.
func (p *pictures) place(m data.Image, name string) (string, error) {
	if m.IsZero() {
		return "", errors.New("no picture")
	}
	file := m.File(p.table.Folder())
	key := file
	if file == "" {
		key = fmt.Sprintf("%x", sha256.Sum256(m.Bytes))
	}
	if to, ok := p.placed[key]; ok {
		return to, nil
	}
	ext := filepath.Ext(m.Path)
	ext = cmp.Or(ext, ".png")
	to := name + ext
	if err := p.write(m, file, filepath.Join(p.dir, to)); err != nil {
		return "", err
	}
	p.placed[key] = to
	return to, nil
}

// label returns the label of a row whose score is on 0..10 and places its pictures. Their names end with source and
// output.
func (p *pictures) label(
	i int, row *data.Row, prompt string, score float64, source, output string,
) (l RewardLabel, err error) {
	l = RewardLabel{ID: row.ID, Instruction: row.Instruction, Prompt: prompt, Score: score, Level: level(score)}
	name := filepath.Join("images", fmt.Sprintf("%07d-", i))
	if l.Source, err = p.place(row.Source, name+source); err != nil {
		return l, fmt.Errorf("%s: %w", source, err)
	}
	for k, m := range row.References {
		further := fmt.Sprintf("%s%d", source, k+2)
		path, err := p.place(m, name+further)
		if err != nil {
			return l, fmt.Errorf("%s: %w", further, err)
		}
		l.References = append(l.References, path)
	}
	if l.Edit, err = p.place(row.Edit, name+output); err != nil {
		return l, fmt.Errorf("%s: %w", output, err)
	}
	return l, nil
}

// write writes a picture to path; file is its location, "" for a picture in the table.
func (p *pictures) write(m data.Image, file, path string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	if file == "" || remote.Is(file) {
		raw, err := m.Read(p.table.Folder(), data.Limits{})
		if err != nil {
			return err
		}
		return os.WriteFile(path, raw, 0o666)
	}
	info, err := os.Stat(file) // a dangling link would only be noticed by the trainer
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a file", file)
	}
	if p.copied {
		return atomicfile.Copy(file, path)
	}
	if file, err = filepath.Abs(file); err != nil {
		return err
	}
	return os.Symlink(file, path)
}

// link links to a picture of the folder under a second name.
func link(dir, from, to string) error {
	to = filepath.Join(dir, to)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	target, err := filepath.Rel(filepath.Dir(to), filepath.Join(dir, from))
	if err != nil {
		return err
	}
	return os.Symlink(target, to)
}

// linkOneOf links to a picture of the folder as name, with its ending in lower case. A picture with another ending is
// converted to PNG, since the trainer would ignore it.
func linkOneOf(endings []string, dir, from, name string) (string, error) {
	ext := strings.ToLower(filepath.Ext(from))
	if slices.Contains(endings, ext) {
		return name + ext, link(dir, from, name+ext)
	}
	picture, err := data.Open(filepath.Join(dir, from), data.Limits{})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+".png")
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return "", err
	}
	return name + ".png", picture.WritePNG(path)
}
