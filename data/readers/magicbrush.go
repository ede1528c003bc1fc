package readers

import (
	"archive/zip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
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
		Name:  "magicbrush",
		Takes: []string{"chains"},
		About: "MagicBrush: Parquet (img_id, turn_index, ...), or the zip layout with edit_turns.json and images/",
		Fields: map[string]string{"session": "img_id", "turn": "turn_index", "source": "source_img", "target": "target_img",
			"instruction": "instruction", "split": "split"},
		Needed: []string{"session", "turn", "source", "target", "instruction"},
		open:   openMagicBrush,
	})
}

func openMagicBrush(_ context.Context, o Options) (Reader, error) {
	if filepath.Ext(o.Path) == ".zip" {
		z, err := zip.OpenReader(o.Path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", o.Path, err)
		}
		r, err := openMagicBrushFiles(z, o, "")
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", o.Path, err), z.Close())
		}
		r.closer = z
		return r, nil
	}
	if found, err := filepath.Glob(filepath.Join(o.Path, "edit_turns.json")); err == nil && len(found) > 0 {
		return openMagicBrushFiles(os.DirFS(o.Path), o, o.Path)
	}
	t, err := openRows(o.Path)
	if err != nil {
		return nil, err
	}
	return &magicBrushTable{tabular{t, o}}, nil
}

// magicBrushTable reads the Parquet layout: a row is a turn, and the turns of a session are consecutive.
type magicBrushTable struct{ tabular }

type magicBrushTurn struct {
	Sample
	turn int
}

func (r *magicBrushTable) turn(i int) (t magicBrushTurn, err error) {
	c, err := readRow(r.rows, i, &r.o)
	if err != nil {
		return t, err
	}
	c.need("session", "source", "target", "instruction")
	t.Session, t.Split, t.Instruction = c.text("session"), c.text("split"), c.text("instruction")
	t.Source, t.Target = c.picture("source"), c.picture("target")
	number := c.text("turn")
	t.turn, err = strconv.Atoi(number)
	if err != nil || t.turn < 1 {
		c.bad("turn", fmt.Errorf("want 1, 2, 3, ..., have %q", number))
	}
	t.ID = fmt.Sprintf("%s-%d", t.Session, t.turn)
	return t, c.err()
}

// begins reports whether a chain begins with row i: turn 1, or a turn that does not follow the previous row's. A turn
// that is there twice is an error, since it is not known which of them the next turn continues.
func (r *magicBrushTable) begins(i int, t *magicBrushTurn) (bool, error) {
	if i == 0 {
		return true, nil
	}
	before, err := r.turn(i - 1)
	switch {
	case err != nil: // the chain with that row has the error
		return t.turn == 1, nil
	case before.Session != t.Session:
		return true, nil
	case before.turn == t.turn:
		return false, fmt.Errorf("session %s has turn %d twice, in rows %d and %d", t.Session, t.turn, i, i+1)
	case before.turn+1 != t.turn:
		return true, nil
	}
	if i == 1 {
		return false, nil
	}
	earlier, err := r.turn(i - 2) // after a repeated turn, too
	return err == nil && earlier.Session == before.Session && earlier.turn == before.turn, nil
}

// Read returns turn i, or with Chains the session, or consecutive part of it, that starts with it.
func (r *magicBrushTable) Read(i int) (*Sample, error) {
	first, err := r.turn(i)
	if err != nil || !r.o.Chains {
		return &first.Sample, err
	}
	if begins, err := r.begins(i, &first); err != nil {
		return nil, err
	} else if !begins {
		return nil, Left("a later turn of a chain")
	}
	id := first.Session
	if first.turn > 1 {
		id = first.ID
	}
	s := &Sample{ID: id, Session: first.Session, Split: first.Split,
		Chain: &Chain{[]data.Image{first.Source, first.Target}, []string{first.Instruction}}}
	for next := i + 1; next < r.Len(); next++ {
		t, err := r.turn(next)
		if err != nil {
			return nil, fmt.Errorf("turn %d of session %s: %w", next-i+1, first.Session, err)
		}
		if t.Session != first.Session || t.turn != first.turn+next-i {
			break // also where turns are missing: the pictures on both sides do not belong together
		}
		s.Chain.Pictures = append(s.Chain.Pictures, t.Target)
		s.Chain.Instructions = append(s.Chain.Instructions, t.Instruction)
	}
	return s, nil
}

// magicBrushFiles reads the zip layout, unpacked or not: edit_turns.json, edit_sessions.json, images/<id>/ and
// optionally global_descriptions.json with a caption for each picture.
type magicBrushFiles struct {
	files    fs.FS
	folder   string // on disk; "": pictures are in the archive
	split    string
	turns    []magicBrushEdit
	sessions []magicBrushPart // of chains, sorted
	byID     map[string][]magicBrushEdit
	captions map[string]map[string]string // session -> file -> caption
	closer   io.Closer
}

