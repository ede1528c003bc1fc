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
