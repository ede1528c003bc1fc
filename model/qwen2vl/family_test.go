package qwen2vl_test

import (
	"testing"

	"assay/internal/modeltest"
	_ "assay/model/qwen2vl"
)

func TestFamily(t *testing.T) {
	modeltest.Family{
		Folder: "qwen2_vl",
		Cases:  [][2]string{{"cases.json", "expect.safetensors"}},
		Split:  modeltest.InTurn,
	}.Run(t)
}
