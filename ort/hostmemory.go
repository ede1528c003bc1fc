package ort

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// HostMemory returns the machine's memory in bytes, or the container's limit if that is lower; 0 if it is unknown.
func HostMemory() int64 {
	var info syscall.Sysinfo_t
	if syscall.Sysinfo(&info) != nil {
		return 0
	}
	total := int64(info.Totalram) * int64(info.Unit)
	for _, name := range []string{"memory.max", "memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile("/sys/fs/cgroup/" + name)
		if err != nil {
			continue
		}
		if most, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil { // it may also be "max"
			total = min(total, most)
		}
	}
	return total
}
