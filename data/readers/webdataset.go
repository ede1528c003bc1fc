package readers

import (
	"archive/tar"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"assay/data"
)

// tars reads samples of webdataset's tar files in any order: one pass over the headers finds where each file is.
// Consecutive files with the same key (the name up to the first dot) form a sample; the rest of the name is the
// field:
//
//	<key>.source.png     the picture "source"           <key>.png        the picture "png"
//	<key>.instruction.txt the text "instruction"        <key>.txt        the text "txt"
//	<key>.cls            the number "cls"               <key>.json       its members are fields
type tars struct {
	shards []string
	files  []*os.File
	rows   []tarRow
	twice  bool // keys repeat across shards, so the shard is made part of the key
}

type tarRow struct {
	shard   int
	key     string
	members []tarMember
}

type tarMember struct {
	field        string // in lower case
	offset, size int64
}

// Files lists the files that a path names: the file itself, or the .tar files of a folder. The path may be a pattern
// with braces ({000..012}, {a,b}) as in webdataset, or with *, ? and [] as in a shell. All files must exist.
func Files(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		found, err := filepath.Glob(filepath.Join(escapeGlob(path), "*.tar"))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s: no .tar files in it", path)
		}
		return found, err
	case err == nil:
		return []string{path}, nil
	}
	if !strings.ContainsAny(path, "{*?[") {
		return nil, err
	}
	expanded, err := braces(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var out []string
	for _, p := range expanded {
		if !strings.ContainsAny(p, "*?[") {
			if _, err := os.Stat(p); err != nil {
				return nil, err
			}
			out = append(out, p)
			continue
		}
		found, err := filepath.Glob(p)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p, err)
		}
		if len(found) == 0 {
			return nil, fmt.Errorf("%s: no such files", p)
		}
		out = append(out, found...)
	}
	return out, nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

// maxShards bounds the number of files that braces may expand to.
const maxShards = 1 << 16

// braces expands {a,b} and {000..012}, from left to right.
func braces(pattern string) ([]string, error) {
	cuts, err := firstBraces(pattern)
	if err != nil {
		return nil, err
	}
	if len(cuts) == 0 {
		return []string{pattern}, nil
	}
	inner, err := alternatives(pattern, cuts)
	if err != nil {
		return nil, err
	}
	rest, err := braces(pattern[cuts[len(cuts)-1]+1:])
	if err != nil {
		return nil, err
	}
	if len(inner)*len(rest) > maxShards {
		return nil, fmt.Errorf("more than %d files", maxShards)
	}
	var out []string
	for _, a := range inner {
		for _, b := range rest {
			out = append(out, pattern[:cuts[0]]+a+b)
		}
	}
	return out, nil
}

// firstBraces returns the positions of the first { of a pattern, its commas, and its }; nil if there is none.
func firstBraces(pattern string) (cuts []int, err error) {
	open := strings.IndexByte(pattern, '{')
	if open < 0 {
		if strings.ContainsRune(pattern, '}') {
			return nil, errors.New("unmatched }")
		}
		return nil, nil
	}
	cuts = []int{open}
	depth := 0
	for i := open; i < len(pattern); i++ {
		switch pattern[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return append(cuts, i), nil
			}
		case ',':
			if depth == 1 {
				cuts = append(cuts, i)
			}
		}
	}
	return nil, errors.New("unmatched {")
}

// alternatives expands the text between the cuts of firstBraces.
func alternatives(pattern string, cuts []int) (out []string, err error) {
	if len(cuts) == 2 {
		return numbers(pattern[cuts[0]+1 : cuts[1]])
	}
	for i, cut := range cuts[1:] {
		more, err := braces(pattern[cuts[i]+1 : cut])
		if err != nil {
			return nil, err
		}
		out = append(out, more...)
	}
	return out, nil
}

