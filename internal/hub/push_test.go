package hub

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"assay/internal/hub/hubtest"

	"github.com/google/go-cmp/cmp"
)

// newPusher starts a Hub with one repository, and returns a client with a token that can write.
func newPusher(t *testing.T) (*hubtest.Server, *hubtest.Repo, *Hub) {
	t.Helper()
	repo := &hubtest.Repo{Kind: Model, ID: "org/there", Refs: map[string]string{"main": hubtest.Commit("x")},
		Commits: map[string]map[string][]byte{hubtest.Commit("x"): {"README.md": []byte("old"), "kept": []byte("kept")}}}
	s := hubtest.Start(repo)
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	s.Token = "hf_right"
	t.Setenv("HF_TOKEN", "hf_right")
	h, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	h.second = time.Millisecond
	return s, repo, h
}

// content returns a small file, a large one of 3 MB, an empty one, and one in a folder.
func content(t *testing.T) map[string]Content {
	t.Helper()
	path := filepath.Join(t.TempDir(), "head.safetensors")
	if err := os.WriteFile(path, bytes.Repeat([]byte("weights "), 400_000), 0o666); err != nil {
		t.Fatal(err)
	}
	return map[string]Content{"scorer.yaml": {Bytes: []byte("backbone: hf://org/b\n")}, "head.safetensors": {Path: path},
		"empty": {Bytes: []byte{}}, "folder/a.json": {Bytes: []byte("{}")}}
}

// atMain returns the files of a repository at main.
func atMain(repo *hubtest.Repo) map[string][]byte { return repo.Commits[repo.Refs["main"]] }

// TestPush: a repository is created, has exactly the files, and a second push sends nothing.
func TestPush(t *testing.T) {
	for _, parts := range []int64{0, 700_000, 1 << 20, 3_200_000} {
		t.Run(fmt.Sprint("parts of ", parts), func(t *testing.T) {
			s, _, h := newPusher(t)
			s.Parts = parts
			n := Name{Kind: Model, Repo: "org/new"}
			var told []int64
			p := Push{Files: content(t), Message: "first",
				Progress: func(done, total int64) { told = append(told, done, total) }}
			got, err := h.Push(t.Context(), n, p)
			if err != nil {
				t.Fatal(err)
			}
			want := []string{"empty", "folder/a.json", "head.safetensors", "scorer.yaml"}
			if !slices.Equal(got.Files, want) || got.URL != s.URL+"/org/new" || got.Bytes != 3_200_023 {
				t.Errorf("got %+v, want %v at %s/org/new", got, want, s.URL)
			}
			if len(told) < 2 || told[len(told)-2] != 3_200_000 || told[len(told)-1] != 3_200_000 {
				t.Errorf("progress: got %v, want 3200000 of 3200000 at the end", told)
			}
			there := atMain(s.Repo(Model, "org/new"))
			if len(there) != 5 { // with .gitattributes
				t.Errorf("got %d files, want the pushed ones and .gitattributes", len(there))
			}
			for name, c := range p.Files {
				raw := c.Bytes
				if c.Path != "" {
					if raw, err = os.ReadFile(c.Path); err != nil {
						t.Fatal(err)
					}
				}
				if !bytes.Equal(there[name], raw) {
					t.Errorf("%s: got %d bytes, want %d as they were pushed", name, len(there[name]), len(raw))
				}
			}
			s.Sent()
			again, err := h.Push(t.Context(), n, p)
			if err != nil || len(again.Files) > 0 || again.Commit != got.Commit || s.Sent() != 0 {
				t.Errorf("again: got %+v, %v, want the same commit and nothing sent", again, err)
			}
		})
	}
}

// TestPushOverwrites: files with different content are replaced only with Overwrite; other files of the repository
// stay.
func TestPushOverwrites(t *testing.T) {
	_, repo, h := newPusher(t)
	n := Name{Kind: Model, Repo: "org/there"}
	before := repo.Refs["main"]
	p := Push{Files: map[string]Content{"README.md": {Bytes: []byte("new")}, "kept": {Bytes: []byte("kept")}}}
	_, err := h.Push(t.Context(), n, p)
	if err == nil || !strings.Contains(err.Error(), "it already has different files named README.md at main") ||
		repo.Refs["main"] != before {
		t.Errorf("got error %v, head %s, want the file named and nothing changed", err, repo.Refs["main"])
	}
	p.Overwrite = true
	got, err := h.Push(t.Context(), n, p)
	if err != nil || !slices.Equal(got.Files, []string{"README.md"}) {
		t.Fatalf("got %+v, %v, want README.md replaced", got, err)
	}
	want := map[string][]byte{"README.md": []byte("new"), "kept": []byte("kept")}
	if d := cmp.Diff(want, atMain(repo)); d != "" {
		t.Errorf("the repository (-want +got):\n%s", d)
	}
}

