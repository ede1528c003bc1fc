package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"assay/internal/blocks"
	"assay/internal/remote"
)

// FolderVariable is the environment variable that overrides [DefaultFolder].
const FolderVariable = "ASSAY_STORE"

// DefaultFolder returns the folder of the user's own store: assay/store in the user's cache folder, or
// FolderVariable.
func DefaultFolder() (string, error) {
	if dir := os.Getenv(FolderVariable); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("the user's cache folder: %w (set %s to a folder)", err, FolderVariable)
	}
	return filepath.Join(dir, "assay", "store"), nil
}

// Files caches the SHA-256 of files by path, size, inode, modification time (mtime) and change time (ctime).
// Renaming, replacing and editing in place all set a new ctime, which users cannot set back. A file whose ctime is
// too recent to distinguish two changes is not cached.
type Files struct {
	bucket *Bucket // nil: cached only in this process

	mu    sync.Mutex
	known map[Key]Key
	busy  map[string]*sync.Mutex // by path: a file requested several times at once is read once
}

// settled is the age from which a file's times identify its state: file systems may round times to two seconds.
const settled = 2 * time.Second

// userFiles caches digests in memory and in the user's own store.
var userFiles = sync.OnceValue(func() *Files {
	f := &Files{known: map[Key]Key{}, busy: map[string]*sync.Mutex{}}
	if folder, err := DefaultFolder(); err == nil {
		if s, err := Open(folder, Options{}); err == nil { // if it cannot be written, files are read each time
			f.bucket, _ = s.Bucket("files-1", "")
		}
	}
	return f
})

// FileDigest returns the SHA-256 of a file's bytes, cached until the file changes: see [Files].
func FileDigest(path string) (Key, error) { return userFiles().Digest(path) }

// Digest is FileDigest.
func (f *Files) Digest(path string) (Key, error) {
	if remote.Is(path) {
		return f.object(path)
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return Key{}, err
	}
	if k, ok, err := f.lookup(path); ok || err != nil {
		return k, err
	}
	defer f.lock(path)()
	if k, ok, err := f.lookup(path); ok || err != nil {
		return k, err
	}
	file, err := os.Open(path)
	if err != nil {
		return Key{}, err
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > maxWhole {
		// Writes to a mapped file update its ctime only once the pages are on disk. If the file system cannot sync a
		// file that is open for reading, the times are used as they are.
		_ = file.Sync()
	}
	h := sha256.New()
	var state fileState
	var k Key
	for n := range 3 {
		last := k
		state, err = readUnchanged(file, func() error {
			h.Reset()
			if _, err := file.Seek(0, io.SeekStart); err != nil {
				return err
			}
			_, err := blocks.Copy(h, file)
			return err
		})
		if k = Key(h.Sum(nil)); !errors.Is(err, errChanged) {
			break
		}
		if n > 0 && k == last { // only its name or owner changed: that also sets ctime
			return k, nil
		}
	}
	if err != nil {
		return Key{}, err
	}
	f.remember(state, k)
	return k, nil
}

// object is Digest for an object on object storage, cached by its version.
func (f *Files) object(name string) (Key, error) {
	ctx := context.Background()
	before, err := remote.Stat(ctx, name)
	if err != nil {
		return Key{}, err
	}
	version := KeyOf(name, before.Version, fmt.Sprint(before.Size, before.ModTime.UnixNano()))
	if k, ok := f.find(version); ok {
		return k, nil
	}
	k, err := digestObject(ctx, name, before.Size)
	if err != nil {
		return Key{}, err
	}
	if after, err := remote.Stat(ctx, name); err == nil && after == before && before.Version != "" {
		f.remember(fileState{version, true}, k)
	}
	return k, nil
}

// maxWhole is the size of the largest object that is read in one piece: a picture, which is decoded next. Tables are
// read in blocks.
const maxWhole = 8 << 20

func digestObject(ctx context.Context, name string, size int64) (Key, error) {
	if size <= maxWhole {
		raw, err := remote.ReadAnew(ctx, name, math.MaxInt64)
		return sha256.Sum256(raw), err
	}
	f, err := remote.Open(ctx, name)
	if err != nil {
		return Key{}, err
	}
	defer f.Close()
	h := sha256.New()
	_, err = blocks.Copy(h, f)
	return Key(h.Sum(nil)), err
}

var errChanged = errors.New("it was changed while it was read")

// readUnchanged calls read and returns the state of the file, or an error if it changed meanwhile.
func readUnchanged(file *os.File, read func() error) (fileState, error) {
	before, err := stateOf(file.Name(), file.Stat)
	if err != nil {
		return before, err
	}
	if err := read(); err != nil {
		return before, err
	}
	after, err := stateOf(file.Name(), file.Stat)
	if err == nil && after.key != before.key {
		err = fmt.Errorf("%s: %w", file.Name(), errChanged)
	}
	return before, err
}

// lookup returns the cached digest of a file in its current state.
func (f *Files) lookup(path string) (Key, bool, error) {
	state, err := stateOf(path, func() (os.FileInfo, error) { return os.Stat(path) })
	if err != nil {
		return Key{}, false, err
	}
	k, ok := f.find(state.key)
	return k, ok, nil
}

// find returns the cached digest of a state.
func (f *Files) find(state Key) (Key, bool) {
	f.mu.Lock()
	k, ok := f.known[state]
	f.mu.Unlock()
	if ok || f.bucket == nil {
		return k, ok
	}
	raw := f.bucket.Get(state)
	if len(raw) != len(Key{}) {
		return Key{}, false
	}
	f.keep(state, Key(raw))
	return Key(raw), true
}

func (f *Files) remember(state fileState, k Key) {
	if !state.settled {
		return
	}
	f.keep(state.key, k)
	if f.bucket != nil {
		f.bucket.Remember(state.key, k[:])
	}
}

// keep limits the memory: with too many files it forgets all.
func (f *Files) keep(state, k Key) {
	const most = 1 << 20
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.known) >= most {
		clear(f.known)
	}
	f.known[state] = k
}

func (f *Files) lock(path string) (unlock func()) {
	f.mu.Lock()
	m := f.busy[path]
	if m == nil {
		m = &sync.Mutex{}
		f.busy[path] = m
	}
	f.mu.Unlock()
	m.Lock()
	return func() {
		f.mu.Lock()
		delete(f.busy, path)
		f.mu.Unlock()
		m.Unlock()
	}
}

// fileState identifies the state of a file by its stat.
type fileState struct {
	key     Key
	settled bool
}

func stateOf(path string, stat func() (os.FileInfo, error)) (fileState, error) {
	now := time.Now()
	info, err := stat()
	if err != nil {
		return fileState{}, err
	}
	if info.IsDir() {
		return fileState{}, fmt.Errorf("%s: a folder, want a file", path)
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return fileState{}, errors.New("the system does not report the change time of a file")
	}
	changed := time.Unix(sys.Ctim.Unix())
	return fileState{
		key:     KeyOf(path, fmt.Sprint(sys.Dev, sys.Ino, info.Size(), info.ModTime().UnixNano(), changed.UnixNano())),
		settled: now.Sub(changed) >= settled && info.Mode().IsRegular(),
	}, nil
}
