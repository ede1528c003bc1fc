package checkpoints

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/atomicfile"
	"assay/internal/testfile"
)

// writeState returns a function that writes a recognisable state: two files, one in a folder, filled with the step.
func writeState(step int64, size int) func(string) error {
	return func(dir string) error {
		if err := os.Mkdir(filepath.Join(dir, "sub"), 0o777); err != nil {
			return err
		}
		body := bytes.Repeat([]byte{byte(step)}, size)
		if err := os.WriteFile(filepath.Join(dir, "a.bin"), body, 0o666); err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, "sub", "b.bin"), body, 0o666)
	}
}

func checkState(t *testing.T, dir string, step int64, size int) {
	t.Helper()
	for _, name := range []string{"a.bin", "sub/b.bin"} {
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(got, bytes.Repeat([]byte{byte(step)}, size)) {
			t.Fatalf("%s: got %d bytes, %v, want %d times %d", name, len(got), err, size, step)
		}
	}
}

func TestSaveKeepsTheNewest(t *testing.T) {
	root := filepath.Join(t.TempDir(), "run", "checkpoints[1]")
	if dir, _, err := Latest(root); dir != "" || err != nil {
		t.Errorf("Latest without checkpoints: got %q, %v, want nothing", dir, err)
	}
	if err := os.MkdirAll(filepath.Join(root, ".step-3.KILLED7890.tmp"), 0o777); err != nil {
		t.Fatal(err)
	}
	for step := int64(8); step <= 11; step++ {
		if err := Save(root, step, 2, writeState(step, 10)); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff([]string{"step-10", "step-11"}, testfile.Names(t, root)); diff != "" {
		t.Error(diff)
	}
	dir, step, err := Latest(root)
	if err != nil || step != 11 {
		t.Fatalf("Latest: got %s, step %d, %v, want step 11", dir, step, err)
	}
	checkState(t, dir, 11, 10)
	if err := Save(root, 11, 2, writeState(12, 3)); err != nil { // the same step again
		t.Fatal(err)
	}
	checkState(t, dir, 12, 3)
	if err := Save(root, 10, 1, writeState(10, 3)); err != nil { // an earlier step: the new checkpoint is kept
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"step-10", "step-11"}, testfile.Names(t, root)); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedCheckpointsAreSkipped(t *testing.T) {
	for name, c := range map[string]struct {
		damage func(dir string) error
		want   string
	}{
		"no manifest":   {func(d string) error { return os.Remove(filepath.Join(d, manifestName)) }, manifestName},
		"torn manifest": {func(d string) error { return os.Truncate(filepath.Join(d, manifestName), 40) }, "unexpected EOF"},
		"missing file": {func(d string) error { return os.Remove(filepath.Join(d, "sub", "b.bin")) },
			"b.bin: no such file"},
		"truncated file": {func(d string) error { return os.Truncate(filepath.Join(d, "a.bin"), 5) },
			"a.bin: has 5 bytes, but 10 were written"},
		"flipped bit": {func(d string) error {
			return os.WriteFile(filepath.Join(d, "a.bin"), []byte("\x02\x02\x02\x02\x03\x02\x02\x02\x02\x02"), 0o666)
		}, "a.bin: its SHA-256 is"},
		"other step": {func(d string) error {
			os.RemoveAll(d)
			return os.CopyFS(d, os.DirFS(filepath.Join(filepath.Dir(d), "step-1")))
		}, "want format 1 and step-2"},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			for step := int64(1); step <= 2; step++ {
				if err := Save(root, step, 0, writeState(step, 10)); err != nil {
					t.Fatal(err)
				}
			}
			newest := filepath.Join(root, "step-2")
			if err := c.damage(newest); err != nil {
				t.Fatal(err)
			}
			dir, step, err := Latest(root)
			var damaged *DamagedError
			if step != 1 || !errors.As(err, &damaged) || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), newest) {
				t.Errorf("%s: step %d, error %v; want step 1 and %q", name, step, err, c.want)
				return
			}
			checkState(t, dir, 1, 10)
			os.RemoveAll(filepath.Join(root, "step-1"))
			if dir, _, err := Latest(root); dir != "" || !errors.As(err, &damaged) {
				t.Errorf("%s: Latest with only a damaged one: got %q, %v, want none and a DamagedError", name, dir, err)
			}
		})
	}
}