// numbers expands 000..012. Leading zeros set the width of the numbers.
func numbers(bounds string) (out []string, err error) {
	from, to, ok := strings.Cut(bounds, "..")
	if !ok {
		return nil, fmt.Errorf("want {a,b} or {000..012}, not {%s}", bounds)
	}
	a, errA := strconv.ParseUint(from, 10, 32)
	b, errB := strconv.ParseUint(to, 10, 32)
	if errA != nil || errB != nil || b < a || b-a >= maxShards {
		return nil, fmt.Errorf("want {000..012}, at most %d numbers, not {%s..%s}", maxShards, from, to)
	}
	width := 0
	if len(from) > 1 && from[0] == '0' || len(to) > 1 && to[0] == '0' {
		width = max(len(from), len(to))
	}
	for n := a; n <= b; n++ {
		out = append(out, fmt.Sprintf("%0*d", width, n))
	}
	return out, nil
}

func openTars(path string) (rows, error) {
	shards, err := Files(path)
	if err != nil {
		return nil, err
	}
	t := &tars{shards: shards}
	seen := map[string]int{}
	for i, shard := range shards {
		if err := t.scan(i, seen); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", shard, err), t.close())
		}
	}
	return t, nil
}

// scan finds the samples of one shard. seen: the last shard with each key.
func (t *tars) scan(shard int, seen map[string]int) error {
	f, err := os.Open(t.shards[shard])
	if err != nil {
		return err
	}
	t.files = append(t.files, f)
	var magic [2]byte
	if _, err := f.ReadAt(magic[:], 0); err == nil && magic == [2]byte{0x1f, 0x8b} {
		return errors.New("is packed with gzip: decompress it, since samples are read in any order")
	}
	members := tar.NewReader(f)
	last := int64(0) // where the last file ends, or before
	for n := 0; ; n++ {
		h, err := members.Next()
		if err == io.EOF && n == 0 {
			return errors.New("not a tar file, or an empty one")
		} else if err == io.EOF {
			return ended(f, last, n)
		} else if err != nil && n == 0 {
			return fmt.Errorf("not a tar file: %w", err)
		} else if err != nil {
			return fmt.Errorf("after %d files: %w", n, err)
		}
		at, err := f.Seek(0, io.SeekCurrent)
		if last = at; err == nil && h.Typeflag == tar.TypeReg {
			if !sparse(h) {
				last = at + (h.Size+511)/512*512
			}
			err = t.add(shard, h, at, seen)
		}
		if err != nil {
			return err
		}
	}
}

// ended is an error if a tar file ends after n files, the last of which ends at last, without the blocks of zeros that
// all writers add when they are closed: samples may be missing. Like GNU tar, it takes one block for two.
func ended(f *os.File, last int64, n int) error {
	at, err := f.Seek(0, io.SeekCurrent)
	if err == nil && at <= last {
		err = fmt.Errorf("cut off after %d files, or its writer was not closed: no blocks of zeros end it. Download or "+
			"write it again; if nothing is missing, append them: head -c 10240 /dev/zero >> %s", n, filepath.Base(f.Name()))
	}
	return err
}

// add adds a file, whose content starts at offset at of its shard, to its sample.
func (t *tars) add(shard int, h *tar.Header, at int64, seen map[string]int) error {
	key, field, ok := keyOf(h.Name)
	if !ok {
		return nil
	}
	if sparse(h) {
		return fmt.Errorf("%s: sparse files are not supported", h.Name)
	}
	if n := len(t.rows); n == 0 || t.rows[n-1].shard != shard || t.rows[n-1].key != key {
		before, met := seen[key]
		if met && before == shard {
			return fmt.Errorf("%s: the key %q occurred before: the files of a sample must be consecutive", h.Name, key)
		}
		t.twice = t.twice || met
		seen[key] = shard
		t.rows = append(t.rows, tarRow{shard: shard, key: key})
	}
	row := &t.rows[len(t.rows)-1]
	if slices.ContainsFunc(row.members, func(m tarMember) bool { return m.field == field }) {
		return fmt.Errorf("%s: the sample %q has two files .%s", h.Name, key, field)
	}
	row.members = append(row.members, tarMember{field, at, h.Size})
	return nil
}

