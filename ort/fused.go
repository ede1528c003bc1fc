package ort

/*
#include <dlfcn.h>
#include <stdlib.h>

// fused_kernels returns the number of kernels for a GPU in the library of fused operators; -1 if it cannot be opened.
static int fused_kernels(const char *path, int major, int minor) {
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library) return -1;
	int (*kernels)(int, int) = (int (*)(int, int))dlsym(library, "assay_ops_kernels");
	return kernels ? kernels(major, minor) : 0;
}
*/
import "C"

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"assay/onnx"
)

// FusedEnv is the environment variable that names the library of fused operators.
const FusedEnv = "ASSAY_OPS"

const fusedName = "libassay_ops.so"

// FusedLibrary returns the path of the library of fused operators (onnx.FusedDomain): the one that [FusedEnv] names,
// if it is set, else the first in the folders searched for ONNX Runtime.
func FusedLibrary() (string, error) {
	if named := os.Getenv(FusedEnv); named != "" {
		if _, err := os.Stat(named); err != nil {
			return "", fmt.Errorf("%s: %w", FusedEnv, err)
		}
		return filepath.Abs(named)
	}
	folders := libraryFolders()
	for _, f := range folders {
		path, err := filepath.Abs(filepath.Join(f, fusedName))
		if err != nil {
			return "", err
		}
		if _, err := os.Stat(path); err == nil {
			return path, nil
		}
	}
	return "", errors.New(fusedName + " was not found in " + strings.Join(folders, ", ") +
		": run `make ops` in the checkout, or set " + FusedEnv + " to the library")
}

// FusedKernels returns the number of kernels that the library of fused operators has for the compute capability of
// the device "cuda:N"; 0 if it was compiled without.
func FusedKernels(name string) (int, error) {
	path, err := FusedLibrary()
	if err != nil {
		return 0, err
	}
	on, ok := cudaDevice(name)
	if !ok {
		return 0, fmt.Errorf("%q is not cuda:N", name)
	}
	major, minor, err := cudaCapability(on)
	if err != nil {
		return 0, fmt.Errorf("compute capability of %s: %w", name, err)
	}
	at := C.CString(path)
	defer C.free(unsafe.Pointer(at))
	count := int(C.fused_kernels(at, C.int(major), C.int(minor)))
	if count < 0 {
		return 0, fmt.Errorf("cannot open %s", path)
	}
	return count, nil
}

// usesFused reports whether a graph, or one of its subgraphs, has fused operators.
func usesFused(g *onnx.Graph) bool {
	for _, n := range g.Nodes {
		if n.Domain == onnx.FusedDomain {
			return true
		}
		for _, a := range n.Attrs {
			if sub, ok := a.(*onnx.Graph); ok && usesFused(sub) {
				return true
			}
		}
	}
	return false
}

func addFused(so *onnxruntime.SessionOptions) error {
	path, err := FusedLibrary()
	if err != nil {
		return fmt.Errorf("the graph has fused operators: %w", err)
	}
	if err := so.RegisterCustomOpsLibrary(path); err != nil {
		return fmt.Errorf("load %s: %w", path, err)
	}
	return nil
}
