package hubtest

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
)

// Repo returns a repository, which may have been created meanwhile; nil if there is none.
func (s *Server) Repo(kind, id string) *Repo {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.repos[kind+"s/"+id]
}

// upload answers the requests for uploads; ok reports whether it was one.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) (ok bool) {
	path := r.URL.Path
	switch {
	case r.Method == http.MethodPost && path == "/api/validate-yaml":
		answer(w, map[string]any{"errors": []string{}, "warnings": []string{}})
		return true
	case r.Method == http.MethodPost && path == "/api/repos/create":
		s.authorized(w, r, s.create)
		return true
	case r.Method == http.MethodPost && strings.HasSuffix(path, ".git/info/lfs/objects/batch"):
		s.authorized(w, r, s.batch)
		return true
	case r.Method == http.MethodPost && strings.HasPrefix(path, "/lfs/"): // verify, or the end of a multipart upload
		s.authorized(w, r, s.uploaded)
		return true
	}
	p := at(r)
	if r.Method != http.MethodPost || !p.api || p.page != "preupload" && p.page != "commit" {
		return false
	}
	s.authorized(w, r, func(w http.ResponseWriter, r *http.Request) {
		repo := s.repos[p.repo]
		switch {
		case repo == nil:
			refuse(w, http.StatusNotFound, "RepoNotFound", "Repository not found")
		case p.page == "preupload":
			s.preupload(w, r)
		default:
			s.commit(w, r, repo, p.revision)
		}
	})
	return true
}

// authorized calls do if the request has the token, or any token if Token is empty.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request, do http.HandlerFunc) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || s.Token != "" && token != s.Token {
		refuse(w, http.StatusUnauthorized, "", "Invalid username or password.")
		return
	}
	do(w, r)
}

func read(w http.ResponseWriter, r *http.Request, v any) bool {
	err := json.NewDecoder(r.Body).Decode(v)
	if err != nil {
		refuse(w, http.StatusBadRequest, "", err.Error())
	}
	return err == nil
}

func (s *Server) create(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Type, Name, Organization, Visibility string
	}
	if !read(w, r, &ask) {
		return
	}
	id := ask.Organization + "/" + ask.Name
	ask.Type = cmp.Or(ask.Type, "model")
	key := ask.Type + "s/" + id
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repos[key] != nil {
		refuse(w, http.StatusConflict, "", "You already created this repo")
		return
	}
	first := Commit(key)
	s.repos[key] = &Repo{Kind: ask.Type, ID: id, Private: ask.Visibility == "private",
		Refs:    map[string]string{"main": first},
		Commits: map[string]map[string][]byte{first: {".gitattributes": []byte("*.safetensors filter=lfs\n")}}}
	answer(w, map[string]any{"url": s.URL + "/" + id, "name": id, "id": "1"})
}

func (s *Server) preupload(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Files []struct {
			Path string
			Size int
		}
	}
	if !read(w, r, &ask) {
		return
	}
	list := []map[string]any{}
	for _, f := range ask.Files {
		mode := "regular"
		if f.Size >= Large || strings.HasSuffix(f.Path, ".safetensors") {
			mode = "lfs"
		}
		list = append(list, map[string]any{"path": f.Path, "uploadMode": mode, "shouldIgnore": false, "oid": nil})
	}
	answer(w, map[string]any{"files": list})
}

func (s *Server) batch(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Objects []struct {
			OID  string
			Size int64
		}
	}
	if !read(w, r, &ask) {
		return
	}
	list := []map[string]any{}
	for _, o := range ask.Objects {
		object := map[string]any{"oid": o.OID, "size": o.Size}
		if s.object(o.OID) == nil {
			action := map[string]any{"href": s.CDN + "/put/" + o.OID + "/1"}
			if s.Parts > 0 && o.Size > s.Parts {
				header := map[string]string{"chunk_size": strconv.FormatInt(s.Parts, 10)}
				for k := int64(0); k*s.Parts < o.Size; k++ {
					header[fmt.Sprintf("%05d", k+1)] = fmt.Sprintf("%s/put/%s/%d", s.CDN, o.OID, k+1)
				}
				action = map[string]any{"href": s.URL + "/lfs/complete", "header": header}
			}
			object["actions"] = map[string]any{"upload": action, "verify": map[string]any{"href": s.URL + "/lfs/verify"}}
		}
		list = append(list, object)
	}
	w.Header().Set("Content-Type", "application/vnd.git-lfs+json")
	json.NewEncoder(w).Encode(map[string]any{"transfer": "basic", "objects": list})
}

