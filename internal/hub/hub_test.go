package hub

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"assay/internal/exit"
	"assay/internal/hub/hubtest"
)

// random returns content whose start differs for each size.
func random(size int) []byte {
	out := make([]byte, size)
	rng := rand.NewChaCha8([32]byte{byte(size), byte(size >> 8), byte(size >> 16)})
	rng.Read(out)
	return out
}

var first, second = hubtest.Commit("first"), hubtest.Commit("second")

// checkpoint returns a sharded repository, with other files that are not read.
func checkpoint() *hubtest.Repo {
	files := map[string][]byte{
		"config.json":                      []byte(`{"model_type": "tiny"}`),
		"tokenizer.json":                   random(hubtest.Large + 7),
		"chat_template.jinja":              []byte("{{ messages }}"),
		"README.md":                        []byte("# card"),
		"empty.txt":                        {},
		"model.safetensors.index.json":     []byte(`{}`),
		"model-00001-of-00002.safetensors": random(300_001),
		"model-00002-of-00002.safetensors": random(200_002),
		"pytorch_model.bin":                random(400_003),
		"pytorch_model.bin.index.json":     []byte(`{}`),
		"consolidated.00.safetensors":      random(1000),
		"optimizer.pt":                     random(1001),
		".gitattributes":                   []byte("*.safetensors filter=lfs"),
		"tf_model.h5":                      random(1002),
		"figure.png":                       random(1003),
		"original/params.json":             []byte("{}"),
	}
	older := map[string][]byte{"config.json": []byte("{}"), "model.safetensors": random(5000)}
	return &hubtest.Repo{Kind: Model, ID: "org/some-model", Refs: map[string]string{"main": second, "v1": first,
		"refs/pr/3": first},
		Commits: map[string]map[string][]byte{first: older, second: files}}
}

// needs are the files of checkpoint that are fetched.
var wanted = []string{"README.md", "chat_template.jinja", "config.json", "empty.txt",
	"model-00001-of-00002.safetensors",
	"model-00002-of-00002.safetensors", "model.safetensors.index.json", "tokenizer.json"}

// serve starts a Hub, and sets the environment to it and an empty cache.
func serve(t *testing.T, repos ...*hubtest.Repo) *hubtest.Server {
	t.Helper()
	s := hubtest.Start(repos...)
	t.Cleanup(s.Close)
	s.Environment(t.Setenv, t.TempDir())
	return s
}

// quick returns the Hub of the environment, with short waits.
func quick(t *testing.T) *Hub {
	t.Helper()
	h, err := FromEnvironment()
	if err != nil {
		t.Fatal(err)
	}
	h.second = time.Millisecond
	return h
}

