package qwen25vl_test

import (
	"testing"

	"assay/internal/modeltest"
	_ "assay/model/qwen25vl"
)

func TestFamily(t *testing.T) {
	modeltest.Family{
		Folder: "qwen2_5_vl",
		Cases:  [][2]string{{"cases.json", "expect.safetensors"}, {"cases_frames.json", "expect_frames.safetensors"}},
		Trace: modeltest.Trace{
			Steps: "train_trace_frames.json",
			Cases: "cases_frames.json",
			Final: "trace_frames_final.safetensors",
		},
		Split: modeltest.InTurn,
	}.Run(t)
}

// TestOneSource: scorers that show source and edit as one picture refuse two sources.
func TestOneSource(t *testing.T) {
	for _, scorer := range []string{"scorer", "scorer_frames"} {
		t.Run(scorer, func(t *testing.T) { modeltest.OneSource(t, "../../testdata/oracle/qwen2_5_vl/"+scorer) })
	}
}
