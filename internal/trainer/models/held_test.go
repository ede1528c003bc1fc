package models

import (
	"testing"

	"gorgonia.org/tensor"

	"assay/internal/optim"
	"assay/internal/trainer/config"
	"assay/internal/trainer/optimizer"
	"assay/model/nn"
)

// TestHeld: the memory that a plan counts for the optimizer is what it allocates, and several ranks share it.
func TestHeld(t *testing.T) {
	shapes := [][]int{{300, 70}, {4095}, {4096}, {5}, {3, 20, 400}}
	for _, name := range []string{"adamw", "lion", "adafactor", "adamw_8bit"} {
		c := config.Default()
		c.Optimizer.Name = name
		var params []optim.Param
		var planned []nn.Param
		for _, s := range shapes {
			v := tensor.New(tensor.WithShape(s...), tensor.Of(tensor.Float32))
			params = append(params, optim.Param{Name: "head", Value: v})
			p := nn.Param{}
			for _, d := range s {
				p.Shape = append(p.Shape, int64(d))
			}
			planned = append(planned, p)
		}
		for i, s := range optimizer.OptimizerOf(c, params, 0).State() {
			kept, _ := keeps(c, planned[s.Param].Shape)
			planned[s.Param].Name = name
			n := int64(4*len(s.Values) + len(s.Bytes))
			params[s.Param].First += int(n) // bytes so far
			if int64(params[s.Param].First) > kept {
				t.Errorf("%s, state %d: %d bytes, planned %d", name, i, params[s.Param].First, kept)
			}
		}
		for i, p := range params {
			if kept, _ := keeps(c, planned[i].Shape); kept != int64(p.First) {
				t.Errorf("%s, %v: planned %d bytes, not %d", name, shapes[i], kept, p.First)
			}
		}
		one := held(c, planned)
		c.Ranks = 4
		four, less := held(c, planned)-2*4*optimizer.Exchanged, name != "adafactor"
		if less != (four == one/4) || !less && four != one {
			t.Errorf("%s: %d bytes, of four ranks %d", name, one, four)
		}
	}
}
