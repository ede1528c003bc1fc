package modeltest

import (
	"maps"
	"slices"
	"testing"

	"assay/internal/kernels"
	"assay/onnx"
)

// Kernels checks that ONNX Runtime has a CUDA kernel for every node of a graph.
func Kernels(t *testing.T, name string, m *onnx.Model) {
	t.Helper()
	lacking, err := kernels.Lacking(m)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	counts := map[string]int{}
	for _, l := range lacking {
		if !l.Sizes {
			counts[l.String()]++
		}
	}
	for _, what := range slices.Sorted(maps.Keys(counts)) {
		t.Errorf("%s (%d nodes): no kernel for %d nodes: %s", name, len(m.Nodes), counts[what], what)
	}
}
