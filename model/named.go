package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"assay/internal/exit"
	"assay/internal/hub"
	"assay/model/backbone"
)

// Beside resolves a path in a scorer.yaml relative to the file's real location: links to its folder, or to the file,
// are resolved. A path relative to the link itself is found as well.
func Beside(file, path string) string {
	if hub.Is(path) { // fetched when it is opened
		return path
	}
	path = filepath.FromSlash(path)
	if filepath.IsAbs(path) {
		return path
	}
	dir := filepath.Dir(file)
	folders := []string{dir}
	if real, err := filepath.EvalSymlinks(file); err == nil {
		folders = append([]string{filepath.Dir(real)}, folders...)
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		folders = append([]string{real}, folders...)
	}
	for _, folder := range folders {
		if found := filepath.Join(folder, path); backbone.Exists(found) {
			return found
		}
	}
	return filepath.Join(folders[0], path)
}

// noScorer explains why a folder has no scorer.yaml; err is the error of reading it.
func noScorer(dir string, err error) error {
	has := func(names ...string) bool { return backbone.Exists(filepath.Join(append([]string{dir}, names...)...)) }
	switch {
	case !errors.Is(err, fs.ErrNotExist):
		return err
	case has("scorer", ConfigFile):
		return fmt.Errorf("%w: %s is a run directory, its scorer is %s", err, dir, filepath.Join(dir, "scorer"))
	case has("checkpoints"):
		return fmt.Errorf("%w: %s is a run directory that has no scorer yet: resume it with the same `train --config`",
			err, dir)
	case has("config.json"):
		return fmt.Errorf("%w: %s is a checkpoint, not a scorer: `train --config` trains a scorer on it, `score import` "+
			"creates one from a released judge", err, dir)
	}
	if name := backbone.HubName(dir); name != "" {
		return fmt.Errorf("%w: if %s is on Hugging Face, fetch it (`score fetch %s`), and turn it into a scorer with "+
			"`score import`", err, name, name)
	}
	return fmt.Errorf("%w (expected a scorer directory, as written by training)", err)
}

// fetch fetches the backbone and the weights that scorer.yaml names on the Hugging Face Hub.
func (p *ScorerState) fetch() (err error) {
	for _, path := range []*string{&p.Config.Backbone, &p.Config.Weights} {
		if *path, err = hub.ResolveURI(*path); err != nil {
			return exit.Named(err)
		}
	}
	return nil
}

// missing returns an error if a folder or file that scorer.yaml names does not exist; nil if all exist, or no
// scorer.yaml was read.
func (p *ScorerState) missing() error {
	if err := p.fetch(); err != nil {
		return err
	}
	if p.Dir == "" {
		return nil
	}
	file := filepath.Join(p.Dir, ConfigFile)
	for _, named := range []struct{ key, path, remedy string }{
		{"backbone", p.Config.Backbone, "pass its location with --backbone DIR, or correct the line"},
		{"weights", p.Config.Weights, "correct the line"},
	} {
		_, err := os.Stat(named.path)
		switch {
		case named.path == "" || !errors.Is(err, fs.ErrNotExist):
		case named.key == "backbone" && p.moved:
			return exit.Usage(backbone.NoBackbone(named.path, err))
		default:
			remedy := named.remedy
			if name := backbone.HubName(named.path); name != "" {
				remedy += " (hf://" + name + ", if you mean a Hub repository)"
			}
			return exit.Usagef("%s: %w: %s", lineOf(file, named.key), err, remedy)
		}
	}
	return nil
}

// lineOf quotes the line of a YAML file that has a top-level key.
func lineOf(file, key string) string {
	text, _ := os.ReadFile(file)
	for i, line := range strings.Split(string(text), "\n") {
		if strings.HasPrefix(line, key+":") {
			return fmt.Sprintf("%s:%d: %s", file, i+1, strings.TrimSpace(line))
		}
	}
	return file + ": " + key
}
