package process

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// TestGone: a process runs, becomes a zombie, and is gone. The name of its program is hard to parse.
func TestGone(t *testing.T) {
	if Self().Boot == "" {
		t.Skip("no /proc")
	}
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a) Z 0 (b")
	if err := os.Symlink(sleep, name); err != nil {
		t.Fatal(err)
	}
	c := exec.Command(name, "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	id := Self()
	if id.Gone() {
		t.Errorf("Gone of this process: got true, want false, %+v", id)
	}
	id.PID = c.Process.Pid
	if id.Gone() {
		t.Errorf("Gone of a running process: got true, want false, %+v", id)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	zombie := false
	for range 10000 { // it is not waited for yet
		if zombie = id.Gone(); zombie {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if !zombie {
		t.Errorf("a process that has ended: got zombie %t, want true", zombie)
	}
	c.Wait()
	if !id.Gone() {
		t.Errorf("Gone of a process that has ended: got false, want true, %+v", id)
	}
	for what, change := range map[string]func(id *ID){
		"namespace": func(id *ID) { id.Space = "pid:[1]" },
		"boot":      func(id *ID) { id.Boot = "earlier" },
	} {
		t.Run(what, func(t *testing.T) {
			other := id
			if change(&other); other.Gone() {
				t.Errorf("Gone of a process of another %s: got true, want false, because it is unknown: %+v", what, other)
			}
		})
	}
}
