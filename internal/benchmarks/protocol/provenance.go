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
)

// Judge identifies what predictions are by.
type Judge struct {
	Fingerprint string `json:"fingerprint"`       // of all that its scores depend on
	Prompts     string `json:"prompts,omitempty"` // digest of what it was asked, where it answers in words
}

// JudgeOf reads what a file of predictions is by from run.json beside it, which a run writes; nil if there is none.
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
	var run struct{ Scorer, Prompts string }
	if err := json.Unmarshal(raw, &run); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return &Judge{run.Scorer, run.Prompts}, nil
}

// ComponentFile is the name of the file of components that a run has measured.
func ComponentFile(components ...string) string {
	return componentFile + strings.Join(components, "_") + ".jsonl"
}

const componentFile = "component-"

// IsComponentFile reports whether a run has measured what a file holds: one component, or a few.
func IsComponentFile(path string) bool { return strings.HasPrefix(filepath.Base(path), componentFile) }

// RunOf names what wrote a file of predictions by the first digits of its fingerprint; "" of files that no run wrote.
func RunOf(predictions string) (string, error) {
	judge, err := JudgeOf(predictions)
	if err != nil || judge == nil {
		return "", err
	}
	return fmt.Sprintf("%.8s", judge.Fingerprint), nil
}

// OneRun refuses a number some of whose values are of one run, and others of another one or of files that no run wrote.
// Two judges' halves do not make one judge's number.
type OneRun struct{ first *string }

// Check records the run of a value and refuses a second run.
func (o *OneRun) Check(number, run string) error {
	if o.first == nil {
		o.first = &run
	}
	of := func(run string) string { return cmp.Or(run, "no known run") }
	if *o.first != run {
		return fmt.Errorf("%s is of %s here, of %s before: one judge was expected", number, of(run), of(*o.first))
	}
	return nil
}

// ReadBy reads the field "by", {component: what measured it}; two answers for one component are an error, and so is a
// component that is not among the known ones, if there are any.
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
			return fmt.Errorf("%s is measured by %s here, by %s before: one judge was expected", c, name, first)
		}
		by[c] = name
	}
	return nil
}

// Judges joins what measured components; "" if that is not known of any of them. Where it is not known of some, the
// others still tell two numbers apart.
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
