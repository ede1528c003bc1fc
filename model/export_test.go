package model

import (
	"slices"

	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// Graphs builds the graphs that a scorer runs, by name, for a device that need not be present.
func Graphs(p *ScorerState, o Options) (map[string]*onnx.Model, error) {
	e, err := NewScorer(p, o)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	recipes := []exec.Recipe{e.net.VisionRecipe(nil), e.jointGraph(false), e.jointGraph(true)}
	for _, s := range []forwardSpec{{}, {State: true, Next: true}, {Pixels: true}} {
		recipes = append(recipes, e.forwardGraph(s))
	}
	return allVariants(e.run.Sessions, recipes, nn.Variant{Blocks: []bool{true}, Pictures: true})
}

// allVariants builds graphs as they are, and in another variant.
func allVariants(s *exec.Sessions, recipes []exec.Recipe, other nn.Variant) (map[string]*onnx.Model, error) {
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

// StepGraph is the training step of a tuner over that many groups of samples, all but one in blocks, and of several
// groups with a loss in chunks.
func (t *Tuner) StepGraph(groups int) (*onnx.Model, error) {
	blocks := slices.Repeat([]bool{true}, groups)
	blocks[0] = false
	v := nn.NewVariant(nil, blocks, nil, groups > 1)
	v.Chunks = groups > 1
	b, err := t.run.Sessions.Graph(t.stepGraph(groups).With(v))
	if err != nil {
		return nil, err
	}
	return b.Model, nil
}

// ScoreGraph is the graph by which a training validates.
func (t *Tuner) ScoreGraph() (*onnx.Model, error) {
	b, err := t.run.Sessions.Graph(t.forwardGraph(forwardSpec{}))
	if err != nil {
		return nil, err
	}
	return b.Model, nil
}
