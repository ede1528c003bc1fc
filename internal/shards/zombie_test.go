package shards

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestZombie: a worker that has ended is gone even if its parent has not read its exit code, as in containers whose
// first process does not reap its children.
func TestZombie(t *testing.T) {
	c := exec.Command("sleep", "600")
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	defer c.Wait()
	me := worker()
	if me.Boot == "" {
		t.Skip("no /proc")
	}
	me.PID, me.Worker = c.Process.Pid, "other"
	text, err := json.Marshal(me)
	if err != nil {
		t.Fatal(err)
	}
	w := open(t, t.TempDir(), 1)
	if err := os.WriteFile(w.path(leaseName(1, 1)), text, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, busy, err := w.claim(1); err != nil || busy == "" {
		t.Errorf("the shard of a running process: %q %v, want it to be busy", busy, err)
	}
	if err := c.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for state := ""; state != "Z"; time.Sleep(time.Millisecond) {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		state = strings.Fields(string(stat))[2]
	}
	if l, busy, err := w.claim(1); err != nil || busy != "" || l == nil || l.number != 2 {
		t.Errorf("the shard of a zombie: %+v, %q, %v; want it to be taken", l, busy, err)
	}
}
