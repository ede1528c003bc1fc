package ort

import (
	"context"
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

// rude is a library that takes handlers for itself, without SA_ONSTACK, once the program around it runs.
const rude = `
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>
static void nothing(int s) { (void)s; }
static void *take(void *_) {
	struct sigaction a;
	usleep(400000);
	memset(&a, 0, sizeof a);
	a.sa_handler = nothing;
	sigaction(SIGINT, &a, 0);
	sigaction(SIGTERM, &a, 0);
	sigaction(SIGUSR1, &a, 0);
	sigaction(SIGURG, &a, 0); /* Go's own, to stop a goroutine */
	return 0;
}
__attribute__((constructor)) static void begin(void) { pthread_t t; pthread_create(&t, 0, take, 0); }
`

const rudeChild = "ASSAY_TEST_SIGNALS"

// TestSignalsChild is the program around the library.
func TestSignalsChild(t *testing.T) {
	how := os.Getenv(rudeChild)
	if how == "" {
		t.Skip("run by TestSignals")
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mend := keepSignals()
	time.Sleep(1200 * time.Millisecond) // it is loaded meanwhile
	if how == "mend" {
		fmt.Println("mended", mend())
	}
	go func() {
		for sum := 0; ; sum++ { // what SIGURG stops
		}
	}()
	fmt.Println("ready")
	select {
	case <-ctx.Done():
		fmt.Println("saved")
		os.Exit(3)
	case <-time.After(20 * time.Second):
		os.Exit(4)
	}
}

// TestSignals: Ctrl-C reaches a program in spite of a library that took its handlers; without keepSignals it does not.
func TestSignals(t *testing.T) {
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("NOT TRIED: there is no C compiler to make a library with that takes signal handlers")
	}
	dir := t.TempDir()
	source, library := filepath.Join(dir, "rude.c"), filepath.Join(dir, "librude.so")
	if err := os.WriteFile(source, []byte(rude), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(cc, "-shared", "-fPIC", "-o", library, source, "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for how, survives := range map[string]bool{"mend": true, "leave": false} {
		c := exec.Command(os.Args[0], "-test.run", "^TestSignalsChild$")
		c.Env = append(os.Environ(), "LD_PRELOAD="+library, rudeChild+"="+how)
		var out strings.Builder
		c.Stdout, c.Stderr = &out, &out
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		for range 3 {
			c.Process.Signal(syscall.SIGUSR1)
			time.Sleep(100 * time.Millisecond)
		}
		c.Process.Signal(os.Interrupt)
		killed := time.AfterFunc(4*time.Second, func() { c.Process.Kill() })
		c.Wait()
		killed.Stop()
		if code := c.ProcessState.ExitCode(); (code == 3) != survives {
			t.Errorf("%s: exit code %d: %s", how, code, out.String())
		}
	}
}
