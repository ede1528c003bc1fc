package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"assay/internal/atomicfile"
	"assay/internal/filelock"
)

// folder returns the folder of a repository in the cache.
func (h *Hub) folder(n Name) string { return filepath.Join(h.Cache, n.entry()) }

// entry returns the name of a repository in the cache: models--org--name.
func (n Name) entry() string { return n.Kind + "s--" + strings.ReplaceAll(n.Repo, "/", "--") }

func (h *Hub) snapshot(n Name, commit string) string {
	return filepath.Join(h.folder(n), "snapshots", commit)
}

func (h *Hub) blob(n Name, digest string) string { return filepath.Join(h.folder(n), "blobs", digest) }

// has reports whether a file, or the target of a link, exists and has this size.
func has(file string, size int64) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Size() == size
}

// missing lists the files that are not in a snapshot.
func (h *Hub) missing(n Name, commit string, files []File) (list []File) {
	for _, f := range files {
		if !has(filepath.Join(h.snapshot(n, commit), filepath.FromSlash(f.Path)), f.Size) {
			list = append(list, f)
		}
	}
	return list
}

// complete fetches the missing ones of the chosen files, links them into the snapshot of the commit, and records the
// commit of the revision. It returns the path that the name refers to. all are the files of the repository.
func (h *Hub) complete(ctx context.Context, n Name, commit string, all, chosen []File) (string, error) {
	missing := h.missing(n, commit, chosen)
	if len(missing) > 0 {
		err := h.download(ctx, n, commit, missing)
		if err == nil {
			err = h.link(n, commit, missing)
		}
		if err != nil {
			return "", removed(n, err)
		}
	}
	err := errors.Join(h.writeListing(n, commit, all), h.writeRef(n, commit))
	if len(missing) == 0 {
		err = nil // a complete cache may be read-only
	}
	return filepath.Join(h.snapshot(n, commit), filepath.FromSlash(n.Path)), err
}

// removed returns an error that says so if files were removed from the cache during a fetch: a name that does not exist
// is the user's mistake, this is not.
func removed(n Name, err error) error {
	var known *Error
	var local *fs.PathError
	if !errors.Is(err, fs.ErrNotExist) || errors.As(err, &known) || errors.As(err, &local) && local.Op == "mkdir" {
		return err
	}
	return &Error{Name: n, passes: true, text: fmt.Sprintf("its files in the cache were removed during the fetch (%v): "+
		"run the command again", err)}
}

// writeRef records the commit of a revision that is a branch or tag.
func (h *Hub) writeRef(n Name, commit string) error {
	if n.revision() == commit {
		return nil
	}
	file := filepath.Join(h.folder(n), "refs", filepath.FromSlash(n.revision()))
	if text, err := os.ReadFile(file); err == nil && string(text) == commit {
		return nil
	}
	err := os.MkdirAll(filepath.Dir(file), 0o777)
	if err == nil {
		beside := file + "." + unlike() + ".tmp"
		if err = os.WriteFile(beside, []byte(commit), 0o666); err == nil {
			if err = os.Rename(beside, file); err != nil {
				os.Remove(beside)
			}
		}
	}
	// The layout cannot hold both a branch a and a branch a/b. The second one is looked up each time.
	if errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) || errors.Is(err, syscall.EEXIST) {
		return nil
	}
	return err
}

// link creates a snapshot's links to blobs. A new snapshot appears all at once. In an existing one, the files by
// which a model or scorer is recognised are linked last. Where links are impossible, it moves the blobs there.
func (h *Hub) link(n Name, commit string, files []File) error {
	to := h.snapshot(n, commit)
	if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
		return err
	}
	into, links := to, h.links(n)
	if _, err := os.Stat(to); err != nil && links {
		h.removeLeftovers(n)
		into = filepath.Join(h.folder(n), unfinished+commit+"-"+unlike())
		if err := os.MkdirAll(into, 0o777); err != nil {
			return err
		}
		defer os.RemoveAll(into)
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b File) int { return mark(a) - mark(b) })
	for i, f := range files {
		place := func() error { return linkFile(into, f) }
		if !links {
			again := slices.ContainsFunc(files[i+1:], func(other File) bool { return other.Digest == f.Digest })
			place = func() error { return h.move(n, commit, f, again) }
		}
		if err := place(); err != nil {
			return err
		}
	}
	if into == to {
		return nil
	}
	err := os.Rename(into, to)
	if errors.Is(err, syscall.ENOTEMPTY) || errors.Is(err, syscall.EEXIST) { // another process created it
		return h.link(n, commit, files)
	}
	return err
}

// unlike returns a unique part of a temporary name. PIDs are not unique across containers.
func unlike() string { return fmt.Sprintf("%08x", rand.Uint32()) }

// unfinished is the prefix of a folder that becomes a snapshot.
const unfinished = ".snapshot-"

