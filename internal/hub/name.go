package hub

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// Scheme is the prefix of a name that is always on the Hub, whatever local folders exist.
const Scheme = "hf://"

// The kinds of repositories.
const (
	Model   = "model"
	Dataset = "dataset"
)

// Name is hf://[datasets/]org/name[@revision][/path].
type Name struct {
	Kind     string // Model or Dataset
	Repo     string // org/name
	Revision string // branch, tag or commit; "": main
	Path     string // folder or file in the repository, with slashes; "": everything
	Plain    bool   // was written as org/name
}

var (
	part       = `\w(?:[\w.-]*\w)?`
	repository = regexp.MustCompile(`^` + part + `/` + part + `$`)
	plain      = regexp.MustCompile(`^(` + part + `/` + part + `)(?:@([\w.-]+))?$`)
	commitHash = regexp.MustCompile(`^[0-9a-f]{40}$`)
	files      = regexp.MustCompile(`\.(?:safetensors|bin|pth?|onnx|json|jsonl|ya?ml|csv|parquet|png|jpg|txt|zip)$`)
	special    = regexp.MustCompile(`^refs/(?:pr/\d+|convert/[\w.-]+)`) // revisions that contain slashes
)

// Is reports whether a name starts with hf://.
func Is(name string) bool { return strings.HasPrefix(name, Scheme) }

// Of parses a name. ok is true if it is a name on the Hub, and not a path. org/name is a path if it, or org, exists
// in the folder.
func Of(folder, name string) (n Name, ok bool, err error) {
	if Is(name) {
		n, err = Parse(name)
		return n, err == nil, err
	}
	m := plain.FindStringSubmatch(name)
	if m == nil || !possible(m[1]) || files.MatchString(name) {
		return Name{}, false, nil
	}
	for _, file := range []string{name, path.Dir(name)} {
		if _, err := os.Lstat(filepath.Join(folder, file)); err == nil {
			return Name{}, false, nil
		}
	}
	return Name{Kind: Model, Repo: m[1], Revision: m[2], Plain: true}, true, nil
}

// possible reports whether the Hub can have a repository with this name.
func possible(repo string) bool {
	return repository.MatchString(repo) && len(repo) <= 193 && !strings.Contains(repo, "--") &&
		!strings.Contains(repo, "..") && !strings.HasSuffix(repo, ".git")
}

// Parse parses a name that starts with hf://. A slash in a revision is written as %2F, except in refs/pr/N.
func Parse(text string) (Name, error) {
	wrong := func(why string) (Name, error) {
		return Name{}, fmt.Errorf("%s: %s: want hf://org/name@revision/path (hf://datasets/org/name for a data set)", text,
			why)
	}
	rest, ok := strings.CutPrefix(text, Scheme)
	if !ok {
		return wrong("it does not start with hf://")
	}
	n := Name{Kind: Model}
	switch first, after, _ := strings.Cut(rest, "/"); first {
	case "datasets":
		n.Kind, rest = Dataset, after
	case "models":
		rest = after
	case "spaces", "buckets", "kernels":
		return wrong(first + " contain no models or data sets")
	}
	org, rest, _ := strings.Cut(rest, "/")
	name, inside, _ := strings.Cut(rest, "/")
	name, revision, pinned := strings.Cut(name, "@")
	if n.Repo = org + "/" + name; !possible(n.Repo) {
		return wrong("invalid repository " + n.Repo)
	}
	if pinned {
		if long := special.FindString(revision + "/" + inside); long != "" {
			inside = strings.TrimPrefix(strings.TrimPrefix(revision+"/"+inside, long), "/")
			revision = long
		}
		var err error
		if n.Revision, err = url.PathUnescape(revision); err != nil || !local(n.Revision) || n.Revision == "." {
			return wrong("invalid revision " + revision)
		}
	}
	if n.Path = strings.TrimSuffix(inside, "/"); n.Path != "" && !local(n.Path) {
		return wrong("invalid path " + n.Path)
	}
	return n, nil
}

// local reports whether an untrusted path stays below the folder that it is joined to.
func local(name string) bool {
	return filepath.IsLocal(name) && path.Clean(name) == name && !strings.ContainsAny(name, "\\\x00")
}

// String returns the name in the form that Parse reads.
func (n Name) String() string {
	text := Scheme
	if n.Kind == Dataset {
		text += "datasets/"
	}
	text += n.Repo
	if n.Revision != "" {
		revision := n.Revision
		if special.FindString(revision) != revision {
			revision = strings.NewReplacer("%", "%25", "/", "%2F").Replace(revision)
		}
		text += "@" + revision
	}
	if n.Path != "" {
		text += "/" + n.Path
	}
	return text
}

func (n Name) revision() string {
	return cmp.Or(n.Revision, "main")
}

// commit returns the revision if it is a commit, else "".
func (n Name) commit() string {
	if commitHash.MatchString(n.Revision) {
		return n.Revision
	}
	return ""
}

// snapshotPath matches the path of a folder or file in the cache, with the parts of a [Name].
var snapshotPath = regexp.MustCompile(
	`(?:^|/)(model|dataset)s--(\w[\w.]*(?:-[\w.]+)*)--([^/]+)/snapshots/([0-9a-f]{40})(?:/(.+))?$`)

// NameOf returns the name of a folder or file in a cache, with its commit as the revision; ok is false if it is not
// in one.
func NameOf(file string) (n Name, ok bool) {
	m := snapshotPath.FindStringSubmatch(filepath.ToSlash(filepath.Clean(file)))
	if m == nil || !possible(m[2]+"/"+m[3]) {
		return Name{}, false
	}
	return Name{Kind: m[1], Repo: m[2] + "/" + m[3], Revision: m[4], Path: m[5]}, true
}
