package language

import (
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// variants builds graphs unchanged and in another variant.
func variants(s *exec.Sessions, recipes []exec.Recipe, other nn.Variant) (map[string]*onnx.Model, error) {
	out := map[string]*onnx.Model{}
	for _, r := range recipes {
		for _, v := range []nn.Variant{{}, other} {
			r := r.With(v)
			b, err := s.Graph(r)
			if err != nil {
				return nil, err
			}
			out[r.Name] = b.Model
		}
	}
	return out, nil
}

// SpeakingGraphs returns the graphs of a backbone that continues texts.
func SpeakingGraphs(dir string, o exec.Options, kernels nn.Kernels) (map[string]*onnx.Model, error) {
	l, err := Open(dir, "", o)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.net.Plan.Kernels = kernels
	recipes := []exec.Recipe{{Name: "generate", Build: l.stepGraph}, l.net.VisionRecipe(nil)}
	return variants(l.run.Sessions, recipes, nn.Variant{Pictures: true})
}

// ComputeHalf makes a language model for CUDA compute in float16, for which the CPU also has kernels.
func (l *Model) ComputeHalf() { l.net.DType = "float16" }

// CacheRoomOf is CacheRoom of a device with that much free memory.
func (l *Model) CacheRoomOf(free int64) (int64, error) { return l.cacheRoom(free) }

// OpenUnspread opens the graph of runs without spreading rows: see nn.Graph.Spread.
func (l *Model) OpenUnspread() error {
	_, err := l.run.Sessions.Session(exec.Recipe{Name: "generate", Build: l.buildStep})
	return err
}
