package store

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// Contents describes the records of one kind from one model.
type Contents struct {
	Kind    string    `json:"kind"`
	Model   string    `json:"model"` // digest of its fingerprint, used as a folder name
	Records int       `json:"records"`
	Files   int       `json:"files"`
	Bytes   int64     `json:"bytes"`
	Used    time.Time `json:"used"` // last use
}

// List describes a store's folder by kind, most recently used first.
func List(folder string) ([]Contents, error) {
	var out []Contents
	err := walk(folder, func(f segmentFile, seg *segment) error {
		at := slices.IndexFunc(out, func(c Contents) bool { return c.Kind == f.kind && c.Model == f.model })
		if at < 0 {
			at, out = len(out), append(out, Contents{Kind: f.kind, Model: f.model})
		}
		c := &out[at]
		c.Files++
		c.Bytes += f.size
		if f.used.After(c.Used) {
			c.Used = f.used
		}
		return seg.scan(func(Key, int64, int) { c.Records++ })
	})
	slices.SortFunc(out, func(a, b Contents) int { return cmp.Or(cmp.Compare(a.Kind, b.Kind), b.Used.Compare(a.Used)) })
	return out, err
}

// Verified is the result of Verify.
type Verified struct {
	Files   int      `json:"files"`
	Records int      `json:"records"` // intact ones
	Damaged []string `json:"damaged"` // files and positions of damaged records
	Lost    int64    `json:"lost"`    // bytes after the last record of a file: truncated by a crash, or after damage
}

// Verify reads every record in a store's folder. Damaged records are never served: they are recomputed.
func Verify(folder string) (*Verified, error) {
	v := &Verified{Damaged: []string{}}
	err := walk(folder, func(f segmentFile, seg *segment) error {
		v.Files++
		seg.used.Store(time.Now().Unix()) // verifying does not count as a use
		err := seg.scan(func(address Key, offset int64, _ int) {
			if _, err := seg.read(address, offset); err != nil {
				v.Damaged = append(v.Damaged, err.Error())
				return
			}
			v.Records++
		})
		if info, e := seg.Stat(); e == nil {
			v.Lost += max(0, info.Size()-seg.size)
		}
		if err == nil && seg.headDamaged() {
			v.Damaged = append(
				v.Damaged,
				fmt.Sprintf("%s: damaged head of a record at byte %d, and nothing after it can be found",
					seg.Name(), seg.size),
			)
		}
		return err
	})
	return v, err
}

// Pruning selects what Prune removes.
type Pruning struct {
	Kind  string    // only this kind; "": all
	Older time.Time // removes records last used before; zero: no age limit
	Most  int64     // bytes that may remain in the folder, of all kinds; below 0: no limit
}

// Pruned is the result of Prune.
type Pruned struct {
	Files int   `json:"files"` // removed
	Bytes int64 `json:"bytes"` // in removed files
	Left  int64 `json:"left"`  // bytes that remain
	Busy  int   `json:"busy"`  // files that could not be removed: a process is writing to them
}

// Prune removes segments of a store's folder, least recently used first.
func Prune(folder string, p Pruning) (*Pruned, error) {
	list, err := segmentFiles(folder)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(list, byUse)
	out := &Pruned{}
	for _, f := range list {
		out.Left += f.size
	}
	for _, f := range list {
		if p.Kind != "" && f.kind != p.Kind || !f.used.Before(p.Older) && (p.Most < 0 || out.Left <= p.Most) {
			continue
		}
		if !removeSegment(f.path) {
			out.Busy++
			continue
		}
		out.Files, out.Bytes, out.Left = out.Files+1, out.Bytes+f.size, out.Left-f.size
		os.Remove(filepath.Dir(f.path)) // if it is empty now
	}
	return out, nil
}

// Dropped is the result of DropDamaged.
type Dropped struct {
	Files   int   `json:"files"`   // segments that were rewritten, or removed if no intact record was left
	Records int   `json:"records"` // intact ones, which were kept
	Bytes   int64 `json:"bytes"`   // by which the folder shrank
	Busy    int   `json:"busy"`    // damaged segments that could not be rewritten: a process is writing to them
}

// DropDamaged removes the damaged records from a store's folder. A damaged segment is rewritten: its intact records
// are copied to a new segment before it is removed, so that a crash loses none.
func DropDamaged(folder string) (*Dropped, error) {
	out := &Dropped{}
	err := walk(folder, func(f segmentFile, seg *segment) error {
		whole, all, err := seg.wholeRecords()
		if err != nil || len(whole) == all && !seg.headDamaged() {
			return err
		}
		if !seg.lock() {
			out.Busy++
			return nil
		}
		seg.size = 0 // a process may have written to it meanwhile
		if whole, _, err = seg.wholeRecords(); err != nil {
			return err
		}
		kept, err := seg.rewrite(whole, f.used)
		if err != nil {
			return err
		}
		if err := os.Remove(f.path); err != nil {
			return err
		}
		out.Files, out.Records, out.Bytes = out.Files+1, out.Records+len(whole), out.Bytes+f.size-kept
		return nil
	})
	return out, err
}

// record is the position of a record in a segment.
type record struct {
	address Key
	offset  int64
}

// wholeRecords returns the intact records, and the number of all records. It does not count as a use.
func (s *segment) wholeRecords() (whole []record, all int, err error) {
	s.used.Store(time.Now().Unix())
	err = s.scan(func(address Key, offset int64, _ int) {
		all++
		if _, err := s.read(address, offset); err == nil {
			whole = append(whole, record{address, offset})
		}
	})
	return whole, all, err
}

// rewrite copies records to a new segment, whose last use is set to used, and returns its size.
func (s *segment) rewrite(records []record, used time.Time) (size int64, err error) {
	if len(records) == 0 {
		return 0, nil
	}
	to, err := newSegment(filepath.Dir(s.Name()))
	if err != nil {
		return 0, err
	}
	defer to.Close()
	for _, r := range records {
		value, err := s.read(r.address, r.offset)
		if err == nil {
			_, err = to.append(r.address, value)
		}
		if err != nil {
			os.Remove(to.Name())
			return 0, err
		}
	}
	if err := to.Sync(); err != nil {
		os.Remove(to.Name())
		return 0, err
	}
	return to.size, os.Chtimes(to.Name(), used, used)
}

// walk opens every segment of a folder.
func walk(folder string, visit func(f segmentFile, seg *segment) error) error {
	list, err := segmentFiles(folder)
	if err != nil {
		return err
	}
	for _, f := range list {
		seg, err := openSegment(f.path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		err = visit(f, seg)
		if e := seg.Close(); err == nil {
			err = e
		}
		if err != nil {
			return err
		}
	}
	return nil
}
