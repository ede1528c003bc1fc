package model

import (
	"path/filepath"
	"strings"
	"testing"

	"assay/model/nn"
	"assay/onnx"
)

// TestGroupsLetScoresGo: the backward pass of a step over a prefix and its branches does not read the attention scores
// again, not even for their sizes, which would keep them in memory. (The scores of the last layer have few rows.)
func TestGroupsLetScoresGo(t *testing.T) {
	for _, family := range []string{"llavanext", "qwen2_5_vl"} {
		u := sharedTuner(t, family)
		defer u.Close()
		b, err := u.run.Sessions.Graph(u.stepGraph(2).With(nn.Variant{Follows: []int{-1, 0}}))
		if err != nil {
			t.Fatal(err)
		}
		of, scores := map[string][]string{}, map[string]bool{} // inputs of an Add; operands of an Add before a Softmax
		var last []string
		for _, n := range b.Model.Nodes {
			switch n.Op {
			case "Add":
				of[n.Outputs[0]] = n.Inputs
			case "Softmax":
				last = of[n.Inputs[0]]
				for _, x := range last {
					scores[x] = true
				}
			}
		}
		for _, x := range last {
			delete(scores, x)
		}
		for _, n := range b.Model.Nodes {
			for _, x := range n.Reads() {
				if scores[x] && strings.HasPrefix(n.Name, "grad/") {
					t.Errorf("%s: %s reads %s", family, b.Model.Describe(n), x)
				}
			}
		}
		if len(scores) == 0 {
			t.Errorf("%s: no scores were found", family)
		}
	}
}

// TestPiecesStayPlain: in steps that run in pieces all sizes that gradients compare are known to be equal, in the graph
// and in the bodies of its Scans. Nothing is summed for an axis that might have been broadcast (NonZero finds them).
func TestPiecesStayPlain(t *testing.T) {
	for _, family := range []string{"llavanext", "qwen2_5_vl"} {
		u := sharedTuner(t, family)
		defer u.Close()
		plain, err := u.run.Sessions.Graph(u.stepGraph(2))
		if err != nil {
			t.Fatal(err)
		}
		for _, follows := range [][]int{{-1, 0}, nil} {
			b, err := u.run.Sessions.Graph(u.stepGraph(2).With(nn.Variant{Follows: follows, Pieces: []bool{true, true}}))
			if err != nil {
				t.Fatal(err)
			}
			if most := searches(plain.Model.Nodes); searches(b.Model.Nodes) > most {
				t.Errorf("%s: groups that follow %v: searches for axes at run time: %d, and %d in one piece", family, follows,
					searches(b.Model.Nodes), most)
			}
		}
	}
}

// searches counts the nodes that search for broadcast axes, bodies included.
func searches(nodes []*onnx.Node) (n int) {
	for _, k := range nodes {
		if k.Op == "NonZero" {
			n++
		}
		for _, a := range k.Attrs {
			if body, ok := a.(*onnx.Graph); ok {
				n += searches(body.Nodes)
			}
		}
	}
	return n
}

// sharedTuner trains a scorer of a family; the common prefix of a step's samples runs once.
func sharedTuner(t *testing.T, family string) *Tuner {
	t.Helper()
	dirs, err := filepath.Glob(filepath.Join("../testdata/oracle", family, "scorer*"))
	if err != nil || len(dirs) == 0 {
		t.Fatal(err, family)
	}
	state, err := LoadScorerState(dirs[0])
	if err != nil {
		t.Fatal(err)
	}
	u, err := NewTuner(state, TuneOptions{TextLoss: 1, ScoreLoss: 1, Share: true})
	if err != nil {
		t.Fatal(err)
	}
	return u
}