func TestFailuresLeaveNothing(t *testing.T) {
	root := t.TempDir()
	if err := Save(root, 1, 1, writeState(1, 10)); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("broken")
	err := Save(root, 2, 1, func(dir string) error {
		return errors.Join(writeState(2, 10)(dir), broken)
	})
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "step-2") {
		t.Errorf("Save that fails: got error %v, want %v with the name step-2", err, broken)
	}
	if err := Save(root, 2, 1, func(dir string) error { return os.Symlink("/", filepath.Join(dir, "link")) }); err == nil {
		t.Errorf("Save of a link: got error %v, want one", err)
	}
	if diff := cmp.Diff([]string{"step-1"}, testfile.Names(t, root)); diff != "" {
		t.Error(diff)
	}
	file := filepath.Join(root, "step-1", "a.bin") // a file instead of a folder: nothing can be written below it
	if err := Save(
		filepath.Join(file, "x"),
		2,
		1,
		writeState(2, 10),
	); !errors.Is(err, syscall.ENOTDIR) ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("Save below a file: got error %v, want %v with %q", err, syscall.ENOTDIR, file)
	}
	if err := atomicfile.Write(
		filepath.Join(file, "x"),
		func(io.Writer) error { return nil },
	); !errors.Is(
		err,
		syscall.ENOTDIR,
	) {
		t.Errorf("Write below a file: got error %v, want %v", err, syscall.ENOTDIR)
	}
	if err := atomicfile.Write(
		file,
		func(w io.Writer) error { fmt.Fprint(w, "half"); return broken },
	); !errors.Is(
		err,
		broken,
	) {
		t.Errorf("Write that fails: got error %v, want %v", err, broken)
	}
	checkState(t, filepath.Join(root, "step-1"), 1, 10)
	got := testfile.Names(t, filepath.Join(root, "step-1"))
	if diff := cmp.Diff([]string{manifestName, "a.bin", "sub"}, got); diff != "" {
		t.Error(diff)
	}
}

const childSize = 300_000

// TestMain lets the test binary act as the process that is killed, or whose disk is full.
func TestMain(m *testing.M) {
	root := os.Getenv("CHECKPOINTS_TEST_ROOT")
	switch os.Getenv("CHECKPOINTS_TEST_CHILD") {
	case "save":
		for step := int64(1); step < 250; step++ {
			if err := Save(root, step, 2, writeState(step, childSize)); err != nil {
				fmt.Println(err)
				os.Exit(1)
			}
			fmt.Println("saved", step)
		}
		os.Exit(0)
	case "full":
		// Writes beyond the limit fail like those on a full disk, but with EFBIG.
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100_000, Max: 100_000}); err != nil {
			panic(err)
		}
		fmt.Println(Save(root, 2, 1, writeState(2, childSize)))
		fmt.Println(atomicfile.Write(filepath.Join(root, "step-1", "a.bin"), func(w io.Writer) error {
			_, err := w.Write(make([]byte, childSize))
			return err
		}))
		w, err := NewWriter(
			filepath.Join(root, "x.safetensors"),
			[]TensorInfo{{Name: "t", Type: 2, Shape: []int64{childSize}}},
			nil,
		)
		if err == nil {
			err = w.Write("t", make([]byte, childSize))
			w.Abort()
		}
		fmt.Println(err)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(role, root string) *exec.Cmd {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), "CHECKPOINTS_TEST_CHILD="+role, "CHECKPOINTS_TEST_ROOT="+root)
	return c
}

func TestKilledWhileSaving(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	root := t.TempDir()
	for range 12 {
		c := child("save", root)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for range 1 + rng.IntN(3) {
			lines.Scan()
		}
		time.Sleep(time.Duration(rng.IntN(12_000)) * time.Microsecond)
		c.Process.Kill()
		c.Wait()
		if !strings.HasPrefix(lines.Text(), "saved ") {
			t.Fatalf("got %q from the child, want saved", lines.Text())
		}
		dir, step, err := Latest(root)
		if err != nil || step == 0 {
			t.Fatalf("Latest after a kill: got %q, step %d, %v, want a checkpoint", dir, step, err)
		}
		checkState(t, dir, step, childSize)
		steps, _ := steps(root)
		for _, s := range steps { // every named checkpoint is complete
			if err := verify(filepath.Join(root, stepName(s))); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestFullDisk(t *testing.T) {
	root := t.TempDir()
	if err := Save(root, 1, 1, writeState(1, 10)); err != nil {
		t.Fatal(err)
	}
	out, err := child("full", root).CombinedOutput()
	if err != nil {
		t.Fatalf("the child: got error %v, want none: %s", err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if len(lines) != 3 {
		t.Fatalf("got lines %q, want 3", lines)
	}
	for i, want := range []string{"saving checkpoint step-2 in " + root, "writing " + root,
		"x.safetensors: tensor \"t\""} {
		if !strings.Contains(lines[i], want) || !strings.Contains(lines[i], syscall.EFBIG.Error()) {
			t.Errorf("error %q, want %q in it", lines[i], want)
		}
	}
	if diff := cmp.Diff([]string{"step-1"}, testfile.Names(t, root)); diff != "" {
		t.Error(diff)
	}
	dir, _, err := Latest(root)
	if err != nil {
		t.Fatal(err)
	}
	checkState(t, dir, 1, 10)
}
