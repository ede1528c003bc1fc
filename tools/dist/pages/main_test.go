package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/cli"
	"assay/internal/cli/assay"
)

// TestPages: every command has a page that groff accepts without a warning, and every program has completions that
// bash can read.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SOURCE_DATE_EPOCH", "1795000000")
	if err := write(dir); err != nil {
		t.Fatal(err)
	}
	found, err := filepath.Glob(filepath.Join(dir, "man/man1/*.1"))
	if err != nil {
		t.Fatal(err)
	}
	want := 3 // train, score, label
	var count func(c *cobra.Command)
	count = func(c *cobra.Command) {
		want++
		page, err := os.ReadFile(filepath.Join(dir, "man/man1", cli.ManName(c)+".1"))
		if err != nil {
			t.Error(err)
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			name := strings.ReplaceAll("--"+f.Name, "-", `\-`)
			if !f.Hidden && f.Deprecated == "" && !strings.Contains(string(page), name) {
				t.Errorf("the page of %s: got no --%s, want it", c.CommandPath(), f.Name)
			}
		})
		for _, sub := range c.Commands() {
			if cli.HasMan(sub) {
				count(sub)
			}
		}
	}
	count(assay.App.Tree())
	if len(found) != want {
		t.Errorf("got %d pages, want %d", len(found), want)
	}
	quiet := func(name string, args ...string) {
		t.Helper()
		if _, err := exec.LookPath(name); err != nil {
			t.Logf("%s is not installed: skipped", name)
			return
		}
		c := exec.Command(name, args...)
		c.Dir = dir
		if out, err := c.CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: got %v, %.2000s, want no error and no warning", name, err, out)
		}
	}
	for _, page := range found {
		relative, _ := filepath.Rel(dir, page)
		if !strings.Contains(relative, "assay") { // .so, which groff resolves relative to the manual's folder
			continue
		}
		quiet("groff", "-man", "-Tutf8", "-wall", "-z", relative)
	}
	scripts, err := filepath.Glob(filepath.Join(dir, "bash-completion/completions/*"))
	if err != nil || len(scripts) != 4 {
		t.Fatalf("got %v, %v, want four completions for bash", scripts, err)
	}
	for _, script := range scripts {
		quiet("bash", "-n", script)
	}
	for _, pattern := range []string{"zsh/site-functions/_*", "fish/vendor_completions.d/*.fish"} {
		if list, _ := filepath.Glob(filepath.Join(dir, pattern)); len(list) != 4 {
			t.Errorf("%s: got %v, want four files", pattern, list)
		}
	}
}
