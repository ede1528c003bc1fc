package model_test

import (
	"path/filepath"
	"testing"

	"assay/model"
	"assay/onnx"
)

// TestBlocksStayPlain: in the body of blockwise attention, forward and backward, all sizes that matter are known to be
// equal. So no value as large as the scores is summed for an axis that might have been broadcast (NonZero finds them).
func TestBlocksStayPlain(t *testing.T) {
	for _, family := range []string{"llavanext", "qwen2_5_vl"} {
		dirs, err := filepath.Glob(filepath.Join("../testdata/oracle", family, "scorer*"))
		if err != nil || len(dirs) == 0 {
			t.Fatal(err, family)
		}
		state, err := model.LoadScorerState(dirs[0])
		if err != nil {
			t.Fatal(err)
		}
		u, err := model.NewTuner(state, model.TuneOptions{Full: true, TextLoss: 1, ScoreLoss: 1})
		if err != nil {
			t.Fatal(err)
		}
		defer u.Close()
		m, err := u.StepGraph(2)
		if err != nil {
			t.Fatal(err)
		}
		types, err := onnx.Infer(m)
		if err != nil {
			t.Fatal(err)
		}
		bodies := 0
		for _, n := range m.Nodes {
			body := types.LastStep(n)
			if body == nil {
				continue
			}
			bodies++
			for _, k := range body.Nodes {
				if k.Op == "NonZero" {
					t.Errorf("%s: %v holds %v", family, n, k)
				}
			}
		}
		if bodies == 0 {
			t.Errorf("%s: no attention runs in blocks", family)
		}
	}
}
