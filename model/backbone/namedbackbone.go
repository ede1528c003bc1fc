package backbone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
)

// NoBackbone explains that a folder has no config.json: err says so.
func NoBackbone(dir string, err error) error {
	if name := HubName(dir); name != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backbone: %w: if %s is on Hugging Face, fetch it first: score fetch %s", err, name, name)
	}
	if errors.Is(err, fs.ErrNotExist) && Exists(filepath.Join(dir, "scorer.yaml")) {
		return fmt.Errorf("backbone: %w: %s is a scorer, not a checkpoint", err, dir)
	}
	return fmt.Errorf(
		"backbone: %w (a Hugging Face checkpoint directory with config.json and *.safetensors is wanted)", err)
}

// hubNames are how Hugging Face calls models: organisation/name.
var hubNames = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// HubName is the name on Hugging Face that a path may stand for: its last two parts, if there is a folder for them
// but none of the first one; "": it stands for none.
func HubName(path string) string {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	name := filepath.ToSlash(filepath.Join(filepath.Base(parent), filepath.Base(path)))
	if Exists(parent) || !Exists(filepath.Dir(parent)) || !hubNames.MatchString(name) {
		return ""
	}
	return name
}

// Exists reports whether a file or folder is there.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
