package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Package is the output of go list for a package.
type Package struct {
	Dir        string
	ImportPath string
	GoFiles    []string
}

// packages returns the packages that go list finds for the patterns in the main module's folder.
func packages(root, tags string, patterns []string) ([]Package, error) {
	cmd := exec.Command("go", append([]string{"list", "-tags=" + tags, "-json=Dir,ImportPath,GoFiles"}, patterns...)...)
	cmd.Dir, cmd.Stderr = root, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var all []Package
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var p Package
		if err := d.Decode(&p); err != nil {
			return nil, fmt.Errorf("go list: %w", err)
		}
		all = append(all, p)
	}
	return all, nil
}

// Verdict is the result of the tests on a mutant.
type Verdict string

// The verdicts. Invalid mutants do not compile or fail vet, and are not counted.
const (
	Killed     Verdict = "killed"
	Survived   Verdict = "survived"
	Invalid    Verdict = "invalid"
	Equivalent Verdict = "equivalent"
)

// tester runs a package's tests with changed files.
type tester struct {
	root    string
	scratch string // folder for changed files
	tags    string
	pkg     Package
	timeout time.Duration
}

// newTester first runs the tests without a change: they must pass, and their duration sets the time limit of a
// mutant.
func newTester(ctx context.Context, root, scratch, tags string, pkg Package) (*tester, error) {
	t := &tester{root: root, scratch: scratch, tags: tags, pkg: pkg, timeout: 10 * time.Minute}
	if out, err := t.test(ctx, nil); err != nil { // also compiles the dependencies
		return nil, fmt.Errorf("%s: its tests fail without a change: %w\n%s", pkg.ImportPath, err, out)
	}
	start := time.Now()
	if out, err := t.test(ctx, nil); err != nil {
		return nil, fmt.Errorf("%s: its tests fail without a change: %w\n%s", pkg.ImportPath, err, out)
	}
	t.timeout = 20*time.Second + 10*time.Since(start)
	return t, nil
}

// try runs the tests on one mutant.
func (t *tester) try(ctx context.Context, m Mutant) (Verdict, error) {
	source, err := os.ReadFile(m.File)
	if err != nil {
		return "", err
	}
	changed := filepath.Join(t.scratch, "mutant.go")
	if err := os.WriteFile(changed, m.apply(source), 0o644); err != nil {
		return "", err
	}
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{m.File: changed}})
	if err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(t.scratch, "overlay.json"), overlay, 0o644); err != nil {
		return "", err
	}
	out, err := t.test(ctx, []string{"-overlay", filepath.Join(t.scratch, "overlay.json")})
	var failed *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return Survived, nil
	case bytes.Contains(out, []byte("[build failed]")), bytes.Contains(out, []byte("[setup failed]")):
		return Invalid, nil
	case errors.As(err, &failed):
		return Killed, nil
	}
	return "", err
}

func (t *tester) test(ctx context.Context, flags []string) ([]byte, error) {
	args := []string{"test", "-short", "-vet=off", "-count=1", "-failfast"}
	args = append(args, "-tags="+t.tags, "-timeout="+t.timeout.String())
	args = append(args, flags...)
	cmd := exec.CommandContext(ctx, "go", append(args, t.pkg.ImportPath)...)
	cmd.Dir = t.root
	return cmd.CombinedOutput()
}
