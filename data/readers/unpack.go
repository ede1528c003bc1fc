package readers

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atomicfile"
)

// maxPicture is the largest size in bytes of a picture in an archive.
const maxPicture = 256 << 20

var archiveName = regexp.MustCompile(`\.(tar|tar\.gz|tgz)(\.part-?[0-9a-z]+)?$`)

func isArchive(name string) bool { return archiveName.MatchString(name) }

// nameSet holds picture names as written in the annotations. In archives they often have extra leading folders, or
// lack some.
type nameSet struct {
	byBase map[string][]string
	from   map[string]string // name -> the file of an archive that it was unpacked from
}

func newNameSet() *nameSet { return &nameSet{map[string][]string{}, map[string]string{}} }

func (s *nameSet) add(name string) {
	name = path.Clean(name)
	base := path.Base(name)
	if filepath.IsLocal(name) && !slices.Contains(s.byBase[base], name) {
		s.byBase[base] = append(s.byBase[base], name)
	}
}

// find returns the wanted names that match an archive member: one path is a suffix of the other, by whole folders. A
// member that may be either of two pictures is an error.
func (s *nameSet) find(member string) (found []string, err error) {
	member = path.Clean(member)
	ends := func(long, short string) bool { return long == short || strings.HasSuffix(long, "/"+short) }
	for _, name := range s.byBase[path.Base(member)] {
		if !ends(member, name) && !ends(name, member) {
			continue
		}
		for _, other := range found {
			if !ends(name, other) && !ends(other, name) {
				return nil, fmt.Errorf("%s may be %s or %s: unpack the archives into folders with these names", member, other,
					name)
			}
		}
		found = append(found, name)
	}
	return found, nil
}

// digest identifies the names.
func (s *nameSet) digest() string {
	sum := sha256.New()
	for _, base := range slices.Sorted(maps.Keys(s.byBase)) {
		for _, name := range slices.Sorted(slices.Values(s.byBase[base])) {
			fmt.Fprintln(sum, name)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// unpack extracts the wanted files of archives, each a tar file, in one piece or split into parts, into dir. It reads
// every archive once, sequentially. Files left by an interrupted run are not written again; once all are there, no
// archive is read until other files are wanted.
func unpack(ctx context.Context, paths []string, dir string, wanted *nameSet) error {
	slices.Sort(paths)
	done, err := archiveSizes(paths, wanted)
	if err != nil {
		return err
	}
	marker := filepath.Join(dir, "unpacked.json")
	if have, err := os.ReadFile(marker); err == nil && string(have) == string(done) {
		return nil
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for len(paths) > 0 {
		stem := archiveStem(paths[0])
		n := 1
		for n < len(paths) && archiveStem(paths[n]) == stem {
			n++
		}
		if err := unpackOne(ctx, paths[:n], dir, wanted); err != nil {
			return fmt.Errorf("%s: %w", stem, err)
		}
		paths = paths[n:]
	}
	return atomicfile.WriteBytes(marker, done)
}

// archiveStem is an archive's name without the part suffix.
func archiveStem(p string) string {
	stem, _, _ := strings.Cut(p, ".part")
	return stem
}

// archiveSizes identifies archives by name and size, and the wanted files, as JSON.
func archiveSizes(paths []string, wanted *nameSet) ([]byte, error) {
	sizes := map[string]any{"wanted": wanted.digest()}
	for _, p := range paths {
		info, err := os.Stat(p)
		if err != nil {
			return nil, err
		}
		sizes[filepath.Base(p)] = info.Size()
	}
	return json.Marshal(sizes)
}

func unpackOne(ctx context.Context, parts []string, dir string, wanted *nameSet) error {
	var streams []io.Reader
	for _, p := range parts {
		f, err := os.Open(p)
		if err != nil {
			return err
		}
		defer f.Close()
		streams = append(streams, f)
	}
	in := bufio.NewReaderSize(io.MultiReader(streams...), 1<<20)
	var stream io.Reader = in
	if magic, err := in.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return err
		}
		defer z.Close()
		stream = z
	}
	for members := tar.NewReader(stream); ; {
		if err := ctx.Err(); err != nil {
			return err
		}
		h, err := members.Next()
		if err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("%w (is a part missing?)", err)
		}
		if h.Typeflag != tar.TypeReg || h.Size > maxPicture {
			continue
		}
		if err := wanted.put(dir, h, members); err != nil {
			return err
		}
	}
}

// put writes a member of an archive under every wanted name that it has.
func (s *nameSet) put(dir string, h *tar.Header, member io.Reader) error {
	names, err := s.find(h.Name)
	if err != nil {
		return err
	}
	for i, name := range names {
		to, from := filepath.Join(dir, filepath.FromSlash(name)), member
		if i > 0 { // the same picture under another name
			first, err := os.Open(filepath.Join(dir, filepath.FromSlash(names[0])))
			if err != nil {
				return err
			}
			defer first.Close()
			from = first
		}
		if before := s.from[name]; before != "" {
			if same, err := equalFile(to, from); err != nil || !same {
				return errors.Join(err, fmt.Errorf("%s may be %s or %s, which differ: remove an archive, or unpack them yourself",
					name, before, h.Name))
			}
			continue
		}
		if err := putFile(to, from, h.Size); err != nil {
			return fmt.Errorf("%s: %w", h.Name, err)
		}
		s.from[name] = h.Name
	}
	return nil
}

// equalFile compares a file, a picture, with what a reader gives.
func equalFile(path string, r io.Reader) (bool, error) {
	have, err := os.ReadFile(path)
	if err != nil {
		return false, err
	}
	other, err := io.ReadAll(r)
	return bytes.Equal(have, other), err
}

// putFile writes a file atomically, unless it is already there. It does not sync: there are many files, and one that
// a crash truncated is written again.
func putFile(to string, from io.Reader, size int64) (err error) {
	if info, err := os.Stat(to); err == nil && info.Size() == size {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(to), ".unpack-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(f.Name())
		}
	}()
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), to)
}
