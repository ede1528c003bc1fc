package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"assay/internal/atomicfile"
)

// File is a file of a repository at one commit.
type File struct {
	Path   string `json:"path"` // with slashes
	Size   int64  `json:"size"`
	Digest string `json:"digest"` // SHA-256 of an LFS file, else SHA-1 of the git blob; the name in the cache
}

var digest = regexp.MustCompile(`^(?:[0-9a-f]{40}|[0-9a-f]{64})$`)

func (h *Hub) api(n Name, more ...string) string {
	return h.Endpoint + "/api/" + n.Kind + "s/" + n.Repo + "/" + strings.Join(more, "/")
}

// list returns the commit of a name's revision, and all files of the repository. The list of a commit is requested
// only once, because it does not change.
func (h *Hub) list(ctx context.Context, n Name) (commit string, files []File, err error) {
	if commit = n.commit(); commit != "" {
		if files, err := h.readListing(n, commit); err == nil {
			return commit, files, nil
		}
	}
	var info struct {
		SHA string `json:"sha"`
	}
	if _, err := h.get(ctx, n, h.api(n, "revision", url.PathEscape(n.revision())), &info); err != nil {
		return "", nil, err
	}
	if !commitHash.MatchString(info.SHA) || commit != "" && info.SHA != commit {
		return "", nil, &Error{Name: n, text: fmt.Sprintf("%s did not return the commit of %s (%q)", h.shown, n.revision(),
			info.SHA)}
	}
	commit = info.SHA
	if files, err := h.readListing(n, commit); err == nil {
		return commit, files, nil
	}
	files, err = h.tree(ctx, n, commit)
	return commit, files, err
}

// maxPages limits a list of files: a page of the Hub has 1,000.
const maxPages = 10_000

// tree lists a commit's files, page by page.
func (h *Hub) tree(ctx context.Context, n Name, commit string) (files []File, err error) {
	tree := h.api(n, "tree", commit)
	address := tree + "?recursive=true"
	seen := map[string]bool{}
	for address != "" {
		if seen[address] || len(seen) == maxPages {
			return nil, &Error{Name: n, text: fmt.Sprintf("%s returned an endless list of files", h.shown)}
		}
		seen[address] = true
		var page []struct {
			Type string `json:"type"`
			Path string `json:"path"`
			Size int64  `json:"size"`
			OID  string `json:"oid"`
			LFS  *struct {
				OID  string `json:"oid"`
				Size int64  `json:"size"`
			} `json:"lfs"`
		}
		header, err := h.get(ctx, n, address, &page)
		if err != nil {
			return nil, err
		}
		for _, entry := range page {
			if entry.Type != "file" {
				continue
			}
			f := File{entry.Path, entry.Size, entry.OID}
			if entry.LFS != nil {
				f.Size, f.Digest = entry.LFS.Size, strings.TrimPrefix(entry.LFS.OID, "sha256:")
			}
			files = append(files, f)
		}
		if address = nextPage(header); address != "" {
			address = tree + "?" + address // a mirror may pass on the link of the original Hub
		}
	}
	return files, check(n, files)
}

// check returns an error if a listed file would be written outside the cache, or is invalid.
func check(n Name, files []File) error {
	for _, f := range files {
		if !local(f.Path) || !digest.MatchString(f.Digest) || f.Size < 0 {
			return &Error{Name: n, text: fmt.Sprintf("bad file in its list: %q, %d bytes, digest %q", f.Path, f.Size,
				f.Digest)}
		}
	}
	return nil
}

var nextLink = regexp.MustCompile(`<([^>]+)>\s*;\s*rel="?next"?`)

// nextPage returns the query of the next page; "" if there is none.
func nextPage(header http.Header) string {
	for _, value := range header.Values("Link") {
		if m := nextLink.FindStringSubmatch(value); m != nil {
			if next, err := url.Parse(m[1]); err == nil {
				return next.RawQuery
			}
		}
	}
	return ""
}

// get reads a response of the API.
func (h *Hub) get(ctx context.Context, n Name, address string, v any) (http.Header, error) {
	answer, _, err := h.ask(ctx, n, address, "")
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1<<28))
	if err == nil {
		err = json.Unmarshal(body, v)
	}
	if err != nil {
		return nil, &Error{Name: n, passes: true, cause: err,
			text: fmt.Sprintf("cannot read the response of %s: %v (is HF_ENDPOINT a Hub?)", h.shown, err)}
	}
	return answer.Header, nil
}

// listing is a cached list of files, in the format that huggingface_hub writes to trees/. Ours are in another folder:
// with a list in trees/, it would consider a snapshot without the files that we do not need broken.
type listing struct {
	Version int                    `json:"format_version"`
	Files   map[string]listingFile `json:"files"`
}

type listingFile struct {
	Size   int64  `json:"size"`
	BlobID string `json:"blob_id"`
	SHA256 string `json:"lfs_sha256,omitempty"`
	Large  int64  `json:"lfs_size,omitempty"`
}

const listingFolder = ".assay"

func (h *Hub) readListing(n Name, commit string) ([]File, error) {
	for _, folder := range []string{listingFolder, "trees"} {
		text, err := os.ReadFile(filepath.Join(h.folder(n), folder, commit+".json"))
		if err != nil {
			continue
		}
		var l listing
		if json.Unmarshal(text, &l) != nil || l.Version != 1 {
			continue // it is requested again
		}
		var files []File
		for name, f := range l.Files {
			file := File{name, f.Size, f.BlobID}
			if f.SHA256 != "" {
				file.Size, file.Digest = f.Large, f.SHA256
			}
			files = append(files, file)
		}
		slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
		if check(n, files) == nil {
			return files, nil
		}
	}
	return nil, errors.New("no list of files is cached")
}

func (h *Hub) writeListing(n Name, commit string, files []File) error {
	file := filepath.Join(h.folder(n), listingFolder, commit+".json")
	if _, err := os.Stat(file); err == nil {
		return nil
	}
	l := listing{Version: 1, Files: map[string]listingFile{}}
	for _, f := range files {
		entry := listingFile{Size: f.Size, BlobID: f.Digest}
		if len(f.Digest) == 64 {
			entry.SHA256, entry.Large = f.Digest, f.Size
		}
		l.Files[f.Path] = entry
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
		return err
	}
	return atomicfile.Write(file, func(w io.Writer) error { return json.NewEncoder(w).Encode(l) })
}
