package llavanext_test

import (
	"testing"

	"assay/internal/modeltest"
	"assay/model/backbone"
	_ "assay/model/llavanext"
)

func TestFamily(t *testing.T) {
	modeltest.Family{
		Folder: "llavanext",
		Cases:  [][2]string{{"cases.json", "expect.safetensors"}, {"cases_adiee.json", "expect_adiee.safetensors"}},
		Trace:  modeltest.Trace{Steps: "train_trace.json", Cases: "cases.json", Final: "trace_final.safetensors"},
		Split: func(all []float32, pictures []*backbone.Picture) [][]float32 { // padded with zero tiles to the same number
			var parts [][]float32
			per := len(all) / len(pictures)
			for i, p := range pictures {
				parts = append(parts, all[i*per:i*per+len(p.Pixels)])
			}
			return parts
		},
	}.Run(t)
}