func parse(t *testing.T, name string) Name {
	t.Helper()
	n, err := Parse(name)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// filesBelow lists the files of a folder with their content.
func filesBelow(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		name, _ := filepath.Rel(dir, file)
		out[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// sameFiles compares a snapshot with the named files of a commit.
func sameFiles(t *testing.T, dir string, commit map[string][]byte, names []string) {
	t.Helper()
	got := filesBelow(t, dir)
	for _, name := range names {
		if text, ok := got[name]; !ok || text != string(commit[name]) {
			t.Errorf("%s: got %d bytes (there: %v), want the %d of the repository", name, len(text), ok, len(commit[name]))
		}
		delete(got, name)
	}
	for name := range got {
		t.Errorf("got %s, want only the needed files", name)
	}
}

func TestFetch(t *testing.T) {
	repo := checkpoint()
	s := serve(t, repo)
	s.Page, s.Links = 3, "https://hub.example"
	h := quick(t)
	var plan Plan
	var last [2]int64
	h.Monitor = Monitor{Begin: func(p *Plan) { plan = *p }, Bytes: func(done, total int64) {
		last = [2]int64{done,
			total}
	}}
	dir, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(os.Getenv("HF_HOME"), "hub", "models--org--some-model", "snapshots", second); dir != want {
		t.Errorf("got %s, want %s", dir, want)
	}
	sameFiles(t, dir, repo.Commits[second], wanted)
	var bytes int64
	for _, name := range wanted {
		bytes += int64(len(repo.Commits[second][name]))
	}
	if plan.Files != len(wanted) || plan.Bytes != bytes || plan.Commit != second || last != [2]int64{bytes, bytes} {
		t.Errorf("got plan %+v and progress %v, want %d files of %d bytes", plan, last, len(wanted), bytes)
	}
	for _, request := range s.Requests() {
		if strings.Contains(request, "token") && !strings.Contains(request, "tokenizer") {
			t.Errorf("got %s, want no token", request)
		}
	}

	t.Run("layout", func(t *testing.T) {
		root := filepath.Dir(filepath.Dir(dir))
		for _, name := range wanted {
			content := repo.Commits[second][name]
			to, err := os.Readlink(filepath.Join(dir, name))
			if want := "../../blobs/" + hubtest.Digest(name, content); err != nil || to != want {
				t.Errorf("%s: got a link to %q (%v), want %q", name, to, err, want)
			}
		}
		ref, err := os.ReadFile(filepath.Join(root, "refs", "main"))
		if err != nil || string(ref) != second {
			t.Errorf("refs/main: got %q (%v), want %q", ref, err, second)
		}
		blobs, _ := filepath.Glob(filepath.Join(root, "blobs", "*"))
		left, _ := filepath.Glob(filepath.Join(root, ".snapshot-*"))
		if len(blobs) != len(wanted) || len(left) != 0 {
			t.Errorf("got %d blobs and %v, want %d and nothing unfinished", len(blobs), left, len(wanted))
		}
	})
	t.Run("again", func(t *testing.T) {
		s.Sent()
		again, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model"))
		if requests := s.Requests(); err != nil || again != dir || s.Sent() != 0 || len(requests) != 1 {
			t.Errorf("got %s (%v) with %v, want %s with one request for the commit", again, err, requests, dir)
		}
		again, err = h.Fetch(t.Context(), parse(t, "hf://org/some-model@"+second))
		if requests := s.Requests(); err != nil || again != dir || len(requests) != 0 {
			t.Errorf("a commit: got %s (%v) with %v, want %s with no request", again, err, requests, dir)
		}
	})
	t.Run("offline", func(t *testing.T) {
		t.Setenv("HF_HUB_OFFLINE", "yes")
		got, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
		if err != nil || got != dir || len(s.Requests()) != 0 {
			t.Errorf("got %s (%v), want %s without a request", got, err, dir)
		}
		_, err = quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model@v1"))
		if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "HF_HUB_OFFLINE is set") {
			t.Errorf("got error %v, want one about HF_HUB_OFFLINE", err)
		}
	})
	t.Run("a damaged blob", func(t *testing.T) {
		blob, _ := filepath.EvalSymlinks(filepath.Join(dir, "model-00001-of-00002.safetensors"))
		if err := os.Truncate(blob, 100); err != nil {
			t.Fatal(err)
		}
		if _, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model")); err != nil {
			t.Fatal(err)
		}
		sameFiles(t, dir, repo.Commits[second], wanted)
	})
	t.Run("list", func(t *testing.T) {
		list, err := h.Kept()
		if err != nil || len(list) != 1 || list[0].Name != "hf://org/some-model@"+second || list[0].Bytes != bytes ||
			!slices.Equal(list[0].Refs, []string{"main"}) {
			t.Errorf("got %+v (%v), want the snapshot of %d bytes at main", list, err, bytes)
		}
	})
}

func TestNames(t *testing.T) {
	for text, want := range map[string]Name{
		"hf://org/a.b":                     {Kind: Model, Repo: "org/a.b"},
		"hf://models/org/name@v1.0":        {Kind: Model, Repo: "org/name", Revision: "v1.0"},
		"hf://org/name@refs/pr/12/x/y":     {Kind: Model, Repo: "org/name", Revision: "refs/pr/12", Path: "x/y"},
		"hf://org/name@a%2Fb/x":            {Kind: Model, Repo: "org/name", Revision: "a/b", Path: "x"},
		"hf://org/name@100%25/x%":          {Kind: Model, Repo: "org/name", Revision: "100%", Path: "x%"},
		"hf://datasets/o-r_g/n/data":       {Kind: Dataset, Repo: "o-r_g/n", Path: "data"},
		"hf://_org/_name_":                 {Kind: Model, Repo: "_org/_name_"}, // valid for huggingface_hub
		"hf://org/name@" + first + "/a.md": {Kind: Model, Repo: "org/name", Revision: first, Path: "a.md"},
	} {
		t.Run(text, func(t *testing.T) {
			got, err := Parse(text)
			if err != nil || got != want {
				t.Fatalf("got %+v (%v), want %+v", got, err, want)
			}
			if again, err := Parse(got.String()); err != nil || again != got {
				t.Errorf("got %+v (%v) of %s, want %+v", again, err, got, got)
			}
		})
	}
	for _, text := range []string{"hf://", "hf://org", "hf://org/", "hf://org/../x", "hf://o--r/name", "hf://org/name@",
		"hf://org/name/../../x", "hf://org/name@../x", "hf://spaces/org/name", "hf://org/name.git", "hf://org/name//x",
		"hf://org/name@%2e%2e"} {
		t.Run(text, func(t *testing.T) {
			if got, err := Parse(text); err == nil {
				t.Errorf("got %+v, want an error", got)
			}
		})
	}
	for _, repo := range []string{"o-r.g/na-me", "_o-r/name_"} {
		n := Name{Kind: Model, Repo: repo, Revision: first, Path: "a/b"}
		dir := (&Hub{Cache: "/cache"}).snapshot(n, first) + "/a/b"
		if got, ok := NameOf(dir); !ok || got != n {
			t.Errorf("NameOf(%s): got %+v, want %+v", dir, got, n)
		}
	}
	if got, ok := NameOf("/models/snapshots/" + first); ok {
		t.Errorf("got %+v, want no name for a folder outside a cache", got)
	}
}

// Local paths are never looked up on the Hub, and only names on the Hub cause requests.
func TestResolveHere(t *testing.T) {
	s := serve(t, checkpoint())
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("org/here", 0o777); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"", "org/here", "org/gone", "gone", "./org2/name", "/org2/name", "a/b/c", "org2/name/",
		"x.yaml",
		"../org2", "s3://bucket/name", "weights/some.pth", "org2/--", "o\x00/x"} {
		t.Run(name, func(t *testing.T) {
			if got, err := Resolve(t.Context(), name); err != nil || got != name {
				t.Errorf("got %q (%v), want the name", got, err)
			}
		})
	}
	if requests := s.Requests(); len(requests) != 0 {
		t.Errorf("got %v, want no request", requests)
	}
	os.RemoveAll("org")
	dir, err := Resolve(t.Context(), "org/some-model@v1")
	if err != nil || filepath.Base(dir) != first {
		t.Errorf("got %s (%v), want the snapshot of %s", dir, err, first)
	}
	_, err = Resolve(t.Context(), "org/none")
	if err == nil || !strings.Contains(err.Error(), "there is no folder org/none here, and") ||
		exit.Code(exit.Named(err)) != exit.Wrong {
		t.Errorf("got error %v, want one about the folder and the repository, with exit code %d", err, exit.Wrong)
	}
	_, err = Resolve(t.Context(), "org/some-model", "scorer.yaml")
	if err == nil || !strings.Contains(err.Error(), "has no scorer.yaml (`score fetch hf") ||
		!strings.Contains(err.Error(), "8 files, 1.5 MB") {
		t.Errorf("got error %v, want one with what would be fetched, and the command", err)
	}
}

