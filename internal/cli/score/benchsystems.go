package score

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/benchmarks/runner"
	"assay/internal/exit"
)

// addOwn adds the answers contained in the data, if nothing else was added.
func addOwn(r *report.Report, set protocol.Set) {
	if with, ok := set.(protocol.WithPredictions); ok && len(r.Systems) == 0 {
		if p, ok := with.Predictions(); ok {
			r.Add("answers in the data", p)
		}
	}
}

// addFiles adds the predictions in each of the files.
func addFiles(r *report.Report, set protocol.Set, names namer, paths []string) error {
	for _, path := range paths {
		if err := addFile(r, set, names(path), path); err != nil {
			return err
		}
	}
	return nil
}

// addBaseline adds a judge that needs no model.
func (f *benchFlags) addBaseline(r *report.Report, set protocol.Set) error {
	baseline, err := runner.NewBaseline(set, f.baseline, f.seed)
	if err != nil {
		return exit.Usage(err)
	}
	r.Add(baseline.Name, baseline)
	r.Extra["baseline"], r.Extra["seed"] = baseline.Name, f.seed
	if baseline.Expectation != nil {
		r.Extra["expectation"] = baseline.Expectation
	}
	return nil
}

// addMixed adds the editors whose components are in several files; name is used for an editor without a name.
func addMixed(r *report.Report, set protocol.Mixed, name string, paths []string) error {
	editors, err := set.ReadAll(paths)
	if err != nil {
		return err
	}
	for _, e := range editors {
		r.Add(cmp.Or(e.Name, name), e.Predictions)
	}
	return nil
}

func addFile(r *report.Report, set protocol.Set, name, path string) error {
	if mixed, ok := set.(protocol.Mixed); ok {
		return addMixed(r, mixed, name, []string{path})
	}
	p, err := set.Read(path)
	if err != nil {
		return err
	}
	return r.AddJudged(name, p, path)
}

// systemName returns the name of a file of predictions without folder and extension.
func systemName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// namer names a file of predictions.
type namer func(path string) string

// newNamer names files as systemName does, with as many parent folders as needed to tell them apart.
func newNamer(paths []string) namer {
	withFolders := func(path string, n int) string {
		name, rest := systemName(path), filepath.Dir(filepath.Clean(path))
		for range n {
			name, rest = filepath.Base(rest)+"/"+name, filepath.Dir(rest)
		}
		return name
	}
	return func(path string) string {
		for n := range strings.Count(filepath.Clean(path), "/") + 1 {
			same := func(other string) bool {
				return filepath.Clean(other) != filepath.Clean(path) && withFolders(other, n) == withFolders(path, n)
			}
			if !slices.ContainsFunc(paths, same) {
				return withFolders(path, n)
			}
		}
		return systemName(path)
	}
}
