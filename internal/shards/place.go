package shards

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"assay/internal/atomicfile"
	"assay/internal/remote"
)

// place is the folder that workers share. Names are names of files in it.
type place interface {
	has(name string) (bool, error)
	read(name string) ([]byte, error)              // fs.ErrNotExist if it does not exist
	write(name string, raw []byte) error           // complete or as it was before
	once(name string, raw []byte) error            // complete; an existing file stays
	claim(name string, raw []byte) error           // fs.ErrExist if it exists: only one of several succeeds
	renew(name string, raw []byte) error           // of an existing file: resets its age
	age(name string) (time.Duration, error)        // time since it was written, by the clock of the place
	expire(name string) error                      // makes it as old as possible
	remove(name string) error                      // a missing file is not an error
	progress(name string) (path string, err error) // a file on this machine for partial results
}

func placeOf(dir string) place {
	if remote.Is(dir) {
		return objects(dir)
	}
	return disk(dir)
}

// disk is a folder in a file system.
type disk string

func (d disk) path(name string) string { return filepath.Join(string(d), name) }

func (d disk) has(name string) (bool, error) {
	_, err := os.Lstat(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (d disk) read(name string) ([]byte, error) { return os.ReadFile(d.path(name)) }

func (d disk) write(name string, raw []byte) error {
	return atomicfile.WriteBytes(d.path(name), raw)
}

func (d disk) once(name string, raw []byte) error {
	if err := os.MkdirAll(string(d), 0o777); err != nil {
		return err
	}
	path := d.path(name)
	// One process may call this several times at once.
	beside := fmt.Sprintf("%s.%s-%08x", name, worker().Worker, rand.Uint32())
	if err := d.write(beside, raw); err != nil {
		return err
	}
	err := os.Link(d.path(beside), path)
	if errors.Is(err, fs.ErrExist) {
		err = nil
	} else if err != nil { // a file system without links: all workers write the same plan
		return os.Rename(d.path(beside), path)
	}
	return errors.Join(err, os.Remove(d.path(beside)))
}

func (d disk) claim(name string, raw []byte) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), d.renew(name, raw))
}

// renew rewrites the file, which updates its time by the clock of the file system.
func (d disk) renew(name string, raw []byte) error {
	f, err := os.OpenFile(d.path(name), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Close())
}

func (d disk) age(name string) (time.Duration, error) {
	info, err := os.Stat(d.path(name))
	if err != nil {
		return 0, err
	}
	clock := d.path(".clock-" + worker().Worker)
	if err := os.WriteFile(clock, []byte("now\n"), 0o666); err != nil {
		return 0, err
	}
	now, err := os.Stat(clock)
	if err = errors.Join(err, os.Remove(clock)); err != nil {
		return 0, err
	}
	age := now.ModTime().Sub(info.ModTime())
	if age < 0 { // the clock was set back: the lease of a lost worker would not expire until the clock catches up
		age = 0
		err = os.Chtimes(d.path(name), time.Time{}, now.ModTime())
	}
	return age, err
}

func (d disk) expire(name string) error {
	return os.Chtimes(d.path(name), time.Time{}, time.Unix(0, 0))
}

func (d disk) remove(name string) error {
	err := os.Remove(d.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (d disk) progress(name string) (string, error) { return d.path(name), nil }
