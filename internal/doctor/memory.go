package doctor

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
)

// MemoryUse is the measured memory peak of training and the plan of --dry-run.
type MemoryUse struct {
	Way      string           `json:"way"`
	Planned  int64            `json:"planned"` // bytes
	Parts    map[string]int64 `json:"parts"`
	Measured int64            `json:"measured,omitempty"` // bytes; 0: could not be measured
	How      string           `json:"how"`
}

// memoryBefore returns the memory in use on a device now, in bytes; 0 if unknown.
func (d *doctor) memoryBefore(device string) int64 {
	if strings.HasPrefix(device, "cuda") {
		return usedOnGPU(device)
	}
	runtime.GC()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // reset the peak (VmHWM)
	return status("VmRSS:")
}

// memoryAfter records the peak since memoryBefore and the plan.
func (d *doctor) memoryAfter(before int64, t *steps) {
	d.Memory = MemoryUse{Way: d.Device, Parts: t.plan.Bytes,
		How: "peak resident memory of the process, minus its memory before"}
	for _, n := range t.plan.Bytes {
		d.Memory.Planned += n
	}
	if !d.cuda() {
		if peak := status("VmHWM:"); peak > before && before > 0 {
			d.Memory.Measured = peak - before
		}
		d.Memory.Planned -= t.plan.Bytes["program"] // it was in use before
		return
	}
	d.Memory.How = "nvidia-smi, minus the memory in use before"
	d.Memory.Measured = max(t.used-before, 0)
}

// status reads a value from /proc/self/status, in bytes; 0 if it is missing.
func status(key string) int64 {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == key {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}

// usedOnGPU asks nvidia-smi for the memory in use, in bytes; 0 without nvidia-smi. Session arenas do not return
// memory, so this is their peak while the sessions are open.
func usedOnGPU(device string) int64 {
	out, err := exec.Command("nvidia-smi", "-i", strings.TrimPrefix(device, "cuda:"), "--query-gpu=memory.used",
		"--format=csv,noheader,nounits").Output()
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(out)), 10, 64)
	return n << 20
}

func (m MemoryUse) String() string {
	if m.Measured == 0 {
		return fmt.Sprintf("%.1f MiB planned, not measured", float64(m.Planned)/(1<<20))
	}
	return fmt.Sprintf("%.1f MiB planned, %.1f MiB measured", float64(m.Planned)/(1<<20), float64(m.Measured)/(1<<20))
}
