package hub

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

// Content is a file to push: a local file, or bytes.
type Content struct {
	Path  string
	Bytes []byte // instead of the file; nil: the file
}

// Push is a commit to a repository, which is created if it does not exist.
type Push struct {
	Files     map[string]Content // by their paths in the repository
	Message   string
	Private   bool // create the repository as private; one that exists must be
	Overwrite bool // replace files with different content, and remove those that Stale names

	// Stale reports whether a file of the repository that is not in Files would spoil them; nil: none.
	Stale func(name string) bool

	Progress func(done, total int64) // bytes of large files sent; nil: not called
}

// Pushed is the commit with the files.
type Pushed struct {
	Commit string   `json:"commit"`
	URL    string   `json:"url"`
	Files  []string `json:"files"` // sent files; empty: the repository already had them all
	Bytes  int64    `json:"bytes"`

	Removed []string `json:"removed,omitempty"` // files of the repository that were removed
}

// addition is a file of a push.
type addition struct {
	path      string
	content   Content
	size      int64
	sha, blob string // SHA-256, and SHA-1 of the git blob
	head      []byte // its first bytes
	large     bool   // goes to LFS
}

// Push sends files as one commit: afterwards all of them are in the repository, or none. It fails if the repository
// has files with these names and different content, which the error names, unless they may be overwritten; and if
// there is another commit meanwhile. Files that already exist are not sent again.
func (h *Hub) Push(ctx context.Context, n Name, p Push) (*Pushed, error) {
	if err := h.CheckPush(n); err != nil {
		return nil, err
	}
	var files []*addition
	for _, name := range slices.Sorted(maps.Keys(p.Files)) {
		if !local(name) {
			return nil, &Error{Name: n, text: fmt.Sprintf("invalid file name %q", name)}
		}
		a, err := describe(name, p.Files[name])
		if err != nil {
			return nil, err
		}
		files = append(files, a)
	}
	head, there, err := h.list(ctx, n)
	if e := new(Error); errors.As(err, &e) && e.absent && !e.final {
		head, there, err = h.create(ctx, n, p.Private)
	}
	if err == nil && p.Private {
		err = h.checkPrivate(ctx, n)
	}
	if err != nil {
		return nil, err
	}
	stale := p.stale(there)
	files, err = h.others(n, files, there, p.Overwrite)
	if err == nil && len(stale) > 0 && !p.Overwrite {
		err = &Error{Name: n, text: fmt.Sprintf("it has %s at %s, which would be read with the new files: push to another "+
			"repository, or remove them with --overwrite", strings.Join(stale, ", "), n.revision())}
	}
	if err != nil || len(files)+len(stale) == 0 {
		return &Pushed{Commit: head, URL: h.page(n)}, err
	}
	if err := h.modes(ctx, n, files); err != nil {
		return nil, err
	}
	if err := h.sendLarge(ctx, n, files, p.Progress); err != nil {
		return nil, err
	}
	commit, err := h.commit(ctx, n, p, head, files, stale)
	if err != nil {
		return nil, err
	}
	out := &Pushed{Commit: commit, URL: h.page(n), Removed: stale}
	for _, a := range files {
		out.Files, out.Bytes = append(out.Files, a.path), out.Bytes+a.size
	}
	return out, nil
}

// stale lists the files of a repository that would spoil the pushed ones.
func (p *Push) stale(there []File) (names []string) {
	for _, f := range there {
		if _, ours := p.Files[f.Path]; !ours && p.Stale != nil && p.Stale(f.Path) {
			names = append(names, f.Path)
		}
	}
	return names
}

// page returns the URL of the repository's page.
func (h *Hub) page(n Name) string {
	if n.Kind == Dataset {
		return h.shown + "/datasets/" + n.Repo
	}
	return h.shown + "/" + n.Repo
}

// describe reads a file once to compute its digests.
func describe(name string, c Content) (*addition, error) {
	a := &addition{path: name, content: c}
	r, err := a.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	if a.size, err = r.Seek(0, io.SeekEnd); err == nil {
		_, err = r.Seek(0, io.SeekStart)
	}
	sha, blob := sha256.New(), sha1.New()
	fmt.Fprintf(blob, "blob %d\x00", a.size)
	b := bufio.NewReaderSize(r, 1<<20)
	if err == nil {
		a.head, err = b.Peek(512)
		if errors.Is(err, io.EOF) {
			err = nil
		}
		a.head = bytes.Clone(a.head)
	}
	if err == nil {
		_, err = io.Copy(io.MultiWriter(sha, blob), b)
	}
	sum := func(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }
	a.sha, a.blob = sum(sha), sum(blob)
	return a, err
}

// open opens the content.
func (a *addition) open() (io.ReadSeekCloser, error) {
	if a.content.Bytes == nil {
		return os.Open(a.content.Path)
	}
	return struct {
		*bytes.Reader
		io.Closer
	}{bytes.NewReader(a.content.Bytes), io.NopCloser(nil)}, nil
}

// others returns the files that are missing or different in the repository.
func (h *Hub) others(n Name, files []*addition, there []File, overwrite bool) (missing []*addition, err error) {
	have := map[string]string{}
	for _, f := range there {
		have[f.Path] = f.Digest
	}
	var other []string
	for _, a := range files {
		switch digest, ok := have[a.path]; {
		case ok && (digest == a.sha || digest == a.blob):
			continue
		case ok:
			other = append(other, a.path)
		}
		missing = append(missing, a)
	}
	if len(other) > 0 && !overwrite {
		return nil, &Error{Name: n, text: fmt.Sprintf("it already has different files named %s at %s: push to another "+
			"repository, or replace them with --overwrite", strings.Join(other, ", "), n.revision())}
	}
	return missing, nil
}