// Only the endpoint gets the token.
func TestToken(t *testing.T) {
	repo := checkpoint()
	repo.Gated = true
	s := serve(t, repo)
	s.Token = "hf_secret"
	_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err == nil || !strings.Contains(err.Error(), "accept its terms on "+s.URL+"/org/some-model, then set HF_TOKEN") {
		t.Errorf("without a token: got error %v, want the remedy", err)
	}
	t.Setenv("HF_TOKEN", "hf_other")
	_, err = quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err == nil || !strings.Contains(err.Error(), "the account of the token has no access") ||
		strings.Contains(err.Error(), "hf_other") {
		t.Errorf("with a token without access: got error %v, want the remedy, and no token", err)
	}
	t.Setenv("HF_TOKEN", "")
	if err := os.WriteFile(filepath.Join(os.Getenv("HF_HOME"), "token"), []byte("hf_secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.Requests()
	if _, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model")); err != nil {
		t.Fatal(err)
	}
	cdn := 0
	for _, request := range s.Requests() {
		if strings.Contains(request, " cdn ") {
			cdn++
		}
		if strings.Contains(request, " hub ") != strings.HasSuffix(request, " token") {
			t.Errorf("got %s, want the token at the endpoint and nowhere else", request)
		}
	}
	if cdn != 3 {
		t.Errorf("got %d requests to the other host, want 3", cdn)
	}
}

func TestRefusals(t *testing.T) {
	private := &hubtest.Repo{Kind: Model, ID: "org/private", Private: true}
	s := serve(t, checkpoint(), private)
	for name, want := range map[string]string{
		"hf://org/none":                        "has no such model repository, or it is private",
		"hf://org/private":                     "or it is private: set HF_TOKEN",
		"hf://datasets/org/some-model":         "has no such dataset repository",
		"hf://org/some-model@v9":               "has no revision v9",
		"hf://org/some-model/none":             "no such file or folder at revision main",
		"hf://org/some-model@" + first + "/no": "no such file or folder",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := quick(t).Fetch(t.Context(), parse(t, name))
			if err == nil || !strings.Contains(err.Error(), want) || exit.Code(exit.Named(err)) != exit.Wrong {
				t.Errorf("got error %v (exit code %d), want %q and %d", err, exit.Code(exit.Named(err)), want, exit.Wrong)
			}
		})
	}
	s.Close()
	begin := time.Now()
	_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/none"))
	if err == nil || !strings.Contains(err.Error(), "does not respond") || exit.Code(exit.Named(err)) != exit.Failed ||
		time.Since(begin) > 5*time.Second {
		t.Errorf("no server: got error %v (exit code %d) after %v, want one at once, and %d", err, exit.Code(exit.Named(err)),
			time.Since(begin), exit.Failed)
	}
}

