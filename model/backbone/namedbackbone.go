package backbone

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"assay/lora"
)

// NoBackbone explains the error err for a folder without config.json.
func NoBackbone(dir string, err error) error {
	if name := HubName(dir); name != "" && errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("backbone: %w: if %s is on Hugging Face, fetch it first: score fetch %s", err, name, name)
	}
	if errors.Is(err, fs.ErrNotExist) && Exists(filepath.Join(dir, "scorer.yaml")) {
		return fmt.Errorf("backbone: %w: %s is a scorer, not a checkpoint", err, dir)
	}
	return fmt.Errorf(
		"backbone: %w (want a Hugging Face checkpoint directory with config.json and *.safetensors)", err)
}

// NoAdapter refuses a checkpoint with an adapter in its folder, which transformers puts over the weights. remedy says
// what to do. The adapter of a scorer directory is the scorer's.
func NoAdapter(dir, remedy string) error {
	if !Exists(filepath.Join(dir, lora.ConfigFile)) || Exists(filepath.Join(dir, "scorer.yaml")) {
		return nil
	}
	return fmt.Errorf("%s: it has a checkpoint and %s: transformers would load both. %s", dir, lora.ConfigFile, remedy)
}

// adapterElsewhere is the remedy for an adapter in a backbone's folder.
const adapterElsewhere = "Move " + lora.ConfigFile + " and " + lora.WeightsFile + " to a folder of their own, and " +
	"name it where an adapter is wanted (train: init; score chat: --adapter), or merge it: train merge"

// hubNames matches model names on Hugging Face: organisation/name.
var hubNames = regexp.MustCompile(`^[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*$`)

// HubName returns the name on Hugging Face that a path may refer to: its last two parts, if the folder before them
// exists but the first of the two does not; "": none.
func HubName(path string) string {
	path = filepath.Clean(path)
	parent := filepath.Dir(path)
	name := filepath.ToSlash(filepath.Join(filepath.Base(parent), filepath.Base(path)))
	if Exists(parent) || !Exists(filepath.Dir(parent)) || !hubNames.MatchString(name) {
		return ""
	}
	return name
}

// Exists reports whether a file or folder exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