// TestPushRemoves: files that would spoil the pushed ones are named, and removed with Overwrite, also if the answer is
// lost. The line of the commit is that of huggingface_hub 2.4.0 (_commit_api: deletedFile).
func TestPushRemoves(t *testing.T) {
	s, repo, h := newPusher(t)
	n, before := Name{Kind: Model, Repo: "org/there"}, repo.Refs["main"]
	p := Push{Files: map[string]Content{"README.md": {Bytes: atMain(repo)["README.md"]}},
		Stale: func(name string) bool { return name == "kept" || name == "README.md" }}
	_, err := h.Push(t.Context(), n, p)
	if want := "it has kept at main, which would be read with the new files"; err == nil ||
		!strings.Contains(err.Error(), want) || repo.Refs["main"] != before {
		t.Errorf("got error %v, head %s, want %q and nothing changed", err, repo.Refs["main"], want)
	}
	p.Overwrite = true
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool { // before the commit is made: it is not in the repository
		return strings.Contains(r.URL.Path, "/commit/") && refuseOnce(s, w)
	}
	if got, err := h.Push(t.Context(), n, p); err == nil {
		t.Errorf("a commit that failed: got %+v, want an error", got)
	}
	got, err := h.Push(t.Context(), n, p)
	if err != nil || len(got.Files) > 0 || !slices.Equal(got.Removed, []string{"kept"}) ||
		got.Commit != repo.Refs["main"] {
		t.Fatalf("got %+v, %v, want kept removed", got, err)
	}
	want := map[string][]byte{"README.md": p.Files["README.md"].Bytes}
	if d := cmp.Diff(want, atMain(repo)); d != "" {
		t.Errorf("the repository (-want +got):\n%s", d)
	}
}

// refuseOnce answers a request with an error, and the next ones not.
func refuseOnce(s *hubtest.Server, w http.ResponseWriter) bool {
	s.Fault = nil
	w.WriteHeader(http.StatusForbidden)
	return true
}

// TestPushFaults: whatever fails at the Hub or in the network, the repository has all files or none.
func TestPushFaults(t *testing.T) {
	once := func(at string, do func(w http.ResponseWriter, r *http.Request, repo *hubtest.Repo)) func(*hubtest.Repo) func(
		w http.ResponseWriter, r *http.Request) bool {
		return func(repo *hubtest.Repo) func(http.ResponseWriter, *http.Request) bool {
			done := false
			return func(w http.ResponseWriter, r *http.Request) bool {
				if done || !strings.Contains(r.URL.Path, at) {
					return false
				}
				done = true
				do(w, r, repo)
				return true
			}
		}
	}
	status := func(code int) func(http.ResponseWriter, *http.Request, *hubtest.Repo) {
		return func(w http.ResponseWriter, _ *http.Request, _ *hubtest.Repo) { w.WriteHeader(code) }
	}
	broken := func(http.ResponseWriter, *http.Request, *hubtest.Repo) { panic(http.ErrAbortHandler) }
	for name, c := range map[string]struct {
		fault func(*hubtest.Repo) func(w http.ResponseWriter, r *http.Request) bool
		want  string // in the error; "": none
	}{
		"429 at preupload":   {once("/preupload/", status(429)), ""},
		"503 at the batch":   {once("/objects/batch", status(503)), ""},
		"500 of the storage": {once("/put/", status(500)), ""},
		"a broken upload":    {once("/put/", broken), ""},
		"502 at the commit":  {once("/commit/", status(502)), ""},
		"a refused commit":   {once("/commit/", status(403)), "refuses the token"},
		"a full storage":     {once("/put/", status(413)), "413"},
		"a commit meanwhile": {once("/commit/", func(w http.ResponseWriter, _ *http.Request, repo *hubtest.Repo) {
			other := hubtest.Commit("other")
			repo.Commits[other], repo.Refs["main"] = map[string][]byte{"theirs": nil}, other
			w.Header().Set("X-Error-Message", "A commit has happened since.")
			w.WriteHeader(http.StatusPreconditionFailed)
		}), "A commit has happened since."},
	} {
		t.Run(name, func(t *testing.T) {
			s, repo, h := newPusher(t)
			s.Fault = c.fault(repo)
			files := content(t)
			_, err := h.Push(t.Context(), Name{Kind: Model, Repo: "org/there"}, Push{Files: files})
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q (empty: none)", err, c.want)
			}
			count := 0
			for name := range files {
				if _, ok := atMain(repo)[name]; ok {
					count++
				}
			}
			if want := map[bool]int{true: len(files)}[c.want == ""]; count != want {
				t.Errorf("got %d files in the repository, want %d", count, want)
			}
			for _, line := range s.Requests() {
				if strings.Contains(line, " cdn ") && strings.Contains(line, "token") {
					t.Errorf("the storage got the token: %s", line)
				}
			}
		})
	}
}