// Cached files are used while the Hub cannot be reached, with a warning.
func TestHubIsDown(t *testing.T) {
	s := serve(t, checkpoint())
	h := quick(t)
	dir, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	warned := ""
	h.Monitor.Warn = func(text string) { warned = text }
	got, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err != nil || got != dir || !strings.Contains(warned, "using the cached files") {
		t.Errorf("got %s (%v) and warning %q, want %s and a warning", got, err, warned, dir)
	}
	if err := os.Remove(filepath.Join(dir, "tokenizer.json")); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model")); err == nil || !strings.Contains(err.Error(),
		"such as tokenizer.json") {
		t.Errorf("got error %v, want one about the file that is missing", err)
	}
}

// Temporary faults are retried: responses 429 and 5xx, and broken connections, after which only the rest is fetched.
func TestRetries(t *testing.T) {
	repo := checkpoint()
	s := serve(t, repo)
	var mu sync.Mutex
	asked := map[string]int{}
	count := func(r *http.Request) int {
		mu.Lock()
		defer mu.Unlock()
		asked[r.URL.Path]++
		return asked[r.URL.Path]
	}
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		switch count(r) {
		case 1:
			w.Header().Set("Retry-After", "3")
			w.WriteHeader(http.StatusTooManyRequests)
		case 2:
			w.WriteHeader(http.StatusServiceUnavailable)
		default:
			return false
		}
		return true
	}
	cuts := map[string]int{}
	s.Cut = func(r *http.Request, size int) int {
		mu.Lock()
		defer mu.Unlock()
		if cuts[r.URL.Path]++; cuts[r.URL.Path] < 4 && size > 100_000 {
			return 40_000
		}
		return -1
	}
	dir, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err != nil {
		t.Fatal(err)
	}
	sameFiles(t, dir, repo.Commits[second], wanted)
	total := int64(0)
	for _, name := range wanted {
		total += int64(len(repo.Commits[second][name]))
	}
	if sent := s.Sent(); sent < total || sent > total+3*3*40_000 {
		t.Errorf("got %d bytes, want the %d of the files: only the rest after a broken connection", sent, total)
	}

	t.Run("given up", func(t *testing.T) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			w.WriteHeader(http.StatusBadGateway)
			return true
		}
		s.Requests()
		_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model@v1"))
		if err == nil || !strings.Contains(err.Error(), "502 Bad Gateway") || exit.Code(exit.Named(err)) != exit.Failed ||
			len(s.Requests()) != attempts {
			t.Errorf("got error %v, want one of 502 after %d attempts, and exit code %d", err, attempts, exit.Failed)
		}
	})
	t.Run("asked to wait for long", func(t *testing.T) {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("RateLimit", `"api";r=0;t=1800`)
			w.WriteHeader(http.StatusTooManyRequests)
			return true
		}
		s.Requests()
		_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model@v1"))
		if err == nil || !strings.Contains(err.Error(), "try again in 30m0s; with HF_TOKEN the limit is higher") ||
			len(s.Requests()) != 1 {
			t.Errorf("got error %v, want one with the wait, at once", err)
		}
	})
	t.Run("silence", func(t *testing.T) {
		s.Fault, s.Cut = nil, nil
		s.Slow = time.Second
		h := quick(t)
		h.stall = 100 * time.Millisecond
		_, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model@v1"))
		s.Slow = 0
		if err != nil && !strings.Contains(err.Error(), "no data was received") {
			t.Errorf("got error %v, want none or one about the stall", err)
		}
	})
}

// A file with a wrong digest never gets its final name.
func TestDigests(t *testing.T) {
	content := random(50_000)
	bad := map[string]func(w http.ResponseWriter){
		"other bytes": func(w http.ResponseWriter) { w.Write(random(50_001)[:50_000]) },
		"fewer":       func(w http.ResponseWriter) { w.Write(content[:49_999]) },
		"more":        func(w http.ResponseWriter) { w.Write(random(50_001)) },
		"an LFS pointer": func(w http.ResponseWriter) {
			fmt.Fprint(w, "version https://git-lfs.github.com/spec/v1\noid sha256:0\n")
		},
	}
	for what, send := range bad {
		for _, name := range []string{"model.safetensors", "config.json"} {
			t.Run(what+" of "+name, func(t *testing.T) {
				repo := &hubtest.Repo{Kind: Model, ID: "org/bad", Refs: map[string]string{"main": first},
					Commits: map[string]map[string][]byte{first: {name: content}}}
				s := serve(t, repo)
				s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
					if strings.Contains(r.URL.Path, "/resolve/") && name == "config.json" || !strings.Contains(r.URL.Path, "api/") &&
						!strings.Contains(r.URL.Path, "/resolve/") {
						send(w)
						return true
					}
					return false
				}
				h := quick(t)
				_, err := h.Fetch(t.Context(), parse(t, "hf://org/bad"))
				blobs, _ := filepath.Glob(filepath.Join(h.Cache, "models--org--bad", "blobs", "*"))
				named := slices.DeleteFunc(blobs, func(file string) bool { return strings.HasSuffix(file, incomplete) })
				if err == nil || len(named) != 0 {
					t.Errorf("got error %v and %v, want an error and no blob", err, named)
				}
				s.Fault = nil
				dir, err := h.Fetch(t.Context(), parse(t, "hf://org/bad"))
				if err != nil {
					t.Fatal(err)
				}
				sameFiles(t, dir, repo.Commits[first], []string{name})
			})
		}
	}
}

