// Package hubtest is a fake Hub on this machine: repositories, the API that lists them, files with the Hub's headers,
// large files on another host, and uploads. Faults can be injected. Tests fetch from it, and the checks from Python
// use it with huggingface_hub.
package hubtest

import (
	"bytes"
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Repo is a repository.
type Repo struct {
	Kind    string                       // model or dataset
	ID      string                       // org/name
	Refs    map[string]string            // commits of branches and tags
	Commits map[string]map[string][]byte // files of commits
	Gated   bool                         // its files need the token
	Private bool                         // the repository itself needs the token
}

// Large is the minimum size of files in LFS. Safetensors of any size are also in LFS.
const Large = 1 << 20

// Server is a Hub. Its fields may be changed while there are no requests.
type Server struct {
	URL, CDN string // of the Hub, and of the host of large files
	Token    string // for gated repositories
	Page     int    // files per page of a list; 0: 1000
	Links    string // host in links to the next page, such as that of a mirror; "": URL

	// Fault is called before a request is answered. It may answer itself, and then returns true.
	Fault func(w http.ResponseWriter, r *http.Request) bool
	// Cut closes the connection after the returned number of bytes of a file; nil: never.
	Cut func(r *http.Request, size int) int
	// Parts is the size of the parts in which larger files are uploaded; 0: in one.
	Parts int64
	// Slow is the pause after each piece of 64 kB of a file.
	Slow time.Duration

	mu      sync.Mutex
	repos   map[string]*Repo
	objects map[string][]byte // uploaded large files, by digest
	pieces  map[string][]byte // their parts, by digest/number
	log     []string
	sent    int64
	stop    []func()
}

// Start starts a server on free ports.
func Start(repos ...*Repo) *Server {
	s := &Server{repos: map[string]*Repo{}}
	for _, r := range repos {
		s.repos[r.Kind+"s/"+r.ID] = r
	}
	hub := httptest.NewServer(http.HandlerFunc(s.hub))
	cdn := httptest.NewServer(http.HandlerFunc(s.cdn))
	s.URL, s.CDN = hub.URL, cdn.URL
	s.stop = []func(){hub.Close, cdn.Close}
	return s
}

// Close stops the server.
func (s *Server) Close() {
	for _, stop := range s.stop {
		stop()
	}
}

// Requests lists the requests since the last call: method, host (hub or cdn), path, range, and "token" if there was
// one.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := s.log
	s.log = nil
	return list
}

// Sent returns the number of bytes of files sent since the last call.
func (s *Server) Sent() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := s.sent
	s.sent = 0
	return n
}

func (s *Server) note(host string, r *http.Request) {
	line := r.Method + " " + host + " " + r.URL.EscapedPath()
	if span := r.Header.Get("Range"); span != "" {
		line += " " + span
	}
	if r.Header.Get("Authorization") != "" {
		line += " token"
	}
	s.mu.Lock()
	s.log = append(s.log, line)
	s.mu.Unlock()
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	w.Header().Set("X-Error-Code", code)
	w.Header().Set("X-Error-Message", message)
	w.WriteHeader(status)
}

// Commit returns a commit hash derived from a text.
func Commit(text string) string {
	sum := sha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

// Files reads the files of a folder, by their paths in it.
func Files(folder string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, file)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(name)], err = os.ReadFile(file)
		return err
	})
	return files, err
}

// Environment sets the endpoint and an empty cache with setenv, a test's Setenv, and unsets the Hub's other
// variables.
func (s *Server) Environment(setenv func(name, value string), cache string) {
	for _, name := range []string{"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN", "HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE",
		"HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_TOKEN_PATH", "HF_HUB_DOWNLOAD_TIMEOUT",
		"HF_HUB_DISABLE_IMPLICIT_TOKEN", "HF_HUB_DISABLE_SYMLINKS"} {
		setenv(name, "")
	}
	setenv("HF_ENDPOINT", s.URL)
	setenv("HF_HOME", cache)
}

