// Package ort runs ONNX models on ONNX Runtime: models as Go values in, host arrays in and out.
//
// A [Session] hides what the runtime's Go binding cannot do: rank-0 values, half-precision arrays (float32 on the host,
// cast inside the graph), outputs of unknown rank, cancelled contexts. The shared library is found at the first Open.
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

// SpinEnv is the environment variable that, if it is 0, lets the idle worker threads of all sessions sleep at once
// instead of spinning for a moment. It helps where several processes share the cores.
const SpinEnv = "ASSAY_SPIN"

// TelemetryEnv is the environment variable by which ONNX Runtime's telemetry is switched off. Its releases for Linux
// send it to Microsoft. Here it is off unless the user sets the variable to 0.
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

// quiet switches telemetry off. It must come before the runtime's environment is made: that writes an identity of the
// device and a database of events, and DisableTelemetryEvents can only be called afterwards. With cgo, os.Setenv sets
// the variable for C, too.
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

// findLibrary looks where [LibraryEnv] says and nowhere else; without it beside the binary, in the checkout, and where
// systems keep libraries.
func findLibrary() (string, error) {
	if named := os.Getenv(LibraryEnv); named != "" {
		if path, ok := libraryIn(named); ok {
			return path, nil
		}
		if info, err := os.Stat(named); err == nil && !info.IsDir() {
			return filepath.Abs(named)
		}
		return "", fmt.Errorf("%s=%s: no %s is there", LibraryEnv, named, libraryName)
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

// libraryFolders has three wheels: Assay's own, with the fused operators, assay-reward-runtime, which an old Python is
// given, and onnxruntime.
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