// A list with paths outside the snapshot is refused.
func TestListsThatLeave(t *testing.T) {
	for _, name := range []string{"../x", "/etc/x", "a/../../x", `a\..\x`} {
		t.Run(name, func(t *testing.T) {
			serve(t, &hubtest.Repo{Kind: Model, ID: "org/bad", Refs: map[string]string{"main": first},
				Commits: map[string]map[string][]byte{first: {name: []byte("x")}}})
			if dir, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/bad")); err == nil {
				t.Errorf("got %s, want an error", dir)
			}
		})
	}
}

func TestChoose(t *testing.T) {
	for what, c := range map[string]struct {
		name, files, want string
	}{
		"no safetensors":    {"hf://o/n", "config.json pytorch_model.bin", "config.json pytorch_model.bin"},
		"other precisions":  {"hf://o/n", "model.safetensors model.fp16.safetensors", "model.safetensors"},
		"one precision":     {"hf://o/n", "config.json model.fp16.safetensors", "config.json model.fp16.safetensors"},
		"a judge's weights": {"hf://o/n", "config.json HPSv3.safetensors", "config.json HPSv3.safetensors"},
		"an adapter": {"hf://o/n", "adapter_config.json adapter_model.safetensors adapter_model.bin x/y.json",
			"adapter_config.json adapter_model.safetensors"},
		"a scorer": {"hf://o/n", "scorer.yaml head.safetensors backbone/model.safetensors backbone/model.bin",
			"scorer.yaml head.safetensors backbone/model.safetensors"},
		"a folder": {"hf://o/n/b", "config.json b/config.json b/c/config.json bc/config.json", "b/config.json"},
		"a file":   {"hf://o/n/b/x.bin", "b/x.bin b/x.safetensors", "b/x.bin"},
		"models below": {"hf://o/n", "README.md a/config.json a/model.safetensors b/model.pth",
			"README.md a/config.json a/model.safetensors b/model.pth"},
		"a data set": {"hf://datasets/o/n", "a/x.parquet x.png", "a/x.parquet x.png"},
		"a hidden folder that is named": {"hf://o/n/.b/c", ".b/c/config.json .b/c/.d/x.json .e/x.json",
			".b/c/config.json"},
	} {
		t.Run(what, func(t *testing.T) {
			var files []File
			for _, name := range strings.Fields(c.files) {
				files = append(files, File{Path: name})
			}
			chosen, err := choose(parse(t, c.name), files, nil)
			var got []string
			for _, f := range chosen {
				got = append(got, f.Path)
			}
			if err != nil || strings.Join(got, " ") != c.want {
				t.Errorf("got %v (%v), want %s", got, err, c.want)
			}
		})
	}
}

// A model repository of which no file is read has no folder to return.
func TestNothingRead(t *testing.T) {
	serve(t, &hubtest.Repo{Kind: Model, ID: "org/pictures", Refs: map[string]string{"main": first},
		Commits: map[string]map[string][]byte{first: {"a.png": []byte("x"), ".gitattributes": []byte("y")}}})
	h := quick(t)
	path, err := h.Fetch(t.Context(), parse(t, "hf://org/pictures"))
	want := "none of its 2 files is of a kind that is read, such as safetensors: name one to fetch it " +
		"(hf://org/pictures/a.png)"
	if err == nil || !strings.Contains(err.Error(), want) || exit.Code(exit.Named(err)) != exit.Wrong {
		t.Errorf("got %s (%v), want %q and exit code %d", path, err, want, exit.Wrong)
	}
	if path, err := h.Fetch(t.Context(), parse(t, "hf://org/pictures/a.png")); err != nil || !has(path, 1) {
		t.Errorf("a file by its name: got %s (%v), want it", path, err)
	}
}

// What another host responds says nothing about the repository or the token, which that host never got.
func TestOtherHostRefuses(t *testing.T) {
	s := serve(t, checkpoint())
	t.Setenv("HF_TOKEN", "hf_any")
	for _, status := range []int{http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound} {
		s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
			if "http://"+r.Host != s.CDN {
				return false
			}
			http.Error(w, "Request has expired", status)
			return true
		}
		_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
		want := fmt.Sprintf("%s, to which %s refers, responded %d %s: Request has expired",
			strings.TrimPrefix(s.CDN, "http://"), s.URL, status, http.StatusText(status))
		if err == nil || !strings.Contains(err.Error(), want) || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
}

