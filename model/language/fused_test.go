package language_test

import (
	"strings"
	"testing"

	"assay/model"
	"assay/model/language"
)

// TestFusedRefused: generation attends over a cache, which fused kernels do not.
func TestFusedRefused(t *testing.T) {
	_, err := language.Open("../../testdata/oracle/qwen2_vl/backbone", "", model.Options{Kernels: "fused"})
	if want := "kernels: fused: the fused operators do not attend over a cache"; err == nil ||
		!strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want one with %q", err, want)
	}
}