// Digest returns the name of a file in the Hub's storage and in caches.
func Digest(path string, content []byte) string {
	if inLFS(path, content) {
		sum := sha256.Sum256(content)
		return hex.EncodeToString(sum[:])
	}
	return gitHash(content)
}

func gitHash(content []byte) string {
	return Commit(fmt.Sprintf("blob %d\x00%s", len(content), content))
}

func inLFS(path string, content []byte) bool {
	return len(content) >= Large || strings.HasSuffix(path, ".safetensors")
}

func pointer(content []byte) []byte {
	return fmt.Appendf(nil, "version https://git-lfs.github.com/spec/v1\noid sha256:%x\nsize %d\n", sha256.Sum256(content),
		len(content))
}

// place is the parsed path of a request.
type place struct {
	api                        bool
	repo, page, revision, file string // page: revision, tree or resolve
}

// at parses /api/models/org/name/revision/main, /org/name/resolve/main/file, /datasets/org/name/... and so on.
func at(r *http.Request) (p place) {
	rest, api := strings.CutPrefix(strings.TrimPrefix(r.URL.EscapedPath(), "/"), "api/")
	if !api && !strings.HasPrefix(rest, "datasets/") {
		rest = "models/" + rest
	}
	parts := append(strings.SplitN(rest, "/", 6), make([]string, 6)...)
	p = place{api: api, repo: strings.Join(parts[:3], "/"), page: parts[3]}
	p.revision, _ = url.PathUnescape(parts[4])
	p.file, _ = url.PathUnescape(parts[5])
	if api && p.page == "" {
		p.page, p.revision = "revision", "main"
	}
	return p
}

func (s *Server) hub(w http.ResponseWriter, r *http.Request) {
	s.note("hub", r)
	if s.Fault != nil && s.Fault(w, r) {
		return
	}
	if s.upload(w, r) {
		return
	}
	p := at(r)
	repo := s.repos[p.repo]
	known := s.Token != "" && r.Header.Get("Authorization") == "Bearer "+s.Token
	if repo == nil || repo.Private && !known {
		refuse(w, http.StatusUnauthorized, "RepoNotFound", "Repository not found")
		return
	}
	commit := cmp.Or(repo.Refs[p.revision], p.revision)
	files, ok := repo.Commits[commit]
	switch {
	case !ok:
		refuse(w, http.StatusNotFound, "RevisionNotFound", "Invalid rev id: "+p.revision)
	case p.api && p.page == "revision":
		s.info(w, repo, commit, files)
	case p.api && p.page == "tree":
		s.tree(w, r, files)
	case p.page == "resolve":
		w.Header().Set("X-Repo-Commit", commit)
		s.resolve(w, r, repo, p.file, files, known)
	default:
		refuse(w, http.StatusNotFound, "", "no such page")
	}
}

func (s *Server) info(w http.ResponseWriter, repo *Repo, commit string, files map[string][]byte) {
	type sibling struct {
		Name string `json:"rfilename"`
	}
	var list []sibling
	for _, name := range slices.Sorted(maps.Keys(files)) {
		list = append(list, sibling{name})
	}
	answer(w, map[string]any{"id": repo.ID, "modelId": repo.ID, "sha": commit, "private": repo.Private, "siblings": list,
		"tags": []string{}, "downloads": 0, "likes": 0, "gated": false, "disabled": false})
}

func answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(v); err != nil {
		panic(err)
	}
}