// sparse reports whether a file has fewer bytes in the tar file than its size.
func sparse(h *tar.Header) bool {
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return true
		}
	}
	return false
}

// keyOf splits a member's name at the first dot of its base name. Names like __meta__, and names without a dot, are
// not samples.
func keyOf(name string) (key, field string, ok bool) {
	base := strings.LastIndexByte(name, '/') + 1
	dot := strings.IndexByte(name[base:], '.')
	if dot < 1 || strings.HasPrefix(name[base:], "__") {
		return "", "", false
	}
	return name[:base+dot], strings.ToLower(name[base+dot+1:]), true
}

func (t *tars) len() int       { return len(t.rows) }
func (t *tars) folder() string { return filepath.Dir(t.shards[0]) }

func (t *tars) where(i int) string {
	return fmt.Sprintf("%s: %s", filepath.Base(t.shards[t.rows[i].shard]), t.rows[i].key)
}

func (t *tars) columns() []string { return namesOf(t, 0, min(len(t.rows), firstRecords)) }

func (t *tars) has(column string) error {
	return someHas(t, column, strings.Join(t.shards, ", "), 0, len(t.rows))
}

func (t *tars) close() error {
	var errs []error
	for _, f := range t.files {
		errs = append(errs, f.Close())
	}
	t.files = nil
	return errors.Join(errs...)
}

// record reads a sample. Its values are decoded as in webdataset: pictures as bytes, texts, .cls numbers, and .json.
func (t *tars) record(i int) (data.Record, error) {
	row := t.rows[i]
	key := row.key
	if t.twice {
		base := filepath.Base(t.shards[row.shard])
		key = strings.TrimSuffix(base, filepath.Ext(base)) + "/" + key
	}
	rec := data.Record{Fields: []data.Field{{Name: "__key__", Value: key}}}
	for _, m := range row.members {
		fields, err := t.member(row, m)
		if err != nil {
			return rec, fmt.Errorf("%s.%s: %w", t.where(i), m.field, err)
		}
		for _, f := range fields {
			if _, twice := rec.Get(f.Name); twice {
				return rec, fmt.Errorf("%s.%s: two values of %q", t.where(i), m.field, f.Name)
			}
			rec.Fields = append(rec.Fields, f)
		}
	}
	return rec, nil
}

func (t *tars) member(row tarRow, m tarMember) ([]data.Field, error) {
	if m.size > maxPicture {
		return nil, fmt.Errorf("%d bytes, more than %d", m.size, maxPicture)
	}
	raw := make([]byte, m.size)
	if _, err := t.files[row.shard].ReadAt(raw, m.offset); err != nil {
		return nil, err
	}
	kind := m.field[strings.LastIndexByte(m.field, '.')+1:]
	name := strings.TrimSuffix(strings.TrimSuffix(m.field, kind), ".")
	name = cmp.Or(name, m.field)
	switch {
	case slices.Contains(data.PictureEndings, "."+kind) || kind == "avif" || kind == "jp2":
		return []data.Field{{Name: name, Value: data.Image{Path: m.field, Bytes: raw}}}, nil
	case kind == "txt" || kind == "text" || kind == "transcript" || kind == "cls" || kind == "index":
		if !utf8.Valid(raw) {
			return nil, errors.New("not UTF-8")
		}
		return []data.Field{{Name: name, Value: strings.TrimRight(string(raw), "\r\n")}}, nil // the line end of the file
	case kind == "json" && name == m.field:
		var rec data.Record
		err := json.Unmarshal(raw, &rec)
		return rec.Fields, err
	case kind == "json":
		if !json.Valid(raw) {
			return nil, errors.New("not JSON")
		}
		return []data.Field{{Name: name, Value: json.RawMessage(raw)}}, nil
	}
	return []data.Field{{Name: m.field, Value: raw}}, nil
}
