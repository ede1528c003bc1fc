// Package hub fetches checkpoints, adapters, scorers and data sets from the Hugging Face Hub by name, and pushes
// scorers to it ([Hub.Push]).
//
// [Resolve] turns a name such as hf://org/name@revision/folder into a path on this machine:
//
//	name -> commit and list of files (two requests) -> needed files that are not cached -> blobs -> snapshot
//
// The cache is shared with Python's huggingface_hub: the layout follows its published specification, and the
// environment variables are the same ([FromEnvironment]). A file gets its final name only after its digest was
// verified. A killed process leaves partial blobs that the next one resumes.
//
// The network is only used for names that start with hf://, or for org/name if neither that folder nor org exists.
package hub

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"assay/internal/exit"
)

// Plan describes what is about to be fetched.
type Plan struct {
	Name     Name
	Commit   string
	Endpoint string // source
	Folder   string // destination: the repository's folder in the cache
	Files    int    // number of files to fetch
	Bytes    int64  // of these files
	Present  int64  // bytes of them left by an interrupted fetch
}

// Monitor gets the progress of a fetch. Any of its functions may be nil. They are called by one goroutine at a time.
type Monitor struct {
	Begin func(p *Plan)            // before the first byte
	Bytes func(done, total int64)  // of the plan, while it is fetched
	End   func(p *Plan, err error) // after Begin, in any case
	Warn  func(text string)
	Note  func(text string)
}

// Session is shared by all fetches of a process.
type Session struct {
	Context   context.Context
	Monitor   Monitor
	NoWeights bool // see [Hub]
}

var session atomic.Pointer[Session]

// Begin sets the context and the monitor for fetches in functions without a context, when a file refers to a
// repository.
func Begin(s *Session) { session.Store(s) }

func current() *Session {
	if s := session.Load(); s != nil {
		return s
	}
	return &Session{Context: context.Background()}
}

// Resolve returns the local path of a checkpoint, adapter, scorer or data set that is named by a path, by
// hf://org/name@revision/path, or by org/name. Missing files are fetched. Any other name is returned as it is. The
// repository must have one of the files in needs, or nothing is fetched. Within a process a name always resolves to
// the same commit.
func Resolve(ctx context.Context, name string, needs ...string) (string, error) {
	n, ok, err := Of("", name)
	if err != nil || !ok {
		return name, err
	}
	return resolve(ctx, n, needs)
}

// resolved maps names to the paths that they were resolved to in this process.
var resolved sync.Map

func resolve(ctx context.Context, n Name, needs []string) (string, error) {
	h, err := FromEnvironment()
	if err != nil {
		return "", err
	}
	s := current()
	h.Monitor, h.NoWeights, h.loads = s.Monitor, s.NoWeights, true
	key := fmt.Sprint(h.Endpoint, h.Cache, n, needs, h.NoWeights)
	if path, ok := resolved.Load(key); ok {
		if _, err := os.Stat(path.(string)); err == nil {
			return path.(string), nil
		}
	}
	path, err := h.Fetch(ctx, n, needs...)
	if err == nil {
		resolved.Store(key, path)
	} else if n.Plain {
		err = fmt.Errorf("there is no folder %s here, and %w", strings.TrimPrefix(n.String(), Scheme), err)
	}
	return path, err
}

// Beside returns the path of a model that a file in a folder refers to: by a path relative to the folder, or by a
// name on the Hub.
func Beside(folder, name string, needs ...string) (string, error) {
	n, ok, err := Of(folder, name)
	switch {
	case err != nil:
		return "", err
	case ok:
		return resolve(current().Context, n, needs)
	case name == "" || filepath.IsAbs(name):
		return name, nil
	}
	return filepath.Join(folder, name), nil
}

// ResolveURI is Resolve for names that start with hf://, for functions without a context.
func ResolveURI(name string, needs ...string) (string, error) {
	if !Is(name) {
		return name, nil
	}
	return Resolve(current().Context, name, needs...)
}

// Fetch completes the files of a name in the cache, and returns its path there. If ctx ends the error is
// exit.ErrInterrupted: the next call resumes.
func (h *Hub) Fetch(ctx context.Context, n Name, needs ...string) (string, error) {
	path, err := h.fetch(ctx, n, needs)
	if err != nil && ctx.Err() != nil {
		return "", fmt.Errorf("fetching %s: %w (%w): the same command resumes", n, exit.ErrInterrupted, context.Cause(ctx))
	}
	return path, err
}

