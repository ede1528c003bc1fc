package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const sample = `package sample

// Clamp bounds x.
func Clamp(x, lo, hi int) int {
	if x < lo {
		return lo
	}
	if x > hi {
		return hi
	}
	return x
}
`

// TestVerdicts: a boundary that returns the same value survives, all other mutants of Clamp are killed.
func TestVerdicts(t *testing.T) {
	root := t.TempDir()
	write(t, root, "go.mod", "module sample\n\ngo 1.26.0\n")
	write(t, root, "clamp.go", sample)
	write(t, root, "clamp_test.go", `package sample

import "testing"

func TestClamp(t *testing.T) {
	for x, want := range map[int]int{-1: 0, 0: 0, 3: 3, 9: 9, 10: 9} {
		if got := Clamp(x, 0, 9); got != want {
			t.Errorf("Clamp(%d) = %d, want %d", x, got, want)
		}
	}
}
`)
	pkgs, err := packages(root, "", []string{"."})
	if err != nil {
		t.Fatal(err)
	}
	run, err := newTester(t.Context(), root, t.TempDir(), "", pkgs[0])
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	got, err := run.tryAll(t.Context(), options{}, map[string]bool{"clamp.go Clamp: x > hi -> x >= hi": true}, &out)
	if err != nil {
		t.Fatal(err)
	}
	if got[Killed] != 2 || got[Survived] != 1 || got[Equivalent] != 1 || got.percent() < 66 || got.percent() > 67 {
		t.Errorf("got %v, %.1f%%, want 2 killed, 1 survived, 1 equivalent, 66.7%%", got, got.percent())
	}
	if want := "survived: line 5 of clamp.go Clamp: x < lo -> x <= lo\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}

func TestFind(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.go", `package a

func (r *run) f(x int) (s string) {
	for i := 0; i < 3; i++ {
		if r.ok(i) && !r.done {
			continue
		}
		r.n += -x
		r.stop()
	}
	return "a" + s
}
`)
	found, err := find(filepath.Join(dir, "a.go"))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range found {
		if m.Function != "run.f" {
			t.Errorf("function %q, want run.f", m.Function)
		}
		got = append(got, m.Change)
	}
	want := []string{
		"0 -> 1 in for i := 0; i < 3; i++ {", "i < 3 -> i <= 3", "i < 3 -> i >= 3", "i++ -> i--", "r.stop() -> {}",
		"r.n += -x -> r.n -= -x", "r.n += -x -> _ = -x",
		"-x -> x", "continue -> break", "r.ok(i) && !r.done -> r.ok(i) || !r.done", "!r.done -> r.done",
	}
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%q is missing among %q", w, got)
		}
	}
	for _, g := range got {
		if strings.HasPrefix(g, `"a"`) {
			t.Errorf("strings have no difference, got %q", g)
		}
	}
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}
