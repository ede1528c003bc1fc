package qwen3vl_test

import (
	"testing"

	"assay/internal/modeltest"
	_ "assay/model/qwen3vl"
)

func TestFamily(t *testing.T) {
	modeltest.Family{
		Folder: "qwen3_vl",
		Cases:  [][2]string{{"cases.json", "expect.safetensors"}},
		Trace: modeltest.Trace{
			Steps: "train_trace.json",
			Cases: "cases.json",
			Final: "trace_final.safetensors",
		},
		Split: modeltest.InTurn,
	}.Run(t)
}
