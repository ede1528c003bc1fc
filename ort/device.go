package ort

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	onnxruntime "github.com/yalue/onnxruntime_go"
)

// cudaProvider is the library of the CUDA provider, beside the runtime's.
const cudaProvider = "libonnxruntime_providers_cuda.so"

// device is where a session runs: a number of a CUDA device, or the CPU.
type device int

const cpu device = -1

func (d device) String() string {
	if d == cpu {
		return "cpu"
	}
	return fmt.Sprintf("cuda:%d", int(d))
}

// CheckDevice reports what is wrong with the name of a device, without opening it: for checking a configuration.
func CheckDevice(name string) error {
	_, err := devices(name)
	return err
}

// devices returns the devices to try for a name, in order.
func devices(name string) ([]device, error) {
	switch name {
	case "", "cpu":
		return []device{cpu}, nil
	case "auto":
		if library, err := load(); err == nil && hasCUDA(library) {
			return []device{0, cpu}, nil
		}
		return []device{cpu}, nil
	}
	number, ok := strings.CutPrefix(name, "cuda:")
	n, err := strconv.Atoi(number)
	if !ok || err != nil || n < 0 {
		return nil, fmt.Errorf("device %q is unknown: want cpu, auto, or cuda:N with the number of a device", name)
	}
	library, err := load()
	if err != nil {
		return nil, err
	}
	if !hasCUDA(library) {
		return nil, fmt.Errorf(
			"device %s: %s is not beside %s, which is a build for the CPU: install ONNX Runtime's GPU build "+
				"(package onnxruntime-gpu) and let %s name its %s, or use device cpu",
			name,
			cudaProvider,
			library,
			LibraryEnv,
			libraryName,
		)
	}
	return []device{device(n)}, nil
}

func hasCUDA(library string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(library), cudaProvider))
	return err == nil
}

// addTo makes the device the first choice of a session. TensorFloat-32 stays off: its 10 bits would be seen in scores.
func (d device) addTo(so *onnxruntime.SessionOptions) error {
	if d == cpu {
		return nil
	}
	co, err := onnxruntime.NewCUDAProviderOptions()
	if err != nil {
		return d.explain(err)
	}
	defer co.Destroy()
	if err := co.Update(map[string]string{"device_id": strconv.Itoa(int(d)), "use_tf32": "0"}); err != nil {
		return d.explain(err)
	}
	if err := so.AppendExecutionProviderCUDA(co); err != nil {
		return d.explain(err)
	}
	return nil
}

// explain adds what a CUDA device needs to an error of its provider.
func (d device) explain(err error) error {
	if d == cpu {
		return err
	}
	return fmt.Errorf("device %v: %w (wanted: an NVIDIA driver, that device, and the CUDA and cuDNN libraries that the "+
		"provider was built for in the library path)", d, err)
}

// Device is a CUDA device of this machine.
type Device struct {
	Name  string // as Options.Device takes it: "cuda:0"
	Model string // the maker's name of it
	Total int64  // memory, bytes
	Free  int64  // memory not in use now, bytes
}
