package signals

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"assay/internal/exit"
)

const roleEnv = "ASSAY_TEST_SIGNALS"

// TestMain is also the signalled process: one that has not yet called Context, or one whose context was cancelled.
func TestMain(m *testing.M) {
	switch os.Getenv(roleEnv) {
	case "":
		os.Exit(m.Run())
	case "late":
		ctx := Context()
		fmt.Println("ready")
		<-ctx.Done()
		fmt.Println("told")
	default:
		fmt.Println("ready")
	}
	time.Sleep(time.Minute)
}

// A signal before Context does not exit like wrong usage, and the second one ends the process, even the first process
// of a container, which no signal kills by default.
func TestEnds(t *testing.T) {
	for _, c := range []struct {
		role      string
		container bool
		signal    syscall.Signal
		times     int
		code      int // -1: killed by the signal
	}{
		{"early", false, syscall.SIGTERM, 1, exit.Interrupted},
		{"early", false, syscall.SIGINT, 1, exit.Interrupted},
		{"late", false, syscall.SIGTERM, 2, -1},
		{"early", true, syscall.SIGTERM, 1, exit.Interrupted},
		{"early", true, syscall.SIGINT, 1, exit.Interrupted},
		{"late", true, syscall.SIGTERM, 2, 128 + int(syscall.SIGTERM)},
		{"late", true, syscall.SIGINT, 2, 128 + int(syscall.SIGINT)},
	} {
		t.Run(fmt.Sprintf("%s-%v-%d", c.role, c.container, c.signal), func(t *testing.T) {
			child := exec.Command(os.Args[0])
			child.Env = append(os.Environ(), roleEnv+"="+c.role)
			if c.container {
				child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
			}
			out, err := child.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := child.Start(); err != nil {
				if c.container {
					t.Skipf("PID namespaces are not available: %v", err)
				}
				t.Fatal(err)
			}
			said := bufio.NewScanner(out)
			for range c.times { // ready, and told
				if !said.Scan() {
					t.Fatalf("got nothing from the process, want a line: %v", said.Err())
				}
				if err := child.Process.Signal(c.signal); err != nil {
					t.Fatal(err)
				}
			}
			_ = child.Wait()
			status := child.ProcessState.Sys().(syscall.WaitStatus)
			ended := status.ExitStatus() == c.code
			if c.code < 0 {
				ended = status.Signaled() && status.Signal() == c.signal
			}
			if !ended {
				t.Errorf("the process ended with %v, want exit code %d (-1: the signal)", child.ProcessState, c.code)
			}
		})
	}
}