// object returns a large file that was uploaded, or is in a repository; nil if there is none.
func (s *Server) object(oid string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if raw, ok := s.objects[oid]; ok {
		return raw
	}
	for _, repo := range s.repos {
		for _, files := range repo.Commits {
			for name, content := range files {
				if inLFS(name, content) && Digest(name, content) == oid {
					return content
				}
			}
		}
	}
	return nil
}

// put accepts a file, or a part of one, at CDN/put/OID/PART.
func (s *Server) put(w http.ResponseWriter, r *http.Request) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	words := strings.Split(strings.TrimPrefix(r.URL.Path, "/put/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent += int64(len(raw))
	if s.pieces == nil {
		s.pieces = map[string][]byte{}
	}
	s.pieces[strings.Join(words, "/")] = raw
	w.Header().Set("ETag", `"part"`)
}

// uploaded joins the parts of an object, and verifies its digest.
func (s *Server) uploaded(w http.ResponseWriter, r *http.Request) {
	var ask struct{ OID string }
	if !read(w, r, &ask) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var raw []byte
	for k := 1; ; k++ {
		piece, ok := s.pieces[fmt.Sprint(ask.OID, "/", k)]
		if !ok {
			break
		}
		raw = append(raw, piece...)
	}
	if Digest("x.safetensors", raw) != ask.OID {
		refuse(w, http.StatusUnprocessableEntity, "", "the object has another digest")
		return
	}
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[ask.OID] = raw
	answer(w, map[string]any{})
}

// commit adds files on top of a branch's head.
func (s *Server) commit(w http.ResponseWriter, r *http.Request, repo *Repo, branch string) {
	files := maps.Clone(repo.Commits[repo.Refs[branch]])
	lines := bufio.NewReader(r.Body)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) == 0 && err != nil {
			break
		}
		var l struct {
			Key   string
			Value struct {
				ParentCommit, Path, Encoding, OID string
				Content                           []byte
			}
		}
		if err := json.Unmarshal(line, &l); err != nil {
			refuse(w, http.StatusBadRequest, "", err.Error())
			return
		}
		switch l.Key {
		case "header":
			if parent := l.Value.ParentCommit; parent != "" && parent != repo.Refs[branch] {
				refuse(w, http.StatusPreconditionFailed, "", "A commit has happened since. Please refresh and try again.")
				return
			}
		case "file":
			files[l.Value.Path] = l.Value.Content
		case "lfsFile":
			raw := s.object(l.Value.OID)
			if raw == nil {
				refuse(w, http.StatusUnprocessableEntity, "", "the object of "+l.Value.Path+" was not uploaded")
				return
			}
			files[l.Value.Path] = raw
		case "deletedFile":
			if files[l.Value.Path] == nil {
				refuse(w, http.StatusBadRequest, "", "no such file: "+l.Value.Path)
				return
			}
			delete(files, l.Value.Path)
		default:
			refuse(w, http.StatusBadRequest, "", "no such operation: "+l.Key)
			return
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	oid := Commit(fmt.Sprint(repo.Refs[branch], len(repo.Commits)))
	repo.Commits[oid], repo.Refs[branch] = files, oid
	answer(w, map[string]any{"success": true, "commitOid": oid, "commitUrl": s.URL + "/" + repo.ID + "/commit/" + oid,
		"hookOutput": ""})
}

// Again handles a request without the fault, and drops the response.
func (s *Server) Again(r *http.Request) {
	fault := s.Fault
	s.Fault = nil
	s.hub(httptest.NewRecorder(), r)
	s.Fault = fault
}