func (s *Server) tree(w http.ResponseWriter, r *http.Request, files map[string][]byte) {
	page := s.Page
	page = cmp.Or(page, 1000)
	first, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
	list := []map[string]any{}
	names := slices.Sorted(maps.Keys(files))
	last := min(first+page, len(names))
	for _, name := range names[first:last] {
		content := files[name]
		entry := map[string]any{"type": "file", "path": name, "size": len(content), "oid": gitHash(content)}
		if inLFS(name, content) {
			p := pointer(content)
			entry["oid"] = gitHash(p)
			entry["lfs"] = map[string]any{"oid": Digest(name, content), "size": len(content), "pointerSize": len(p)}
		}
		list = append(list, entry)
	}
	if first == 0 {
		list = append(list, map[string]any{"type": "directory", "path": "folder", "size": 0, "oid": gitHash(nil)})
	}
	if last < len(names) {
		w.Header().Set("Link", fmt.Sprintf(`<%s%s?recursive=true&cursor=%d>; rel="next"`, cmp.Or(s.Links, s.URL),
			r.URL.EscapedPath(), last))
	}
	answer(w, list)
}

func (s *Server) resolve(
	w http.ResponseWriter, r *http.Request, repo *Repo, name string, files map[string][]byte, known bool,
) {
	if repo.Gated && !known {
		status := http.StatusUnauthorized
		if r.Header.Get("Authorization") != "" {
			status = http.StatusForbidden
		}
		refuse(w, status, "GatedRepo", "Access to model "+repo.ID+" is restricted")
		return
	}
	content, ok := files[name]
	if !ok {
		refuse(w, http.StatusNotFound, "EntryNotFound", "Entry not found")
		return
	}
	id := Digest(name, content)
	if !inLFS(name, content) {
		w.Header().Set("ETag", `"`+id+`"`)
		s.file(w, r, content)
		return
	}
	w.Header().Set("X-Linked-Etag", `"`+id+`"`)
	w.Header().Set("X-Linked-Size", strconv.Itoa(len(content)))
	w.Header().Set("ETag", `"`+gitHash(pointer(content))+`"`)
	w.Header().Set("Location", s.CDN+"/"+repo.Kind+"s/"+repo.ID+"/"+id+"?signature=1")
	w.WriteHeader(http.StatusFound)
}

func (s *Server) cdn(w http.ResponseWriter, r *http.Request) {
	s.note("cdn", r)
	if s.Fault != nil && s.Fault(w, r) {
		return
	}
	if r.Method == http.MethodPut {
		s.put(w, r)
		return
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/"), "/")
	repo := s.repos[strings.Join(parts[:min(3, len(parts))], "/")]
	if repo != nil && len(parts) == 4 {
		for _, files := range repo.Commits {
			for name, content := range files {
				if Digest(name, content) == parts[3] {
					s.file(w, r, content)
					return
				}
			}
		}
	}
	http.NotFound(w, r)
}

// file sends a file or a range of it, with the configured delay.
func (s *Server) file(w http.ResponseWriter, r *http.Request, content []byte) {
	out := &metered{ResponseWriter: w, s: s, left: -1}
	if s.Cut != nil {
		out.left = s.Cut(r, len(content))
	}
	http.ServeContent(out, r, "", time.Time{}, bytes.NewReader(content))
}

// metered counts the bytes sent of a file, slows them down, and cuts them off.
type metered struct {
	http.ResponseWriter
	s    *Server
	left int // bytes until the end; -1: all
}

func (m *metered) Write(p []byte) (int, error) {
	total := 0
	for len(p) > 0 {
		piece := min(len(p), 1<<16)
		if m.left >= 0 {
			piece = min(piece, m.left)
			m.left -= piece
		}
		n, err := m.ResponseWriter.Write(p[:piece])
		m.s.mu.Lock()
		m.s.sent += int64(n)
		m.s.mu.Unlock()
		total, p = total+n, p[n:]
		if err != nil {
			return total, err
		}
		if m.left == 0 && len(p) > 0 {
			if f, ok := m.ResponseWriter.(http.Flusher); ok {
				f.Flush()
			}
			panic(http.ErrAbortHandler)
		}
		time.Sleep(m.s.Slow)
	}
	return total, nil
}
