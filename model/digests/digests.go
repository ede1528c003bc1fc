// Package digests records the SHA-256 digests of a scorer's files, and finds files that differ from the recorded ones.
package digests

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"

	"assay/checkpoints"
	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/workers"
)

// Digests are the SHA-256 digests of the files that a scorer's numbers depend on, by file name. They are recorded when
// a scorer is written, and compared whenever it is opened. A section that is empty is not compared.
type Digests struct {
	Weights  map[string]string `yaml:"weights,omitempty"`  // tensor files, of the backbone or a separate folder
	Backbone map[string]string `yaml:"backbone,omitempty"` // configuration, tokenizer, chat template, processor
	Scorer   map[string]string `yaml:"scorer,omitempty"`   // head, adapter, calibration
}

// Check rejects names that escape their folder.
func (d *Digests) Check() error {
	if d == nil {
		return nil
	}
	for _, section := range []map[string]string{d.Weights, d.Backbone, d.Scorer} {
		for name := range section {
			if !filepath.IsLocal(filepath.FromSlash(name)) {
				return fmt.Errorf("digests: %q is not a file of the scorer or its backbone", name)
			}
		}
	}
	return nil
}

// Complete reports whether the digests of backbone and weights are known.
func (d *Digests) Complete() bool { return d != nil && len(d.Weights) > 0 && len(d.Backbone) > 0 }

// Of returns the digests of files, given as name and path; missing files are left out. Large files are read once: see
// [store.Files].
func Of(files map[string]string) (map[string]string, error) {
	names := slices.Sorted(maps.Keys(files))
	sums := make([]string, len(names))
	err := workers.Each(len(names), 4, func(i int) error {
		k, err := store.FileDigest(files[names[i]])
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		sums[i] = k.String()
		return err
	})
	out := map[string]string{}
	for i, name := range names {
		if sums[i] != "" {
			out[name] = sums[i]
		}
	}
	return out, err
}

// Compare refuses files, given by name, that differ from the recorded ones: changed, missing, or new. where is the
// section's place in the configuration, for the error.
func Compare(where string, recorded, files map[string]string, remedy string) error {
	if len(recorded) == 0 {
		return nil
	}
	found, err := Of(files)
	if err != nil {
		return err
	}
	names := slices.Sorted(maps.Keys(recorded))
	for _, name := range slices.Sorted(maps.Keys(found)) {
		if recorded[name] == "" {
			names = append(names, name)
		}
	}
	var wrong []string
	for _, name := range names {
		switch want, got := recorded[name], found[name]; {
		case want == got:
		case got == "":
			wrong = append(wrong, fmt.Sprintf("%s is missing", files[name]))
		case want == "":
			wrong = append(wrong, fmt.Sprintf("%s was not there when the scorer was made", files[name]))
		default:
			wrong = append(wrong, fmt.Sprintf("%s is not the file that the scorer was made with (recorded %.12s, found %.12s)",
				files[name], want, got))
		}
	}
	if len(wrong) == 0 {
		return nil
	}
	more := ""
	if n := len(wrong) - 1; n > 0 {
		more = fmt.Sprintf(", and %d more files differ", n)
	}
	return exit.Usagef("%s%s: the scores would be another scorer's (%s): %s", wrong[0], more, where, remedy)
}

// WeightFiles are a checkpoint's tensor files by name, plus the index if there are several.
func WeightFiles(w *checkpoints.Weights) map[string]string {
	files := map[string]string{}
	for _, s := range w.Shards() {
		files[s.Name] = s.Path()
	}
	if len(files) > 1 {
		files[checkpoints.IndexFile] = filepath.Join(w.Dir(), checkpoints.IndexFile)
	}
	return files
}