// An endless redirect is not repeated: it is no lost connection.
func TestRedirectsRefused(t *testing.T) {
	s := serve(t, checkpoint())
	for what, c := range map[string]struct {
		to, want string
		asked    int
	}{
		"to itself": {"/x", s.URL + " redirects more than 10 times", redirects},
		"to a file": {"file:///etc/passwd", s.URL + ` redirects to "file:///etc/passwd"`, 1},
	} {
		t.Run(what, func(t *testing.T) {
			s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
				w.Header().Set("Location", c.to)
				w.WriteHeader(http.StatusFound)
				return true
			}
			s.Requests()
			_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
			if asked := len(s.Requests()); err == nil || !strings.Contains(err.Error(), c.want) || asked != c.asked {
				t.Errorf("got error %v after %d requests, want %q after %d", err, asked, c.want, c.asked)
			}
		})
	}
}

// A cache that is cleaned during a fetch is no wrong name.
func TestRemovedMeanwhile(t *testing.T) {
	s := serve(t, checkpoint())
	h, n := quick(t), parse(t, "hf://org/some-model/tokenizer.json")
	s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		if "http://"+r.Host == s.CDN {
			os.RemoveAll(h.Cache)
		}
		return false
	}
	_, err := h.Fetch(t.Context(), n)
	if err == nil || !strings.Contains(err.Error(), "its files in the cache were removed during the fetch") ||
		exit.Code(exit.Named(err)) != exit.Failed {
		t.Errorf("got error %v, exit code %d, want what happened, and %d", err, exit.Code(exit.Named(err)), exit.Failed)
	}
	s.Fault = nil
	if _, err := h.Fetch(t.Context(), n); err != nil {
		t.Errorf("again: got error %v, want none", err)
	}
	h.Cache = "/proc/nowhere"
	if _, err := h.Fetch(t.Context(), n); err == nil ||
		!strings.Contains(err.Error(), "mkdir /proc/nowhere") {
		t.Errorf("a folder that cannot be created: got error %v, want it named", err)
	}
}

// With HF_HUB_DISABLE_SYMLINKS a snapshot holds the files, and each of two files with one content.
func TestWithoutLinks(t *testing.T) {
	repo := checkpoint()
	repo.Commits[second]["tokenizer_config.json"] = repo.Commits[second]["config.json"]
	s := serve(t, repo)
	t.Setenv("HF_HUB_DISABLE_SYMLINKS", "1")
	h, n := quick(t), parse(t, "hf://org/some-model")
	dir, err := h.Fetch(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	names := append(slices.Clone(wanted), "tokenizer_config.json")
	sameFiles(t, dir, repo.Commits[second], names)
	for _, name := range names {
		if info, err := os.Lstat(filepath.Join(dir, name)); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: got %v (%v), want a file", name, info, err)
		}
	}
	if blobs, err := os.ReadDir(filepath.Join(h.folder(n), "blobs")); err != nil || len(blobs) > 0 {
		t.Errorf("got blobs %v (%v), want none: they would need the space twice", blobs, err)
	}
	s.Sent()
	if again, err := h.Fetch(t.Context(), n); err != nil || again != dir || s.Sent() != 0 {
		t.Errorf("again: got %s (%v), want %s and no file sent", again, err, dir)
	}
}

// Several processes that need the same files fetch them once.
func TestTogether(t *testing.T) {
	repo := checkpoint()
	s := serve(t, repo)
	s.Slow = time.Millisecond
	var wait sync.WaitGroup
	for range 4 {
		h := quick(t) // opens its own lock files, like another process
		wait.Go(func() {
			dir, err := h.Fetch(context.Background(), Name{Kind: Model, Repo: "org/some-model"})
			if err != nil || !strings.HasSuffix(dir, second) {
				t.Errorf("got %s (%v), want the snapshot", dir, err)
			}
		})
	}
	wait.Wait()
	var total int64
	for _, name := range wanted {
		total += int64(len(repo.Commits[second][name]))
	}
	if sent := s.Sent(); sent != total {
		t.Errorf("got %d bytes sent, want %d: each file once", sent, total)
	}
}

// Ctrl-C keeps the received data, and has its own exit code.
func TestInterrupted(t *testing.T) {
	repo := checkpoint()
	s := serve(t, repo)
	s.Slow = 50 * time.Millisecond // most of the file is still missing when it is interrupted
	h := quick(t)
	ctx, stop := context.WithCancel(t.Context())
	h.Monitor.Bytes = func(done, total int64) {
		if done > total/4 {
			stop()
		}
	}
	_, err := h.Fetch(ctx, parse(t, "hf://org/some-model"))
	if exit.Code(err) != exit.Interrupted {
		t.Fatalf("got error %v with exit code %d, want %d", err, exit.Code(err), exit.Interrupted)
	}
	var plan Plan
	h.Monitor = Monitor{Begin: func(p *Plan) { plan = *p }}
	dir, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err != nil || plan.Files == len(wanted) && plan.Present == 0 {
		t.Errorf("got plan %+v (%v), want to resume", plan, err)
	}
	sameFiles(t, dir, repo.Commits[second], wanted)
}

