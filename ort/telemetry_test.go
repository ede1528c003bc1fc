package ort

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestTelemetry loads the runtime in a child process, whose home folder must stay empty. Variables of CI systems are
// unset: if they are set, the runtime collects nothing anyway.
func TestTelemetry(t *testing.T) {
	const child = "ASSAY_TEST_TELEMETRY"
	if os.Getenv(child) != "" {
		if _, err := Version(); err != nil {
			t.Fatal(err)
		}
		return
	}
	library, err := findLibrary()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	c := exec.Command(os.Args[0], "-test.run=^TestTelemetry$")
	c.Env = []string{child + "=1", "HOME=" + home, LibraryEnv + "=" + library,
		"LD_LIBRARY_PATH=" + os.Getenv("LD_LIBRARY_PATH")}
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("the child: got error %v, want none: %s", err, said)
	}
	err = filepath.WalkDir(home, func(path string, e fs.DirEntry, err error) error {
		if path != home {
			t.Errorf("loading the runtime created %s, want nothing in the home folder", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestTelemetryByUser: the user can turn telemetry on with 0 and with no other value.
func TestTelemetryByUser(t *testing.T) {
	for _, c := range []struct{ set, want string }{{"", "1"}, {"1", "1"}, {"true", "1"}, {"2", "1"}, {"0", "0"}} {
		t.Run(fmt.Sprintf("%q", c.set), func(t *testing.T) {
			t.Setenv(TelemetryEnv, c.set)
			if err := quiet(); err != nil {
				t.Fatal(err)
			}
			if got := os.Getenv(TelemetryEnv); got != c.want {
				t.Errorf("%s=%q: the runtime gets %q, want %q", TelemetryEnv, c.set, got, c.want)
			}
		})
	}
}