// TestPushLostAnswer: a commit whose response is lost is found, and not created twice.
func TestPushLostAnswer(t *testing.T) {
	s, repo, h := newPusher(t)
	lost := false
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if lost || !strings.Contains(r.URL.Path, "/commit/") {
			return false
		}
		lost = true
		s.Again(r)
		panic(http.ErrAbortHandler)
	}
	got, err := h.Push(t.Context(), Name{Kind: Model, Repo: "org/there"}, Push{Files: content(t)})
	if err != nil || got.Commit != repo.Refs["main"] || len(repo.Commits) != 2 {
		t.Errorf("got %+v, %v, %d commits, want the one that was created", got, err, len(repo.Commits))
	}
}

// TestScorerAlone: a scorer with its backbone in its folder is pushed as it is; paths that others do not have are
// refused, also that of an imported judge's weights.
func TestScorerAlone(t *testing.T) {
	for what, c := range map[string]struct{ config, backbone, want string }{
		"its own backbone":   {"backbone: 'my backbone'\n", "", ""},
		"its own weights":    {"backbone: my backbone\nweights: weights/model.safetensors\n", "", ""},
		"weights on the Hub": {"backbone: my backbone\nweights: hf://org/judge@v1\n", "", ""},
		"weights elsewhere":  {"backbone: hf://org/base@v1\nweights: ../weights\n", "", "the weights are ../weights"},
		"weights elsewhere, and a name": {"backbone: ../base\nweights: ../weights\n", "hf://org/base@v1",
			"the weights are ../weights"},
		"a link elsewhere": {"backbone: link\n", "", "the backbone is link, a local folder"},
		"no backbone":      {"question: x\n", "", "it has no backbone"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{"scorer.yaml": c.config, "my backbone/config.json": "{}",
				"weights/model.safetensors": "x", "../weights/x": "x", "../base/config.json": "{}"} {
				if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o777),
					os.WriteFile(filepath.Join(dir, name), []byte(text), 0o666)); err != nil {
					t.Fatal(err)
				}
			}
			if what == "a link elsewhere" {
				if err := os.Symlink("../base", filepath.Join(dir, "link")); err != nil {
					t.Fatal(err)
				}
			}
			files, err := ScorerFiles(dir, c.backbone)
			if c.want != "" {
				if err == nil || !strings.Contains(err.Error(), c.want) {
					t.Errorf("got error %v, want %q", err, c.want)
				}
				return
			}
			if err != nil || string(files["scorer.yaml"].Bytes) != c.config || files["my backbone/config.json"].Path == "" {
				t.Errorf("got %s, %d files (%v), want %s and the backbone", files["scorer.yaml"].Bytes, len(files), err, c.config)
			}
		})
	}
}

// TestCardNamesBackbone: a card names the last part of a local backbone's folder, which is no name on the Hub.
func TestCardNamesBackbone(t *testing.T) {
	for line, want := range map[string]string{
		"base_model: base":             "base_model: org/base",
		`base_model: "b: #x 'y\"z"`:    "base_model: org/base",
		"base_model: 'b: #x ''y\"z'":   "base_model: org/base",
		"base_model: another":          "base_model: another",
		"text\nbase_model: base\ntext": "text\nbase_model: org/base\ntext",
	} {
		got := string(renamed([]byte(line), []string{"../base", `/models/b: #x 'y"z`}, "hf://org/base@v1"))
		if got != want {
			t.Errorf("%s: got %s, want %s", line, got, want)
		}
	}
}

// TestPushPrivate: what is to be private does not get into a public repository.
func TestPushPrivate(t *testing.T) {
	_, repo, h := newPusher(t)
	p := Push{Files: map[string]Content{"x": {Bytes: []byte("x")}}, Private: true}
	before := repo.Refs["main"]
	_, err := h.Push(t.Context(), Name{Kind: Model, Repo: "org/there"}, p)
	if err == nil || !strings.Contains(err.Error(), "exists and is public") || repo.Refs["main"] != before {
		t.Errorf("got error %v, want one that the repository is public, and no commit", err)
	}
	for _, what := range []string{"a new repository", "a private one"} {
		if _, err := h.Push(t.Context(), Name{Kind: Model, Repo: "org/new"}, p); err != nil {
			t.Errorf("%s: got error %v, want none", what, err)
		}
	}
}