type magicBrushEdit struct{ Input, Output, Instruction string }

// magicBrushPart is a session, or a part of it in which each edit's input is the previous one's output.
type magicBrushPart struct {
	id, session string
	turns       []magicBrushEdit
}

func partsOf(sessions map[string][]magicBrushEdit) (parts []magicBrushPart) {
	for _, session := range slices.Sorted(maps.Keys(sessions)) {
		parts = append(parts, magicBrushPart{id: session, session: session})
		for i, t := range sessions[session] {
			if i > 0 && t.Input != sessions[session][i-1].Output { // a turn is missing
				parts = append(parts, magicBrushPart{id: strings.TrimSuffix(t.Output, path.Ext(t.Output)), session: session})
			}
			last := &parts[len(parts)-1]
			last.turns = append(last.turns, t)
		}
	}
	return parts
}

func openMagicBrushFiles(files fs.FS, o Options, folder string) (*magicBrushFiles, error) {
	found, err := fs.Glob(files, "edit_turns.json")
	if err == nil && len(found) == 0 {
		found, err = fs.Glob(files, "*/edit_turns.json")
	}
	if err != nil || len(found) != 1 {
		return nil, fmt.Errorf("want one edit_turns.json, found %v", found)
	}
	root := path.Dir(found[0])
	if files, err = fs.Sub(files, root); err != nil {
		return nil, err
	}
	r := &magicBrushFiles{files: files, folder: folder}
	if root != "." {
		r.split = root
	}
	if o.Chains {
		if err := readJSON(files, "edit_sessions.json", &r.byID); err != nil {
			return nil, err
		}
		r.sessions = partsOf(r.byID)
	} else if err := readJSON(files, "edit_turns.json", &r.turns); err != nil {
		return nil, err
	}
	if err := readJSON(files, "global_descriptions.json", &r.captions); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return r, nil
}

func readJSON(files fs.FS, name string, v any) error {
	raw, err := fs.ReadFile(files, name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

func (r *magicBrushFiles) Len() int { return max(len(r.turns), len(r.sessions)) }

func (r *magicBrushFiles) Close() error {
	if r.closer == nil {
		return nil
	}
	return r.closer.Close()
}

func (r *magicBrushFiles) Read(i int) (*Sample, error) {
	if r.sessions != nil {
		return r.chain(&r.sessions[i])
	}
	t := r.turns[i]
	session, _, ok := strings.Cut(t.Input, "-")
	if !ok || t.Output == "" || t.Instruction == "" {
		return nil, fmt.Errorf("edit_turns.json: entry %d: want input (<id>-input.png), output and instruction, have %+v",
			i+1, t)
	}
	s := &Sample{
		ID:            strings.TrimSuffix(t.Output, path.Ext(t.Output)),
		Session:       session,
		Split:         r.split,
		Instruction:   t.Instruction,
		SourceCaption: r.captions[session][t.Input],
		TargetCaption: r.captions[session][t.Output],
	}
	var err error
	if s.Source, err = r.picture(session, t.Input); err == nil {
		s.Target, err = r.picture(session, t.Output)
	}
	return s, err
}

func (r *magicBrushFiles) chain(part *magicBrushPart) (*Sample, error) {
	session := part.session
	s := &Sample{ID: part.id, Session: session, Split: r.split, Chain: &Chain{}}
	for i, t := range part.turns {
		if i == 0 {
			p, err := r.picture(session, t.Input)
			if err != nil {
				return nil, err
			}
			s.Chain.Pictures = append(s.Chain.Pictures, p)
		}
		p, err := r.picture(session, t.Output)
		if err != nil {
			return nil, err
		}
		s.Chain.Pictures = append(s.Chain.Pictures, p)
		s.Chain.Instructions = append(s.Chain.Instructions, t.Instruction)
	}
	return s, nil
}

// picture returns the path of a picture on disk, or reads it from the archive.
func (r *magicBrushFiles) picture(session, name string) (data.Image, error) {
	inside := path.Join("images", session, name)
	if !fs.ValidPath(inside) {
		return data.Image{}, fmt.Errorf("%q is not a file of the dataset", inside)
	}
	if r.folder != "" {
		return data.Image{Path: filepath.Join(r.folder, filepath.FromSlash(inside))}, nil
	}
	f, err := r.files.Open(inside)
	if errors.Is(err, zip.ErrAlgorithm) {
		return data.Image{}, fmt.Errorf("%s: unsupported compression or encryption: unpack the archive and "+
			"name its folder", inside)
	} else if err != nil {
		return data.Image{}, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPicture+1)) // a larger one is refused when it is decoded
	return data.Image{Path: name, Bytes: raw}, err
}
