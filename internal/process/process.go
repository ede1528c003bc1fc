// Package process tells whether another process of this machine has ended.
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

// ID says which process is meant, to processes elsewhere too.
type ID struct {
	Host string `json:"host"`
	PID  int    `json:"pid"`

	Boot  string `json:"boot,omitempty"`  // of the machine
	Space string `json:"space,omitempty"` // in which the number counts: containers have their own
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

// Near tells whether the process has its number where this one does: on the same machine since it was booted, and in
// the same PID namespace. Names of hosts prove nothing, since containers may share one.
func (id ID) Near() bool {
	me := Self()
	return me.Boot != "" && id.Boot == me.Boot && id.Space == me.Space && id.PID > 0
}

// Gone tells whether the process is known to have ended. A zombie has, although its number is taken until its parent
// asks for its exit code.
func (id ID) Gone() bool {
	if !id.Near() {
		return false
	}
	return errors.Is(syscall.Kill(id.PID, 0), syscall.ESRCH) || zombie(id.PID)
}

// zombie tells whether no thread of a process runs any more. The first one may end before the others.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false // without /proc it is not known
	}
	_, fields, _ := bytes.Cut(stat[max(0, bytes.LastIndexByte(stat, ')')):], []byte(" ")) // the name may hold anything
	f := bytes.Fields(fields)
	const state, threads = 0, 17
	return len(f) > threads && strings.Contains("ZXx", string(f[state])) && len(f[threads]) == 1 && f[threads][0] <= '1'
}
