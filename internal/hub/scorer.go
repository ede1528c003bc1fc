package hub

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"
)

// backboneLine matches the line of scorer.yaml with the backbone.
var backboneLine = regexp.MustCompile(`(?m)^backbone:[ \t]*(.*)$`)

// named are the models that a scorer.yaml refers to.
type named struct {
	Backbone string `yaml:"backbone"`
	Weights  string `yaml:"weights"` // of an imported judge; "": the backbone's
}

// check returns an error if others could not open the scorer: a path is of use to them only if it is in its folder.
func (n named) check(dir, backbone string) error {
	file := filepath.Join(dir, "scorer.yaml")
	switch {
	case n.Backbone == "":
		return fmt.Errorf("%s: it has no backbone", file)
	case backbone == "" && !Is(n.Backbone) && !inside(dir, n.Backbone):
		return fmt.Errorf("%s: the backbone is %s, a local folder: set --backbone to its name on the Hub "+
			"(hf://org/name@commit); the scorer does not open with a different backbone", file, n.Backbone)
	case n.Weights != "" && !Is(n.Weights) && !inside(dir, n.Weights):
		return fmt.Errorf("%s: the weights are %s, which others do not have: import the judge again with --copy, or from "+
			"weights on the Hub (--weights hf://org/name)", file, n.Weights)
	}
	return nil
}

// inside reports whether a path in scorer.yaml is among the scorer's own files, as after training all weights.
func inside(dir, path string) bool {
	at := filepath.Join(dir, filepath.FromSlash(path))
	info, err := os.Stat(at)
	if err != nil || filepath.IsAbs(path) {
		return false
	}
	if !info.IsDir() { // a file in the cache is a link to its blob
		at = filepath.Dir(at)
	}
	at, err1 := filepath.EvalSymlinks(at)
	root, err2 := filepath.EvalSymlinks(dir)
	rest, err3 := filepath.Rel(root, at)
	return errors.Join(err1, err2, err3) == nil && filepath.IsLocal(rest)
}

// ScorerFiles returns the files of a scorer directory for [Hub.Push]. A local path of the backbone is of no use to
// others: backbone is its name on the Hub, "" if scorer.yaml already has it, or if the backbone is in the directory. It
// replaces the path in scorer.yaml, the card and each adapter_config.json, whose digest in scorer.yaml is updated.
func ScorerFiles(dir, backbone string) (map[string]Content, error) {
	text, err := os.ReadFile(filepath.Join(dir, "scorer.yaml"))
	if err != nil {
		return nil, err
	}
	var n named
	if err := yaml.Unmarshal(text, &n); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, "scorer.yaml"), err)
	}
	old := n.Backbone
	if err := n.check(dir, backbone); err != nil {
		return nil, err
	}
	folders, err := backboneFolders(dir, old)
	if err != nil {
		return nil, err
	}
	there := cmp.Or(backbone, old)
	files := map[string]Content{}
	err = filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		hidden := strings.HasPrefix(d.Name(), ".") && file != dir
		switch {
		case err != nil:
			return err
		case hidden && d.IsDir():
			return fs.SkipDir
		case hidden || d.IsDir():
			return nil
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		c := Content{Path: file}
		if base := filepath.Base(name); base == adapterFile || name == "README.md" {
			old, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			c.Bytes = renamed(old, folders, there)
			if base == adapterFile {
				text = bytes.ReplaceAll(text, hexDigest(old), hexDigest(c.Bytes))
			}
		}
		files[filepath.ToSlash(name)] = c
		return nil
	})
	if Is(there) {
		text = backboneLine.ReplaceAllLiteral(text, []byte("backbone: "+there))
	}
	files["scorer.yaml"] = Content{Path: filepath.Join(dir, "scorer.yaml"), Bytes: text}
	return files, err
}

// Stale reports whether a file that an earlier scorer left in a repository would be read with a new one that lacks it:
// a head, an adapter, a file of the backbone in its folder.
func Stale(name string) bool {
	return slices.Contains([]string{adapterFile, "adapter_model.safetensors", "head.safetensors"}, name) ||
		strings.HasPrefix(name, "backbone/")
}

// adapterFile is PEFT's configuration: next to scorer.yaml in a scorer, in each member's folder in an ensemble.
const adapterFile = "adapter_config.json"

func hexDigest(text []byte) []byte {
	sum := sha256.Sum256(text)
	return hex.AppendEncode(nil, sum[:])
}

// backboneFolders returns the paths by which a scorer's files refer to its backbone: in scorer.yaml, and in PEFT's
// configurations.
func backboneFolders(dir, named string) ([]string, error) {
	folders := []string{named}
	if !filepath.IsAbs(named) && !Is(named) {
		absolute, err := filepath.Abs(filepath.Join(dir, named))
		if err != nil {
			return nil, err
		}
		folders = append(folders, absolute)
	}
	members, err := fs.Glob(os.DirFS(dir), "*/"+adapterFile)
	if err != nil {
		return nil, err
	}
	for _, name := range append(members, adapterFile) {
		var adapter struct {
			Base string `json:"base_model_name_or_path"`
		}
		file := filepath.Join(dir, filepath.FromSlash(name))
		raw, err := os.ReadFile(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err == nil {
			err = json.Unmarshal(raw, &adapter)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if filepath.IsAbs(adapter.Base) {
			folders = append(folders, adapter.Base)
		}
	}
	return folders, nil
}

// renamed replaces a backbone's folder by its repository, in the forms of PEFT and model cards.
func renamed(text []byte, folders []string, backbone string) []byte {
	n, err := Parse(backbone)
	if err != nil {
		return text
	}
	for _, folder := range folders {
		text = bytes.ReplaceAll(text, []byte(`"`+folder+`"`), []byte(`"`+n.Repo+`"`))
		text = bytes.ReplaceAll(text, []byte("`"+folder+"`"), []byte("`"+n.Repo+"`"))
	}
	// A card names only the folder's last part, quoted if YAML needs it.
	return baseModelLine.ReplaceAllFunc(text, func(line []byte) []byte {
		var card struct {
			Base string `yaml:"base_model"`
		}
		same := func(folder string) bool { return card.Base == folder || card.Base == filepath.Base(folder) }
		if yaml.Unmarshal(line, &card) == nil && slices.ContainsFunc(folders, same) {
			return []byte("base_model: " + n.Repo)
		}
		return line
	})
}

// baseModelLine matches the line of a card with the backbone.
var baseModelLine = regexp.MustCompile(`(?m)^base_model: .*$`)

// CheckPush returns an error if nothing could be pushed to a name, before any work is done.
func (h *Hub) CheckPush(n Name) error {
	switch {
	case h.Offline:
		return &Error{Name: n, text: "HF_HUB_OFFLINE is set: nothing can be pushed"}
	case h.Token == "":
		return &Error{Name: n, text: "pushing needs a token with write access: set HF_TOKEN, or run `hf auth login`"}
	case n.Path != "":
		return &Error{Name: n, text: "a scorer is pushed to a repository, not into a folder of one"}
	case n.commit() != "":
		return &Error{Name: n, text: "a scorer is pushed to a branch, not to a commit"}
	}
	return nil
}

// ParseTarget parses the name of a repository to push to: org/name, or hf://org/name@branch.
func ParseTarget(text string) (Name, error) {
	if !Is(text) {
		text = Scheme + text
	}
	n, err := Parse(text)
	if err == nil && n.Kind != Model {
		err = errors.New(text + ": a scorer is pushed to a model repository")
	}
	return n, err
}
