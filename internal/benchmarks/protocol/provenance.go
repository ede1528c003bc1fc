package protocol

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
)

// Judge identifies the judge that made predictions.
type Judge struct {
	Fingerprint string `json:"fingerprint"`       // of everything that its scores depend on
	Prompts     string `json:"prompts,omitempty"` // digest of its prompts, for a text judge

	Range edit.Range `json:"range,omitzero"` // of its scores, if it has bounds other than 0 and 10
}

// JudgeOf reads the judge of a file of predictions from the run.json next to it, which a run writes; nil if there is
// none.
func JudgeOf(predictions string) (*Judge, error) {
	path := filepath.Join(filepath.Dir(predictions), "run.json")
	if filepath.Base(predictions) != "predictions.jsonl" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	var run struct {
		Scorer, Prompts string
		Range           edit.Range
	}
	if err := json.Unmarshal(raw, &run); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Judge{run.Scorer, run.Prompts, run.Range}, nil
}

// ComponentFile returns the name of the file of components that a run has measured.
func ComponentFile(components ...string) string {
	return componentFile + strings.Join(components, "_") + ".jsonl"
}

const componentFile = "component-"

// IsComponentFile reports whether a file contains components (one or several) measured by a run.
func IsComponentFile(path string) bool { return strings.HasPrefix(filepath.Base(path), componentFile) }

// RunOf names the judge of a file of predictions by the first digits of its fingerprint; "" for files not written by
// a run.
func RunOf(predictions string) (string, error) {
	judge, err := JudgeOf(predictions)
	if err != nil || judge == nil {
		return "", err
	}
	return fmt.Sprintf("%.8s", judge.Fingerprint), nil
}

// OneRun refuses a number whose values come from different runs, or partly from files not written by a run: two
// halves from two judges are not one judge's number.
type OneRun struct{ first *string }

// Check records the run of a value and refuses a second run.
func (o *OneRun) Check(number, run string) error {
	if o.first == nil {
		o.first = &run
	}
	of := func(run string) string { return cmp.Or(run, "an unknown run") }
	if *o.first != run {
		return fmt.Errorf("%s is from %s here, from %s before: want one judge", number, of(run), of(*o.first))
	}
	return nil
}

// ReadBy reads the field "by", {component: what measured it}; two values for one component are an error, and so is a
// component that is not in known, unless known is nil.
func ReadBy(r *Line, by map[string]string, known []string) error {
	if !r.Has("by") {
		return nil
	}
	said := r.Object("by")
	if known != nil {
		if err := CheckNames("by", slices.Sorted(maps.Keys(said)), known); err != nil {
			return err
		}
	}
	for c, name := range said {
		if first, ok := by[c]; ok && first != name {
			return fmt.Errorf("%s is measured by %s here, by %s before: want one judge", c, name, first)
		}
		by[c] = name
	}
	return nil
}

// Judges joins the names of what measured components; "" if none is known. If only some are known, they still
// distinguish two numbers.
func Judges(by map[string]string, components []string) string {
	var names []string
	known := false
	for _, c := range components {
		name := Stated(strings.ToLower(by[c]))
		known = known || by[c] != ""
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if !known {
		return ""
	}
	return strings.Join(names, "; ")
}
