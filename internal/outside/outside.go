// Package outside tests that commands keep the promises of docs/privacy.md: they write only to the folders that they
// are given, and contact no other machine. The system calls of a command are traced by package ptrace.
package outside

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"assay/internal/ptrace"
)

// Test runs a command with an empty home folder. It fails if the command fails, or writes outside of folders, the
// temporary folder and the user's own store. It also fails if the command connects to another machine. The
// environment is env and little else: with the variables of CI systems some libraries behave differently. TestMain
// must call [ptrace.Become].
func Test(t *testing.T, args, env []string, folders ...string) {
	t.Helper()
	if !ptrace.Supported {
		t.Skip("system calls are traced only on Linux on amd64")
	}
	home, temporary := t.TempDir(), t.TempDir()
	cache := filepath.Join(home, ".cache")
	if err := os.Mkdir(cache, 0o777); err != nil {
		t.Fatal(err)
	}
	folders = append(folders, temporary, filepath.Join(cache, "assay"))
	for _, name := range []string{"PATH", "LD_LIBRARY_PATH", "ASSAY_ONNXRUNTIME", "ASSAY_SPIN"} {
		env = append(env, name+"="+os.Getenv(name))
	}
	env = append(env, "HOME="+home, "TMPDIR="+temporary, "CUDA_VISIBLE_DEVICES=")
	p := ptrace.Program{Args: args, Env: env, Life: 5 * time.Minute}
	found, code, said, err := watch(t.Context(), p, folders)
	if errors.Is(err, syscall.EPERM) {
		t.Skip(err)
	}
	if err != nil || code != 0 {
		t.Fatalf("%q: %v, exit code %d, want 0: %s", args[1:], err, code, said)
	}
	for _, what := range found {
		t.Errorf("%q: %s; want nothing outside %q", args[1:], what, folders)
	}
	left, err := os.ReadDir(temporary)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range left {
		t.Errorf("%q left %s in the temporary folder, want nothing", args[1:], e.Name())
	}
}