// TestPushRenamed: the error for a renamed repository has its new name.
func TestPushRenamed(t *testing.T) {
	s, _, h := newPusher(t)
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.Contains(r.URL.Path, "org/old") {
			return false
		}
		w.Header().Set("Location", strings.Replace(r.URL.Path, "org/old", "org/there", 1))
		w.WriteHeader(http.StatusTemporaryRedirect)
		return true
	}
	_, err := h.Push(t.Context(), Name{Kind: Model, Repo: "org/old"},
		Push{Files: map[string]Content{"x": {Bytes: []byte("x")}}})
	want := "redirects to /api/models/org/there/preupload/main: if the repository was renamed, use its new name"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
}

// TestPushRefused: an invalid push is refused before any request.
func TestPushRefused(t *testing.T) {
	_, _, h := newPusher(t)
	for name, c := range map[string]struct {
		change func(h *Hub, n *Name, p *Push)
		want   string
	}{
		"no token":      {func(h *Hub, _ *Name, _ *Push) { h.Token = "" }, "set HF_TOKEN"},
		"offline":       {func(h *Hub, _ *Name, _ *Push) { h.Offline = true }, "HF_HUB_OFFLINE"},
		"a folder":      {func(_ *Hub, n *Name, _ *Push) { n.Path = "x" }, "not into a folder"},
		"a commit":      {func(_ *Hub, n *Name, _ *Push) { n.Revision = hubtest.Commit("x") }, "not to a commit"},
		"a path":        {func(_ *Hub, _ *Name, p *Push) { p.Files = map[string]Content{"../x": {}} }, "invalid file name"},
		"no such file":  {func(_ *Hub, _ *Name, p *Push) { p.Files = map[string]Content{"x": {Path: "none"}} }, "none"},
		"a wrong token": {func(h *Hub, _ *Name, _ *Push) { h.Token = "hf_wrong" }, "refuses the token"},
		"a new branch":  {func(_ *Hub, n *Name, _ *Push) { n.Repo, n.Revision = "org/new", "v1" }, "only the branch main"},
	} {
		t.Run(name, func(t *testing.T) {
			h, n, p := *h, Name{Kind: Model, Repo: "org/there"}, Push{Files: map[string]Content{"x": {Bytes: []byte("x")}}}
			c.change(&h, &n, &p)
			if _, err := h.Push(t.Context(), n, p); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, want one with %q", err, c.want)
			}
		})
	}
}

// TestScorerFiles: a scorer's files, with the backbone's folder replaced by its name.
func TestScorerFiles(t *testing.T) {
	dir := t.TempDir()
	base, err := filepath.Abs(filepath.Join(dir, "../base"))
	if err != nil {
		t.Fatal(err)
	}
	adapter, renamed := `{"base_model_name_or_path": "`+base+`"}`, `{"base_model_name_or_path": "org/base"}`
	config := "format: 1\nbackbone: %s\nquestion: 'backbone: x'\ndigests: %x\n"
	for name, text := range map[string]string{
		"scorer.yaml":         fmt.Sprintf(config, "../base", sha256.Sum256([]byte(adapter))),
		"adapter_config.json": adapter, "member-1/adapter_config.json": adapter,
		"README.md":        "base_model: " + base + "\n`../base`\n",
		"head.safetensors": base, ".hidden": "x", "calibration/report.html": "x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := ScorerFiles(dir, ""); err == nil ||
		!strings.Contains(err.Error(), "the backbone is ../base, a local folder") {
		t.Errorf("a folder as backbone: got error %v, want one", err)
	}
	files, err := ScorerFiles(dir, "hf://org/base@v1")
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for name, c := range files {
		got[name] = string(c.Bytes)
	}
	want := map[string]string{
		"scorer.yaml":         fmt.Sprintf(config, "hf://org/base@v1", sha256.Sum256([]byte(renamed))),
		"adapter_config.json": renamed, "member-1/adapter_config.json": renamed,
		"README.md":        "base_model: org/base\n`org/base`\n",
		"head.safetensors": "", "calibration/report.html": ""}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files and replaced contents (-want +got):\n%s", d)
	}
	if err := os.WriteFile(filepath.Join(dir, "scorer.yaml"), []byte("backbone: \"hf://org/base\"\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	files, err = ScorerFiles(dir, "")
	if err != nil || string(files["scorer.yaml"].Bytes) != "backbone: hf://org/base\n" ||
		string(files["adapter_config.json"].Bytes) != want["adapter_config.json"] {
		t.Errorf("a name as backbone: got %s, %s, %v, want it, also as the adapter's base", files["scorer.yaml"].Bytes,
			files["adapter_config.json"].Bytes, err)
	}
	if _, err := ScorerFiles(t.TempDir(), ""); !os.IsNotExist(err) {
		t.Errorf("no scorer: got error %v, want %v", err, fs.ErrNotExist)
	}
}