// create creates the repository.
func (h *Hub) create(ctx context.Context, n Name, private bool) (head string, files []File, err error) {
	if n.Revision != "" && n.Revision != "main" {
		return "", nil, &Error{Name: n, text: "there is no such repository, and a new one has only the branch main"}
	}
	org, name, _ := strings.Cut(n.Repo, "/")
	body := map[string]any{"type": n.Kind, "name": name, "organization": org}
	if private {
		body["visibility"] = "private"
	}
	err = h.post(ctx, n, h.Endpoint+"/api/repos/create", "application/json", body, nil)
	if e := new(Error); errors.As(err, &e) && e.Status == http.StatusConflict { // it was created meanwhile
		err = nil
	}
	if err != nil {
		return "", nil, err
	}
	return h.list(ctx, n)
}

// checkPrivate returns an error if the repository is public.
func (h *Hub) checkPrivate(ctx context.Context, n Name) error {
	var info struct {
		Private *bool `json:"private"`
	}
	if _, err := h.get(ctx, n, h.api(n, "revision", url.PathEscape(n.revision())), &info); err != nil {
		return err
	}
	if info.Private != nil && !*info.Private {
		return &Error{Name: n, text: "the repository exists and is public: make it private in its settings, push to " +
			"another one, or leave out --private"}
	}
	return nil
}

// perRequest is the number of files per request.
const perRequest = 250

// modes asks which files go to LFS.
func (h *Hub) modes(ctx context.Context, n Name, files []*addition) error {
	for part := range slices.Chunk(files, perRequest) {
		var ask struct {
			Files []map[string]any `json:"files"`
		}
		for _, a := range part {
			ask.Files = append(ask.Files, map[string]any{"path": a.path, "size": a.size,
				"sample": base64.StdEncoding.EncodeToString(a.head)})
		}
		var told struct {
			Files []struct {
				Path   string `json:"path"`
				Mode   string `json:"uploadMode"`
				Ignore bool   `json:"shouldIgnore"`
			} `json:"files"`
		}
		address := h.api(n, "preupload", url.PathEscape(n.revision()))
		if err := h.post(ctx, n, address, "application/json", ask, &told); err != nil {
			return err
		}
		modes := map[string]string{}
		for _, f := range told.Files {
			if modes[f.Path] = f.Mode; f.Ignore {
				return &Error{Name: n, text: fmt.Sprintf("its .gitignore excludes %s", f.Path)}
			}
		}
		for _, a := range part {
			switch modes[a.path] {
			case "lfs":
				a.large = a.size > 0 // LFS has no empty files
			case "regular":
			default:
				return &Error{Name: n, text: fmt.Sprintf("%s returned no upload mode for %s (%q)", h.shown, a.path,
					modes[a.path])}
			}
		}
	}
	return nil
}

// commit adds and removes files on top of the commit parent, and returns the new commit.
func (h *Hub) commit(
	ctx context.Context, n Name, p Push, parent string, files []*addition, stale []string,
) (string, error) {
	var body bytes.Buffer
	e := json.NewEncoder(&body)
	line := func(key string, value any) error { return e.Encode(map[string]any{"key": key, "value": value}) }
	err := line("header", map[string]string{"summary": p.Message, "description": "", "parentCommit": parent})
	for _, a := range files {
		if err == nil && a.large {
			err = line("lfsFile", map[string]any{"path": a.path, "algo": "sha256", "oid": a.sha, "size": a.size})
		} else if err == nil {
			var raw []byte
			if raw, err = a.bytes(); err == nil {
				err = line("file", map[string]string{"path": a.path, "encoding": "base64",
					"content": base64.StdEncoding.EncodeToString(raw)})
			}
		}
	}
	for _, name := range stale {
		if err == nil {
			err = line("deletedFile", map[string]string{"path": name})
		}
	}
	if err != nil {
		return "", err
	}
	var told struct {
		OID string `json:"commitOid"`
	}
	err = h.post(ctx, n, h.api(n, "commit", url.PathEscape(n.revision())), "application/x-ndjson", body.Bytes(), &told)
	if err != nil { // the response may be lost, or an earlier attempt may have succeeded
		if head, there, listed := h.list(ctx, n); listed == nil {
			if left, other := h.others(n, files, there, true); other == nil && len(left)+len(p.stale(there)) == 0 {
				return head, nil
			}
		}
		return "", err
	}
	if !commitHash.MatchString(told.OID) {
		return "", &Error{Name: n, text: fmt.Sprintf("%s did not return the new commit (%q)", h.shown, told.OID)}
	}
	return told.OID, nil
}

// bytes reads a small file. A file that has changed meanwhile is an error.
func (a *addition) bytes() ([]byte, error) {
	r, err := a.open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	raw, err := io.ReadAll(r)
	if sum := sha256.Sum256(raw); err == nil && hex.EncodeToString(sum[:]) != a.sha {
		err = &fs.PathError{Op: "push", Path: a.content.Path, Err: errors.New("the file changed meanwhile")}
	}
	return raw, err
}
