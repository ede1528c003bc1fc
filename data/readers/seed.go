package readers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"assay/data"
)

func init() {
	register(Layout{
		Name:  "seed-data-edit",
		Takes: []string{"drop"},
		About: "SEED-Data-Edit parts 2 (source_image, target_image) and 3 (instruction_1.., edit_image_1..), pictures " +
			"unpacked or in tar parts",
		Fields: map[string]string{"source": "source_image", "target": "target_image", "instruction": "instruction",
			"turn_instruction": "instruction_", "turn_image": "edit_image_"},
		Needed: []string{"source"},
		open:   openSeed,
	})
}

// corrupt are folders of part 3 whose pictures do not match each other.
var corrupt = []string{"20240330_315P_1323turns/Data/208", "20240330_315P_1323turns/Data/209",
	"20240330_315P_1323turns/Data/210",
	"20240330_315P_1323turns/Data/211", "20240330_315P_1323turns/Data/212"}

// seed reads annotations/*.jsonl (or one .jsonl file). A row with instruction_1 is a chain, any other row a single
// edit.
type seed struct {
	tabular
	folders  []string // where pictures may be
	unpacked string   // where pictures from archives are extracted
}

func openSeed(ctx context.Context, o Options) (Reader, error) {
	root, annotations, err := seedAnnotations(o.Path)
	if err != nil {
		return nil, err
	}
	t, err := openTables(annotations)
	if err != nil {
		return nil, err
	}
	if o.Pictures != "" {
		root = o.Pictures
	}
	r := &seed{tabular: tabular{t, o}, folders: []string{root}}
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if e.IsDir() && e.Name() != "annotations" {
			r.folders = append(r.folders, filepath.Join(root, e.Name()))
		}
	}
	if err == nil {
		err = r.unpack(ctx, root)
	}
	if err != nil {
		return nil, errors.Join(err, t.close())
	}
	return r, nil
}

// seedAnnotations finds the annotation files, and the folder that the dataset was downloaded to.
func seedAnnotations(p string) (root string, files []string, err error) {
	info, err := os.Stat(p)
	if err != nil {
		return "", nil, err
	}
	if !info.IsDir() {
		root = filepath.Dir(p)
		if filepath.Base(root) == "annotations" {
			root = filepath.Dir(root)
		}
		return root, []string{p}, nil
	}
	for _, pattern := range []string{"annotations/*.jsonl", "*/annotations/*.jsonl", "*.jsonl"} {
		if files, err = filepath.Glob(filepath.Join(p, pattern)); err != nil || len(files) > 0 {
			return p, files, err
		}
	}
	return "", nil, fmt.Errorf("%s: no annotations/*.jsonl found", p)
}

// unpack extracts the pictures named in the annotations from the tar parts, if there are any.
func (r *seed) unpack(ctx context.Context, root string) error {
	var archives []string
	err := filepath.WalkDir(root, func(p string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() && isArchive(e.Name()) {
			archives = append(archives, p)
		}
		return err
	})
	if err != nil || len(archives) == 0 {
		return err
	}
	if r.o.Unpack == "" {
		return fmt.Errorf("%s is an archive: unpack it, or name a folder to unpack it into", archives[0])
	}
	wanted := newNameSet()
	for i := range r.rows.len() {
		c, err := readRow(r.rows, i, &r.o)
		if err != nil {
			continue // Read reports it
		}
		for _, field := range r.pictureFields(c) {
			if name := c.text(field); r.dropped(name) == "" {
				wanted.add(name)
			}
		}
	}
	r.unpacked = r.o.Unpack
	return unpack(ctx, archives, r.unpacked, wanted)
}

// owns reports whether a column belongs to a turn.
func (r *seed) owns(column string, _ []string) bool {
	return strings.HasPrefix(column, r.o.Columns["turn_instruction"]) ||
		strings.HasPrefix(column, r.o.Columns["turn_image"])
}

// turn returns the columns of turn j, from 1.
func (r *seed) turn(j int) (instruction, picture string) {
	n := strconv.Itoa(j)
	return r.o.Columns["turn_instruction"] + n, r.o.Columns["turn_image"] + n
}

// turns counts the turns of a chain; 0: the row is one edit.
func (r *seed) turns(c *cells) int {
	for j := 1; ; j++ {
		if instruction, picture := r.turn(j); c.text(instruction) == "" && c.text(picture) == "" {
			return j - 1
		}
	}
}

func (r *seed) pictureFields(c *cells) []string {
	n := r.turns(c)
	if n == 0 {
		return []string{"source", "target"}
	}
	fields := []string{"source"}
	for j := range n {
		_, picture := r.turn(j + 1)
		fields = append(fields, picture)
	}
	return fields
}

// dropped returns the excluded folder that a picture is in, "" if none.
func (r *seed) dropped(name string) string {
	name = path.Clean(name)
	for _, folder := range slices.Concat(corrupt, r.o.Drop) {
		if strings.HasPrefix(name, folder+"/") || strings.Contains(name, "/"+folder+"/") {
			return folder
		}
	}
	return ""
}

func (r *seed) Read(i int) (*Sample, error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return nil, err
	}
	source := c.text("source")
	if folder := r.dropped(source); folder != "" {
		return nil, Left("folder " + folder)
	}
	s := &Sample{ID: fmt.Sprintf("%06d", i), Session: source}
	n := r.turns(c)
	if n == 0 {
		c.need("source", "target", "instruction")
		s.Source, s.Target, s.Instruction = r.picture(c, "source"), r.picture(c, "target"), c.text("instruction")
		return s, c.err()
	}
	c.need("source")
	s.Chain = &Chain{Pictures: []data.Image{r.picture(c, "source")}}
	for j := range n {
		instruction, picture := r.turn(j + 1)
		c.need(instruction, picture)
		s.Chain.Instructions = append(s.Chain.Instructions, c.text(instruction))
		s.Chain.Pictures = append(s.Chain.Pictures, r.picture(c, picture))
	}
	return s, c.err()
}

// picture finds a picture on disk.
func (r *seed) picture(c *cells, field string) data.Image {
	name := filepath.FromSlash(c.text(field))
	if name == "" {
		return data.Image{}
	}
	if !filepath.IsLocal(name) {
		c.bad(field, fmt.Errorf("%q is not a file of the dataset", name))
		return data.Image{}
	}
	if r.unpacked != "" {
		if p := filepath.Join(r.unpacked, name); exists(p) {
			return data.Image{Path: p}
		}
	}
	for _, folder := range r.folders {
		if p := filepath.Join(folder, name); exists(p) {
			return data.Image{Path: p}
		}
	}
	c.bad(field, fmt.Errorf("%s: no such file under %s, nor in an archive there", name, r.folders[0]))
	return data.Image{}
}