func (h *Hub) fetch(ctx context.Context, n Name, needs []string) (string, error) {
	if h.Offline {
		return h.cached(n, needs, &Error{Name: n, text: "HF_HUB_OFFLINE is set"})
	}
	commit, files, err := h.list(ctx, n)
	if err != nil {
		var e *Error
		if errors.As(err, &e) && e.final || ctx.Err() != nil {
			return "", err
		}
		path, missing := h.cached(n, needs, err)
		if missing != nil {
			return "", missing
		}
		h.warn(fmt.Sprintf("%s: using the cached files: %v", n, err))
		return path, nil
	}
	chosen, err := h.choose(n, commit, files, needs)
	if err != nil {
		return "", err
	}
	return h.complete(ctx, n, commit, files, chosen)
}

// Plan lists the files that Fetch would complete, and those of them whose contents are not in the cache.
func (h *Hub) Plan(ctx context.Context, n Name) (commit string, all, missing []File, err error) {
	if h.Offline {
		why := &Error{Name: n, text: "HF_HUB_OFFLINE is set"}
		if _, err := h.cached(n, nil, why); err != nil {
			return "", nil, nil, err
		}
		commit = h.commitOf(n)
		files, err := h.readListing(n, commit)
		if err != nil {
			why.text += ", and the list of the repository's files is not cached"
			return "", nil, nil, why
		}
		all, err = choose(n, files, nil)
		return commit, all, nil, err
	}
	commit, files, err := h.list(ctx, n)
	if err != nil {
		return "", nil, nil, err
	}
	all, err = choose(n, files, nil)
	for _, f := range h.missing(n, commit, all) {
		same := func(other File) bool { return other.Digest == f.Digest }
		if !has(h.blob(n, f.Digest), f.Size) && !slices.ContainsFunc(missing, same) {
			missing = append(missing, f)
		}
	}
	return commit, all, missing, err
}

func (h *Hub) warn(text string) {
	if h.Monitor.Warn != nil {
		h.Monitor.Warn(text)
	}
}

// commitOf returns the commit of a name's revision from the cache; "" if it is unknown.
func (h *Hub) commitOf(n Name) string {
	if commit := n.commit(); commit != "" {
		return commit
	}
	text, err := os.ReadFile(filepath.Join(h.folder(n), "refs", filepath.FromSlash(n.revision())))
	if err != nil || !commitHash.Match(text) {
		return ""
	}
	return string(text)
}

// cached returns the path of a name in the cache. If it is not there, the error says why it was not fetched.
func (h *Hub) cached(n Name, needs []string, why error) (string, error) {
	commit := h.commitOf(n)
	absent := &Error{Name: n, absent: true, cause: why}
	reason := why.Error()
	var e *Error
	if errors.As(why, &e) {
		absent.passes, reason = e.passes, e.text
	}
	absent.text = fmt.Sprintf("%s, and it is not in the cache %s", reason, h.Cache)
	if commit == "" {
		return "", absent
	}
	path := filepath.Join(h.snapshot(n, commit), filepath.FromSlash(n.Path))
	if _, err := os.Stat(path); err != nil {
		return "", absent
	}
	if files, err := h.readListing(n, commit); err == nil {
		chosen, err := h.choose(n, commit, files, needs)
		if err != nil {
			return "", err
		}
		if missing := h.missing(n, commit, chosen); len(missing) > 0 {
			absent.text = fmt.Sprintf("%s, and %d of its files are not in the cache %s, such as %s", reason, len(missing),
				h.Cache, missing[0].Path)
			return "", absent
		}
		return path, nil
	}
	// There is no list of files: use the snapshot, which may be incomplete.
	found := len(needs) == 0
	for _, name := range needs {
		_, err := os.Stat(filepath.Join(path, name))
		found = found || !errors.Is(err, fs.ErrNotExist)
	}
	if found {
		h.warn(fmt.Sprintf("%s: %s; the cache has some of its files, possibly not all", n, reason))
		return path, nil
	}
	return "", lacks(n, needs, nil)
}