// A complete read-only cache works, and a revision follows its branch.
func TestRevisions(t *testing.T) {
	repo := checkpoint()
	s := serve(t, repo)
	h := quick(t)
	for name, want := range map[string]string{"hf://org/some-model@v1": first, "hf://org/some-model@refs/pr/3": first,
		"hf://org/some-model": second} {
		dir, err := h.Fetch(t.Context(), parse(t, name))
		if err != nil || filepath.Base(dir) != want {
			t.Errorf("%s: got %s (%v), want the snapshot of %s", name, dir, err, want)
		}
	}
	repo.Refs["main"] = first
	s.Sent()
	dir, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model"))
	ref, _ := os.ReadFile(filepath.Join(h.folder(Name{Kind: Model, Repo: "org/some-model"}), "refs", "main"))
	if err != nil || filepath.Base(dir) != first || !bytes.Equal(ref, []byte(first)) || s.Sent() != 0 {
		t.Errorf("got %s (%v) and refs/main %s, want %s with no byte fetched", dir, err, ref, first)
	}
}

// TestNoProgress: a server that ignores ranges and truncates every response, a little earlier or later, is given up.
func TestNoProgress(t *testing.T) {
	s := serve(t, checkpoint())
	s.Fault = func(_ http.ResponseWriter, r *http.Request) bool {
		r.Header.Del("Range")
		return false
	}
	var mu sync.Mutex
	asked := map[string]int{}
	s.Cut = func(r *http.Request, size int) int {
		if size < 100_000 {
			return size
		}
		mu.Lock()
		defer mu.Unlock()
		if asked[r.URL.Path]++; asked[r.URL.Path] > 40 {
			return size // enough: the test fails below
		}
		return size/2 + asked[r.URL.Path]%2*1000
	}
	_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if err == nil || exit.Code(exit.Named(err)) != exit.Failed {
		t.Errorf("got error %v, want one about a download without progress", err)
	}
	mu.Lock()
	defer mu.Unlock()
	for path, n := range asked {
		if n > 20 {
			t.Errorf("%s: got %d requests for a file without progress, want a few", path, n)
		}
	}
}

// TestPlanAfterMove: a plan counts the files that a fetch needs. After the branch moved this is only the card;
// offline the plan comes from the cache, without a request.
func TestPlanAfterMove(t *testing.T) {
	repo := checkpoint()
	s := serve(t, repo)
	h := quick(t)
	name := parse(t, "hf://org/some-model")
	if _, err := h.Fetch(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	third := hubtest.Commit("third")
	repo.Commits[third] = maps.Clone(repo.Commits[second])
	repo.Commits[third]["README.md"] = []byte("# another card")
	repo.Refs["main"] = third
	commit, all, missing, err := h.Plan(t.Context(), name)
	if err != nil || commit != third || len(all) != len(wanted) || len(missing) != 1 || missing[0].Path != "README.md" {
		t.Errorf("got %s, %d files, %v missing (%v), want %s, %d files, README.md", commit, len(all), missing, err, third,
			len(wanted))
	}
	h.Offline, s.Fault = true, func(http.ResponseWriter, *http.Request) bool {
		t.Error("got a request, want none offline")
		return false
	}
	commit, all, missing, err = h.Plan(t.Context(), name)
	if err != nil || commit != second || len(all) != len(wanted) || len(missing) != 0 {
		t.Errorf("offline: got %s, %d files, %v missing (%v), want %s, %d files and none", commit, len(all), missing, err,
			second, len(wanted))
	}
	if _, _, _, err := h.Plan(t.Context(), parse(t, "hf://org/unknown")); err == nil {
		t.Error("offline: got no error for a repository that is not in the cache, want one")
	}
}

// TestPartOfARepository: files fetched by another program are used offline, with a warning that they may be
// incomplete.
func TestPartOfARepository(t *testing.T) {
	serve(t, checkpoint())
	h := quick(t)
	name := parse(t, "hf://org/some-model")
	folder := filepath.Join(h.folder(name), "snapshots", second)
	for file, text := range map[string]string{filepath.Join(folder, "config.json"): "{}",
		filepath.Join(h.folder(name), "refs", "main"): second} {
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	h.Offline, h.Monitor = true, Monitor{Warn: func(text string) { said = append(said, text) }}
	dir, err := h.Fetch(t.Context(), name)
	if err != nil || dir != folder || len(said) != 1 || !strings.Contains(said[0], "some of its files") {
		t.Errorf("got %s (%v), warnings %q, want %s and a warning that it may be incomplete", dir, err, said, folder)
	}
}

// TestPickles: when a checkpoint or an adapter is opened, unsupported weights are refused before any file is fetched;
// score fetch fetches them.
func TestPickles(t *testing.T) {
	s := serve(t,
		&hubtest.Repo{Kind: Model, ID: "org/checkpoint", Refs: map[string]string{"main": first},
			Commits: map[string]map[string][]byte{first: {"config.json": []byte("{}"), "pytorch_model.bin": random(5000)}}},
		&hubtest.Repo{Kind: Model, ID: "org/adapter", Refs: map[string]string{"main": second},
			Commits: map[string]map[string][]byte{second: {"adapter_config.json": []byte("{}"),
				"adapter_model.bin": random(5001)}}})
	for name, file := range map[string]string{"org/checkpoint": "pytorch_model.bin", "org/adapter": "adapter_model.bin"} {
		t.Run(name, func(t *testing.T) {
			_, err := Resolve(t.Context(), name)
			if want := "PyTorch pickles (" + file + ")"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, want one with %q", err, want)
			}
			if code := exit.Code(exit.Named(err)); code != exit.Wrong {
				t.Errorf("got exit code %d, want %d", code, exit.Wrong)
			}
			if sent := s.Sent(); sent != 0 {
				t.Errorf("got %d bytes of files, want none", sent)
			}
		})
	}
	if _, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/checkpoint")); err != nil {
		t.Errorf("only fetching: got error %v, want none", err)
	}
}

