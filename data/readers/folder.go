package readers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/data"
	"assay/heuristics"
)

func init() {
	register(Layout{
		Name: "folder",
		About: "one folder per sample: source.png, instruction.txt, target.png, edits/<editor>.png, source_caption.txt, " +
			"target_caption.txt",
		open: openFolder,
	})
}

// folder reads a folder of samples, recognised by their instruction.txt.
type folder struct {
	root  string
	names []string // sorted
}

func openFolder(_ context.Context, o Options) (Reader, error) {
	r := &folder{root: o.Path}
	err := filepath.WalkDir(o.Path, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && e.Name() == "instruction.txt" {
			name, err := filepath.Rel(o.Path, filepath.Dir(path))
			r.names = append(r.names, name)
			return err
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(r.names) == 0 {
		return nil, fmt.Errorf("%s: no folder in it has an instruction.txt", o.Path)
	}
	slices.Sort(r.names)
	return r, nil
}

func (r *folder) Len() int     { return len(r.names) }
func (r *folder) Close() error { return nil }

func (r *folder) Read(i int) (*Sample, error) {
	name := r.names[i]
	dir := filepath.Join(r.root, name)
	s := &Sample{ID: filepath.ToSlash(name)}
	for file, to := range map[string]*string{"instruction.txt": &s.Instruction, "source_caption.txt": &s.SourceCaption,
		"target_caption.txt": &s.TargetCaption} {
		raw, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		*to = strings.TrimSpace(string(raw))
	}
	if s.Instruction == "" {
		return nil, fmt.Errorf("%s: instruction.txt is empty", name)
	}
	if s.Source = pictureIn(dir, "source"); s.Source.IsZero() {
		return nil, fmt.Errorf("%s: no source.png (or .jpg, .webp)", name)
	}
	s.Target = pictureIn(dir, "target")
	edits, err := os.ReadDir(filepath.Join(dir, "edits"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range edits {
		ext := filepath.Ext(e.Name())
		if slices.Contains(data.PictureEndings, strings.ToLower(ext)) {
			s.Outputs = append(s.Outputs, Output{
				Picture:   data.Image{Path: filepath.Join(dir, "edits", e.Name())},
				Candidate: heuristics.Candidate{Editor: strings.TrimSuffix(e.Name(), ext)},
			})
		}
	}
	return s, nil
}

// pictureIn finds a picture by its base name, with any supported extension.
func pictureIn(dir, name string) data.Image {
	for _, ext := range data.PictureEndings {
		if path := filepath.Join(dir, name+ext); exists(path) {
			return data.Image{Path: path}
		}
	}
	return data.Image{}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
