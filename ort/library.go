// Package ort runs ONNX models on ONNX Runtime, on the CPU or a CUDA device. A model is a Go value of package onnx,
// its inputs and outputs are host arrays, or views of device memory that stays between runs.
//
// A [Session] adds what the runtime's Go binding lacks: rank-0 values, half-precision arrays (float32 on the host,
// cast inside the graph), outputs of unknown rank, cancelled contexts. Sessions on the CPU share their weights. The
// shared library is found at the first Open.
package ort

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"assay/internal/library"
)

// LibraryEnv is the environment variable that names the runtime's library, or the folder that holds it.
const LibraryEnv = "ASSAY_ONNXRUNTIME"

// SpinEnv is the environment variable that, if it is 0, makes the idle worker threads of all sessions sleep at once
// instead of spinning for a moment. This helps if several processes share the cores.
const SpinEnv = "ASSAY_SPIN"

// TelemetryEnv is the environment variable that turns off ONNX Runtime's telemetry, which its Linux releases send to
// Microsoft. Here it is off unless the user sets the variable to 0.
const TelemetryEnv = "ORT_DISABLE_TELEMETRY"

const libraryName = "libonnxruntime.so"

var load = sync.OnceValues(func() (string, error) {
	path, err := findLibrary()
	if err != nil {
		return "", err
	}
	if err := quiet(); err != nil {
		return "", err
	}
	onnxruntime.SetSharedLibraryPath(path)
	defer keepSignals()()
	if err := onnxruntime.InitializeEnvironment(onnxruntime.WithLogLevelFatal()); err != nil {
		return "", fmt.Errorf("load %s: %w (it must be ONNX Runtime 1.29 or newer, for this machine)", path, err)
	}
	return path, nil
})

// quiet turns telemetry off. It must be called before the runtime's environment is created, which writes a device
// identity and a database of events; DisableTelemetryEvents can only be called afterwards. With cgo, os.Setenv also
// sets the variable for C.
func quiet() error {
	if os.Getenv(TelemetryEnv) == "0" {
		return nil
	}
	return os.Setenv(TelemetryEnv, "1")
}

// Version returns the version of the loaded ONNX Runtime.
func Version() (string, error) {
	if _, err := load(); err != nil {
		return "", err
	}
	return onnxruntime.GetVersion(), nil
}

// findLibrary searches only the path in [LibraryEnv] if it is set, else next to the binary, in the checkout, and in
// the system library folders.
func findLibrary() (string, error) {
	if named := os.Getenv(LibraryEnv); named != "" {
		if path, ok := libraryIn(named); ok {
			return path, nil
		}
		if info, err := os.Stat(named); err == nil && !info.IsDir() {
			return filepath.Abs(named)
		}
		return "", fmt.Errorf("%s=%s: %s not found there", LibraryEnv, named, libraryName)
	}
	folders := libraryFolders()
	for _, f := range folders {
		if path, ok := libraryIn(f); ok {
			return path, nil
		}
	}
	return "", errors.New("ONNX Runtime (" + libraryName + ") was not found in " + strings.Join(folders, ", ") +
		": `pip install onnxruntime`, run `make setup` in the checkout, or set " + LibraryEnv + " to the library")
}

// libraryFolders includes three wheels: Assay's own, with the fused operators, assay-reward-runtime, which is
// installed with an old Python, and onnxruntime.
func libraryFolders() []string {
	return library.Folders("assay_reward", "assay_reward_runtime", "onnxruntime/capi")
}

// libraryIn returns the library in a folder: libonnxruntime.so, or the highest libonnxruntime.so.VERSION.
func libraryIn(folder string) (string, bool) {
	found, err := filepath.Glob(filepath.Join(folder, libraryName+"*"))
	if err != nil || len(found) == 0 {
		return "", false
	}
	sort.Strings(found)
	path := found[len(found)-1]
	if found[0] == filepath.Join(folder, libraryName) {
		path = found[0]
	}
	path, err = filepath.Abs(path)
	return path, err == nil
}
