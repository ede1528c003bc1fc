package store

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestMain is also the program that other processes run.
func TestMain(m *testing.M) {
	if folder := os.Getenv("STORE_TEST_WRITER"); folder != "" {
		if err := writer(folder, os.Getenv("STORE_TEST_FULL") != ""); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const (
	processRecords = 300
	processValue   = 20_000
)

// writer gets or puts all records, until it is killed or done. With full no file can grow beyond some size, as on a
// full disk.
func writer(folder string, full bool) error {
	var told []string
	s, err := Open(folder, Options{Limit: 1 << 30, Warn: func(text string) { told = append(told, text) }})
	if err != nil {
		return err
	}
	b, err := s.Bucket("things", "model")
	if err != nil {
		return err
	}
	if full {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1_000_000, Max: 1_000_000}); err != nil {
			return err
		}
	}
	fmt.Println("begun")
	for i := range processRecords {
		if got := b.Get(keyOf(i)); got == nil {
			b.Remember(keyOf(i), valueOf(i, processValue))
		} else if !bytes.Equal(got, valueOf(i, processValue)) {
			return fmt.Errorf("record %d has another value", i)
		}
	}
	if full != (len(told) == 1) {
		return fmt.Errorf("warnings: %q", told)
	}
	if full && (!strings.Contains(told[0], segmentExt) || !strings.Contains(told[0], "file too large")) {
		return fmt.Errorf("the warning does not name the file: %q", told)
	}
	return nil
}

func start(t *testing.T, folder string, env ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	c := exec.Command(os.Args[0])
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.Env = append(append(os.Environ(), "STORE_TEST_WRITER="+folder), env...)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	return c, &out
}

// missingRecords returns the number of missing records, and fails if one is wrong.
func missingRecords(t *testing.T, folder string) (missing int) {
	t.Helper()
	b := openBucket(t, folder, 1<<30)
	defer b.store.Close()
	for i := range processRecords {
		if got := b.Get(keyOf(i)); got == nil {
			missing++
		} else if !bytes.Equal(got, valueOf(i, processValue)) {
			t.Fatalf("record %d: got the bytes of another, want its own", i)
		}
	}
	return missing
}

// TestKilled: processes that are killed while they write leave intact records, and the next one continues.
func TestKilled(t *testing.T) {
	dir := t.TempDir()
	last := processRecords
	for n := range 12 {
		a, _ := start(t, dir)
		b, _ := start(t, dir)
		time.Sleep(time.Duration(3+n) * time.Millisecond)
		for _, c := range []*exec.Cmd{a, b} {
			c.Process.Kill()
			c.Wait()
		}
		missing := missingRecords(t, dir)
		if missing > last {
			t.Errorf("got %d records missing, want at most %d as before", missing, last)
		}
		last = missing
	}
	c, out := start(t, dir)
	if err := c.Wait(); err != nil {
		t.Fatalf("the last process: got error %v, want none: %s", err, out)
	}
	if missing := missingRecords(t, dir); missing > 0 {
		t.Errorf("got %d records missing, want none", missing)
	}
	if r, err := Verify(dir); err != nil || len(r.Damaged) > 0 {
		t.Errorf("Verify: got %+v, %v, want no damage", r, err)
	}
}

// TestProcesses: four processes use the same records at once.
func TestProcesses(t *testing.T) {
	dir := t.TempDir()
	for range 4 {
		c, out := start(t, dir)
		t.Cleanup(func() {
			if err := c.Wait(); err != nil {
				t.Errorf("a process: got error %v, want none: %s", err, out)
			}
			if missing := missingRecords(t, dir); missing > 0 {
				t.Errorf("got %d records missing, want none", missing)
			}
		})
	}
}

// TestFullDisk: a process whose files cannot grow warns once and continues; its records are intact.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	c, out := start(t, dir, "STORE_TEST_FULL=1")
	if err := c.Wait(); err != nil {
		t.Fatalf("the process: got error %v, want none: %s", err, out)
	}
	if missing := missingRecords(t, dir); missing == 0 || missing == processRecords {
		t.Errorf("got %d records missing, want some of %d", missing, processRecords)
	}
	if r, err := Verify(dir); err != nil || len(r.Damaged) > 0 {
		t.Errorf("Verify: got %+v, %v, want no damage", r, err)
	}
}

// TestReadOnly: records are found in files that cannot be written. (Permissions have no effect for root.)
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	b := openBucket(t, dir, 1<<20)
	put(t, b, 1, []byte("one"))
	b.store.Close()
	paths, _ := files(t, dir)
	for _, p := range append(paths, filepath.Dir(paths[0])) {
		if err := os.Chmod(p, 0o555); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.Chmod(p, 0o755) })
	}
	var told []string
	s, err := Open(dir, Options{Warn: func(text string) { told = append(told, text) }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	again := bucket(t, s, "things", "model")
	if v := again.Get(keyOf(1)); string(v) != "one" {
		t.Errorf("record 1: got %q, want %q", v, "one")
	}
	again.Remember(keyOf(2), []byte("two"))
	if probe := os.WriteFile(filepath.Join(filepath.Dir(paths[0]), "probe"), nil, 0o666); errors.Is(
		probe,
		os.ErrPermission,
	) &&
		len(told) != 1 {
		t.Errorf("got warnings %q, want one", told)
	}
}
