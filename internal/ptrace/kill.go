package ptrace

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// KillTree kills a process and all its descendants, and waits until the descendants are gone.
func KillTree(pid int) error {
	below := descendants(pid)
	errs := []error{kill(pid)}
	for _, child := range append(below, descendants(pid)...) {
		kill(child)
	}
	for _, child := range below {
		for range 1000 {
			raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child))
			if _, state, ok := strings.Cut(string(raw), ") "); err != nil || !ok || strings.HasPrefix(state, "Z") {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	return errors.Join(errs...)
}

func kill(pid int) error {
	p, err := os.FindProcess(pid)
	if err != nil {
		return err
	}
	return p.Kill()
}

// descendants returns the children of a process, their children, and so on.
func descendants(pid int) (out []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		raw, err := os.ReadFile(list)
		if err != nil {
			continue
		}
		for _, field := range strings.Fields(string(raw)) {
			if child, err := strconv.Atoi(field); err == nil {
				out = append(append(out, child), descendants(child)...)
			}
		}
	}
	return out
}
