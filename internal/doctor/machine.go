package doctor

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"assay/data"
	"assay/internal/version"
	"assay/ort"
)

// Machine describes hardware, driver and library versions.
type Machine struct {
	System    string   `json:"system"`
	Processor string   `json:"processor"`
	Cores     int      `json:"cores"`
	Memory    int64    `json:"memory"` // bytes
	Assay     string   `json:"assay"`
	Go        string   `json:"go"`
	Runtime   string   `json:"onnxruntime"`
	JPEG      string   `json:"jpeg"`             // decoder, and the reason if it is Go's
	Driver    string   `json:"driver,omitempty"` // NVIDIA driver, as the kernel reports it
	GPUs      []string `json:"gpus,omitempty"`   // as nvidia-smi lists them
	Libraries []string `json:"libraries"`        // loaded libraries that computation depends on
}

func machine() Machine {
	m := Machine{
		System:    runtime.GOOS + "/" + runtime.GOARCH,
		Processor: processor(),
		Cores:     runtime.NumCPU(),
		Assay:     version.Version,
		Go:        runtime.Version(),
		JPEG:      data.JPEGText(),
		Libraries: loaded(),
	}
	m.Memory = meminfo()
	if v, err := ort.Version(); err == nil {
		m.Runtime = v
	}
	if text, err := os.ReadFile("/proc/driver/nvidia/version"); err == nil {
		m.Driver, _, _ = strings.Cut(string(text), "\n")
	}
	if out, err := exec.Command("nvidia-smi", "--query-gpu=name,driver_version,memory.total,memory.used",
		"--format=csv,noheader").Output(); err == nil {
		m.GPUs = strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	return m
}

var computing = regexp.MustCompile(`(onnxruntime|cuda|cublas|cudnn|cufft|curand|nvrtc|nvidia)[^/]*\.so[0-9.]*$`)

// loaded lists the libraries mapped into the process; links are resolved, so that names contain versions.
func loaded() []string {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return []string{}
	}
	defer f.Close()
	found := map[string]bool{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if at := strings.IndexByte(lines.Text(), '/'); at >= 0 && computing.MatchString(lines.Text()[at:]) {
			found[lines.Text()[at:]] = true
		}
	}
	out := []string{}
	for path := range found {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
		out = append(out, filepath.Base(path))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func processor() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// meminfo returns the machine's memory in bytes; 0 if unknown.
func meminfo() int64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == "MemTotal:" {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n << 10
		}
	}
	return 0
}
