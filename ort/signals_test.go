package ort

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"assay/internal/long"
)

// rude is a library that installs signal handlers without SA_ONSTACK when it is loaded.
const rude = `
#include <signal.h>
#include <string.h>
static void nothing(int s) { (void)s; }
__attribute__((constructor)) static void take(void) {
	struct sigaction a;
	memset(&a, 0, sizeof a);
	a.sa_handler = nothing;
	sigaction(SIGINT, &a, 0);
	sigaction(SIGTERM, &a, 0);
	sigaction(SIGUSR1, &a, 0);
	sigaction(SIGURG, &a, 0); /* Go's own, to stop a goroutine */
}
`

const rudeChild = "ASSAY_TEST_SIGNALS"

// TestSignalsChild is the program that loads the library. It is not ONNX Runtime, so loading fails, but the library
// and its handlers stay in place.
func TestSignalsChild(t *testing.T) {
	how := os.Getenv(rudeChild)
	if how == "" {
		t.Skip("run by TestSignals")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if how == "mend" {
		_, err = Version()
	} else {
		onnxruntime.SetSharedLibraryPath(os.Getenv(LibraryEnv))
		err = onnxruntime.InitializeEnvironment()
	}
	if err == nil || !strings.Contains(err.Error(), "OrtGetApiBase") {
		fmt.Println("it was not loaded:", err)
		os.Exit(5)
	}
	go func() {
		for sum := 0; ; sum++ { // only SIGURG stops this
		}
	}()
	if how == "mend" {
		runtime.GC() // waits until that goroutine is preempted
	}
	fmt.Println("ready")
	<-ctx.Done()
	fmt.Println("saved")
	os.Exit(3)
}

// TestSignals: Ctrl-C reaches a program although a library replaced its handlers; without keepSignals it does not.
func TestSignals(t *testing.T) {
	long.Test(t)
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("NOT TRIED: there is no C compiler to build a library that replaces signal handlers")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "rude.c"), filepath.Join(dir, "librude.so")
	if err := os.WriteFile(source, []byte(rude), 0o600); err != nil {
		t.Fatal(err)
	}
	build := exec.Command(cc, "-shared", "-fPIC", "-Wl,-z,nodelete", "-o", library, source)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("compiling: got error %v, want none: %s", err, out)
	}
	for how, survives := range map[string]bool{"mend": true, "leave": false} {
		t.Run(how, func(t *testing.T) {
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			c := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestSignalsChild$")
			c.Env = append(os.Environ(), LibraryEnv+"="+library, rudeChild+"="+how)
			pipe, err := c.StdoutPipe()
			if err != nil {
				t.Fatal(err)
			}
			var stderr strings.Builder
			c.Stderr = &stderr
			if err := c.Start(); err != nil {
				t.Fatal(err)
			}
			out := bufio.NewScanner(pipe)
			for out.Scan() && out.Text() != "ready" {
				t.Log(how, out.Text())
			}
			for range 3 {
				c.Process.Signal(syscall.SIGUSR1)
				time.Sleep(20 * time.Millisecond)
			}
			c.Process.Signal(os.Interrupt)
			if !survives { // it continues as if there had been no signal
				time.AfterFunc(2*time.Second, stop)
			}
			for out.Scan() {
				t.Log(how, out.Text())
			}
			c.Wait()
			if code := c.ProcessState.ExitCode(); (code == 3) != survives || code == 5 {
				t.Errorf("%s: got exit code %d, want it to survive %t: %s", how, code, survives, stderr.String())
			}
		})
	}
}