// removeLeftovers removes unfinished snapshots of killed processes.
func (h *Hub) removeLeftovers(n Name) {
	list, _ := os.ReadDir(h.folder(n))
	for _, entry := range list {
		info, err := entry.Info()
		if err == nil && strings.HasPrefix(entry.Name(), unfinished) && time.Since(info.ModTime()) > time.Hour {
			os.RemoveAll(filepath.Join(h.folder(n), entry.Name()))
		}
	}
}

// mark returns 1 for the files by which a folder is recognised, which are linked last, else 0.
func mark(f File) int {
	if slices.Contains(append(judges, "config.json", "adapter_config.json"), path.Base(f.Path)) {
		return 1
	}
	return 0
}

// links reports whether the cache can have symbolic links: some file systems have none, such as FAT.
func (h *Hub) links(n Name) bool {
	if h.NoLinks {
		return false
	}
	probe := filepath.Join(h.folder(n), "."+unlike()+".tmp")
	err := os.Symlink("blobs", probe)
	os.Remove(probe)
	return !errors.Is(err, errors.ErrUnsupported) && !errors.Is(err, syscall.EPERM)
}

// move puts a blob itself into a snapshot, as huggingface_hub does without links, or a copy if another file needs it.
func (h *Hub) move(n Name, commit string, f File, again bool) error {
	at, blob := filepath.Join(h.snapshot(n, commit), filepath.FromSlash(f.Path)), h.blob(n, f.Digest)
	err := os.MkdirAll(filepath.Dir(at), 0o777)
	if err == nil && again {
		err = atomicfile.Copy(blob, at)
	} else if err == nil {
		err = os.Rename(blob, at)
	}
	if has(at, f.Size) { // another process moved it
		return nil
	}
	return err
}

// linkFile creates the link of one file in a snapshot's folder, or replaces one with another target.
func linkFile(snapshot string, f File) error {
	at := filepath.Join(snapshot, filepath.FromSlash(f.Path))
	if err := os.MkdirAll(filepath.Dir(at), 0o777); err != nil {
		return err
	}
	to := strings.Repeat("../", 2+strings.Count(f.Path, "/")) + "blobs/" + f.Digest
	beside := at + "." + unlike() + ".tmp"
	if err := os.Symlink(to, beside); err != nil {
		return err
	}
	return os.Rename(beside, at)
}

// lock waits for the lock of a blob, which huggingface_hub also takes.
func (h *Hub) lock(ctx context.Context, n Name, digest string) (*os.File, error) {
	file := filepath.Join(h.Cache, ".locks", n.entry(), digest+".lock")
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return nil, err
	}
	for {
		f, err := filelock.Take(file)
		if !errors.Is(err, filelock.ErrHeld) || ctx.Err() != nil {
			return f, err
		}
	}
}

// tag marks the cache for backup programs.
func (h *Hub) tag() {
	file := filepath.Join(h.Cache, "CACHEDIR.TAG")
	if _, err := os.Lstat(file); err != nil {
		os.WriteFile(file, []byte("Signature: 8a477f597d28d172789f06886806bc55\n"), 0o666) // best effort
	}
}

// Kept is a revision in the cache.
type Kept struct {
	Name  string    `json:"name"` // with its commit
	Refs  []string  `json:"refs,omitempty"`
	Files int       `json:"files"`
	Bytes int64     `json:"bytes"` // files shared by several revisions count in each
	Used  time.Time `json:"used"`
	Path  string    `json:"path"`
}

// Kept lists the models and data sets in the cache.
func (h *Hub) Kept() (list []Kept, err error) {
	var snapshots []string
	repositories, err := os.ReadDir(h.Cache)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	for _, repository := range repositories {
		folder := filepath.Join(h.Cache, repository.Name(), "snapshots")
		commits, _ := os.ReadDir(folder) // other folders have none
		for _, commit := range commits {
			snapshots = append(snapshots, filepath.Join(folder, commit.Name()))
		}
	}
	for _, dir := range snapshots {
		n, ok := NameOf(dir)
		if !ok {
			continue
		}
		k := Kept{Name: n.String(), Path: dir, Refs: h.refs(n)}
		err := filepath.WalkDir(dir, func(file string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			if info, err := os.Stat(file); err == nil {
				k.Files, k.Bytes = k.Files+1, k.Bytes+info.Size()
				if used := accessed(info); used.After(k.Used) {
					k.Used = used
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// refs lists the branches and tags of a commit.
func (h *Hub) refs(n Name) (list []string) {
	root := filepath.Join(h.folder(n), "refs")
	filepath.WalkDir(root, func(file string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // unreadable files are not listed
		}
		if text, err := os.ReadFile(file); err == nil && string(text) == n.Revision {
			name, _ := filepath.Rel(root, file)
			list = append(list, filepath.ToSlash(name))
		}
		return nil
	})
	return list
}

func accessed(info os.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Atim.Sec, s.Atim.Nsec)
	}
	return info.ModTime()
}
