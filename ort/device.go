package ort

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// cudaProvider is the library of the CUDA provider, next to the runtime's.
const cudaProvider = "libonnxruntime_providers_cuda.so"

// device is where a session runs: the number of a CUDA device, or the CPU.
type device int

const cpu device = -1

func (d device) String() string {
	if d == cpu {
		return "cpu"
	}
	return fmt.Sprintf("cuda:%d", int(d))
}

var deviceName = regexp.MustCompile(`^(auto|cpu|cuda:[0-9]+)$`)

// IsDevice reports whether name has the form of a device, here or on another machine: auto, cpu or cuda:N.
func IsDevice(name string) bool { return deviceName.MatchString(name) }

// CheckDevice validates the name of a device in a configuration without opening it.
func CheckDevice(name string) error {
	_, err := devices(name)
	return err
}

// devices returns the devices to try for a name, in order.
func devices(name string) ([]device, error) {
	if _, err := (CUDAOptions{}).orEnvironment(); err != nil { // even for the CPU: the next run may use a GPU
		return nil, err
	}
	switch name {
	case "", "cpu":
		return []device{cpu}, nil
	case "auto":
		if library, err := load(); err == nil && hasCUDA(library) {
			return []device{0, cpu}, nil
		}
		return []device{cpu}, nil
	}
	on, ok := cudaDevice(name)
	if !ok {
		return nil, fmt.Errorf("device %q is unknown: want cpu, auto, or cuda:N with the number of a device", name)
	}
	library, err := load()
	if err != nil {
		return nil, err
	}
	if !hasCUDA(library) {
		return nil, fmt.Errorf(
			"device %s: %s is not next to %s, which is a CPU build: install ONNX Runtime's GPU build "+
				"(package onnxruntime-gpu) and set %s to its %s, or use device cpu",
			name,
			cudaProvider,
			library,
			LibraryEnv,
			libraryName,
		)
	}
	return []device{on}, nil
}

// cudaDevice returns the device named cuda:N.
func cudaDevice(name string) (device, bool) {
	number, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.Atoi(number)
	return device(n), ok && err == nil && n >= 0
}

func hasCUDA(library string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(library), cudaProvider))
	return err == nil
}

// CUDAOptions are settings of ONNX Runtime's CUDA provider. The zero value uses the provider's defaults.
type CUDAOptions struct {
	MemoryLimit int64  // bytes of weights and arena of all sessions; 0: no limit
	CudnnSearch string // of algorithms for convolutions: "exhaustive", "heuristic", "default"; "": exhaustive
	Kernels     string // "auto", "plain", "fused": used when graphs are built; sessions run either kind
}

// Our values -> the provider's.
var (
	cudnnSearches = map[string]string{"exhaustive": "EXHAUSTIVE", "heuristic": "HEURISTIC", "default": "DEFAULT"}
	kernelChoices = map[string]string{"auto": "auto", "plain": "plain", "fused": "fused"}
)

// Check validates the options.
func (o CUDAOptions) Check() error {
	var problems []error
	for _, c := range []struct {
		key, value string
		known      map[string]string
	}{
		{"cudnn_search", o.CudnnSearch, cudnnSearches},
		{"kernels", o.Kernels, kernelChoices},
	} {
		if c.value != "" && c.known[c.value] == "" {
			problems = append(problems, fmt.Errorf("%s %q is unknown: want one of %s", c.key, c.value,
				strings.Join(slices.Sorted(maps.Keys(c.known)), ", ")))
		}
	}
	if o.MemoryLimit < 0 {
		problems = append(problems, fmt.Errorf("memory_limit is %d bytes", o.MemoryLimit))
	}
	return errors.Join(problems...)
}

// provider returns the CUDA provider's options. TensorFloat-32 stays off: its 10-bit mantissa would be visible in
// scores.
func (o CUDAOptions) provider(d device) map[string]string {
	out := map[string]string{"device_id": strconv.Itoa(int(d)), "use_tf32": "0"}
	if o.CudnnSearch != "" {
		out["cudnn_conv_algo_search"] = cudnnSearches[o.CudnnSearch]
	}
	return out
}

// addTo makes a CUDA device the first choice of a session.
func (d device) addTo(so *onnxruntime.SessionOptions, o CUDAOptions) error {
	if err := o.Check(); err != nil {
		return err
	}
	co, err := onnxruntime.NewCUDAProviderOptions()
	if err != nil {
		return d.explain(err)
	}
	defer co.Destroy()
	if err := co.Update(o.provider(d)); err != nil {
		return d.explain(err)
	}
	if err := so.AppendExecutionProviderCUDA(co); err != nil {
		return d.explain(err)
	}
	return nil
}

// explain adds the requirements of a CUDA device to an error of its provider.
func (d device) explain(err error) error {
	if d == cpu {
		return err
	}
	return fmt.Errorf("device %v: %w (needs an NVIDIA driver, that device, and the CUDA and cuDNN libraries that the "+
		"provider was built for in the library path)", d, err)
}

// Device is a CUDA device of this machine.
type Device struct {
	Name  string // as Options.Device takes it: "cuda:0"
	Model string // vendor's name
	Total int64  // memory, bytes
	Free  int64  // memory not in use now, bytes
}
