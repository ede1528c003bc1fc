// Package process identifies processes across machines and containers ([ID]), and reports whether one on this machine
// has ended. Leases of shards and ranks of MPI jobs share their IDs, so that others notice when a process has
// crashed.
package process

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
)

// ID identifies a process, also on other machines.
type ID struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`

	Boot  string `json:"boot,omitempty"`  // boot id of the machine
	Space string `json:"space,omitempty"` // PID namespace: containers have their own
}

// Self is this process. Without /proc it has neither Boot nor Space.
var Self = sync.OnceValue(func() ID {
	host, err := os.Hostname()
	if err != nil {
		host = "?"
	}
	id := ID{Host: host, PID: os.Getpid()}
	boot, noBoot := os.ReadFile("/proc/sys/kernel/random/boot_id")
	space, noSpace := os.Readlink("/proc/self/ns/pid")
	if noBoot == nil && noSpace == nil {
		id.Boot, id.Space = strings.TrimSpace(string(boot)), space
	}
	return id
})

// Near reports whether the process is in the PID namespace of this one, on the same machine and in the same boot.
// Host names prove nothing, because containers may share one.
func (id ID) Near() bool {
	me := Self()
	return me.Boot != "" && id.Boot == me.Boot && id.Space == me.Space && id.PID > 0
}

// Gone reports whether the process is known to have ended. A zombie has ended, although its PID is taken until its
// parent reads its exit code.
func (id ID) Gone() bool {
	if !id.Near() {
		return false
	}
	return errors.Is(syscall.Kill(id.PID, 0), syscall.ESRCH) || zombie(id.PID)
}

// zombie reports whether no thread of a process is running. The main thread may end before the others.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // unknown without /proc
	}
	_, fields, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" ")) // the name may contain anything
	f := bytes.Fields(fields)
	const state, threads = 0, 17
	return len(f) > threads && strings.Contains("ZXx", string(f[state])) && len(f[threads]) == 1 && f[threads][0] <= '1'
}
