package ort

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	onnxruntime "github.com/yalue/onnxruntime_go"

	"assay/onnx"
)

// FusedEnv is the environment variable that names the library of fused operators.
const FusedEnv = "ASSAY_OPS"

const fusedName = "libassay_ops.so"

// FusedLibrary finds the library of fused operators (onnx.FusedDomain): where [FusedEnv] says and nowhere else; without
// it in the folders where ONNX Runtime is looked for.
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
