package benchmarks

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// differentEditors refuses two folders of one name, which is their editor's.
func differentEditors(dirs []string) error {
	first := map[string]string{}
	for _, dir := range dirs {
		name := editorName(dir)
		if other, twice := first[name]; twice {
			return fmt.Errorf("--editors %s and %s are both called %s: rename one of the folders", other, dir, name)
		}
		first[name] = dir
	}
	return nil
}

// editorName is the name of an editor's folder.
func editorName(dir string) string { return filepath.Base(filepath.Clean(dir)) }

// checkNames refuses names that are not among the known ones.
func checkNames(where string, names, known []string) error {
	for _, n := range names {
		if !slices.Contains(known, n) {
			return fmt.Errorf("%s: %q is no component: one of %s was expected", where, n, strings.Join(known, ", "))
		}
	}
	return nil
}