// TestNoWeights: a plan fetches no weights and reports what is left for the run, which fetches them.
func TestNoWeights(t *testing.T) {
	repo := checkpoint()
	serve(t, repo)
	var notes []string
	monitor := Monitor{Note: func(text string) { notes = append(notes, text) }}
	Begin(&Session{Context: t.Context(), Monitor: monitor, NoWeights: true})
	t.Cleanup(func() { Begin(nil) })
	dir, err := Resolve(t.Context(), "org/some-model", "config.json")
	if err != nil {
		t.Fatal(err)
	}
	isShard := func(name string) bool { return strings.HasSuffix(name, ".safetensors") }
	sameFiles(t, dir, repo.Commits[second], slices.DeleteFunc(slices.Clone(wanted), isShard))
	want := "hf://org/some-model: its weights, 500.0 kB, will be fetched by the run"
	if !slices.Equal(notes, []string{want}) {
		t.Errorf("got notes %q, want %q", notes, want)
	}
	t.Setenv("HF_HUB_OFFLINE", "1")
	if again, err := Resolve(t.Context(), "org/some-model", "config.json"); err != nil || again != dir {
		t.Errorf("offline: got %s, %v, want %s", again, err, dir)
	}
	Begin(&Session{Context: t.Context()})
	if _, err := Resolve(t.Context(), "org/some-model", "config.json"); err == nil {
		t.Error("a run offline: got no error, want one about missing weights")
	}
	t.Setenv("HF_HUB_OFFLINE", "")
	if _, err := Resolve(t.Context(), "org/some-model", "config.json"); err != nil {
		t.Fatal(err)
	}
	sameFiles(t, dir, repo.Commits[second], wanted)
}

// TestOddCache: a cache may be in a folder whose name is a glob pattern.
func TestOddCache(t *testing.T) {
	s := serve(t, checkpoint())
	s.Environment(t.Setenv, filepath.Join(t.TempDir(), "a[b]*"))
	h := quick(t)
	name := parse(t, "hf://org/some-model")
	old := filepath.Join(h.folder(name), unfinished+"left")
	if err := os.MkdirAll(old, 0o777); err != nil {
		t.Fatal(err)
	}
	yesterday := time.Now().Add(-24 * time.Hour)
	if err := os.Chtimes(old, yesterday, yesterday); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Fetch(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(old); err == nil {
		t.Errorf("got %s, want the leftovers of a killed process removed", old)
	}
	list, err := h.Kept()
	if err != nil || len(list) != 1 {
		t.Errorf("got %v, %v, want one revision", list, err)
	}
}

// TestBranchInBranch: a branch a/b can be fetched if the cache has a branch a, and vice versa.
func TestBranchInBranch(t *testing.T) {
	repo := checkpoint()
	repo.Refs["a"], repo.Refs["a/b"] = first, second
	for _, order := range [][]string{{"a", "a%2Fb"}, {"a%2Fb", "a"}} {
		t.Run(order[0], func(t *testing.T) {
			serve(t, repo)
			h := quick(t)
			for _, branch := range order {
				want := repo.Refs[strings.ReplaceAll(branch, "%2F", "/")]
				dir, err := h.Fetch(t.Context(), parse(t, "hf://org/some-model@"+branch))
				if err != nil || filepath.Base(dir) != want {
					t.Errorf("%s: got %s, %v, want the snapshot of %s", branch, dir, err, want)
				}
			}
		})
	}
}

// TestErrorNamesFile: errors name the file that the Hub refuses.
func TestErrorNamesFile(t *testing.T) {
	s := serve(t, checkpoint())
	s.Fault = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/tokenizer.json") {
			return false
		}
		http.Error(w, "not today", http.StatusForbidden)
		return true
	}
	_, err := quick(t).Fetch(t.Context(), parse(t, "hf://org/some-model"))
	if want := "hf://org/some-model: tokenizer.json: "; err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("got error %v, want one that starts with %q", err, want)
	}
}
