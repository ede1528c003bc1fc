package protocol

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// DifferentEditors refuses two folders with the same name, because it is the editor's name.
func DifferentEditors(dirs []string) error {
	first := map[string]string{}
	for _, dir := range dirs {
		name := EditorName(dir)
		if other, twice := first[name]; twice {
			return fmt.Errorf("--editors %s and %s are both called %s: rename one of the folders", other, dir, name)
		}
		first[name] = dir
	}
	return nil
}

// EditorName is the name of an editor's folder.
func EditorName(dir string) string { return filepath.Base(filepath.Clean(dir)) }

// CheckNames refuses names that are not among the known ones.
func CheckNames(where string, names, known []string) error {
	for _, n := range names {
		if !slices.Contains(known, n) {
			return fmt.Errorf("%s: %q is not a component: want one of %s", where, n, strings.Join(known, ", "))
		}
	}
	return nil
}
