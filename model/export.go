package model

import (
	_ "embed" // run.py
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"assay/checkpoints"
	"assay/internal/atomicfile"
	"assay/internal/graphfiles"
	"assay/internal/jsonfile"
	"assay/model/backbone"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
)

// Port documents one input or output of an exported graph.
type Port struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape []any  `json:"shape"` // sizes, or names of free dimensions
	About string `json:"about"`
}

// ExportedGraph documents one exported file.
type ExportedGraph struct {
	File    string `json:"file"`
	Inputs  []Port `json:"inputs"`
	Outputs []Port `json:"outputs"`
}

// Exported is graphs.json of an export.
type Exported struct {
	Format    int                      `json:"format"`
	Backbone  string                   `json:"backbone"` // the checkpoint's folder name
	Opset     int64                    `json:"opset"`
	Weights   []string                 `json:"weights"` // files that the graphs refer to by offset
	Graphs    []ExportedGraph          `json:"graphs"`
	Processor backbone.ProcessorConfig `json:"processor"`
	Judge     *ExportedJudge           `json:"judge,omitempty"` // of a scorer
}

var about = map[string]string{
	nn.InPixels: "normalised pixels in the family's layout",
	nn.InFeatures: "what replaces the pictures' placeholders, row by row; a wide row's rest is added " +
		"behind layers 0, 1...",
	nn.InTextIDs: "ids of the ordinary tokens of all sequences, without placeholders and score tokens",
	nn.InOrder: "for every row of the packed batch its row in concat(text rows, " +
		"one score row per sequence, image rows)",
	nn.InPositions:      "rotary position of every row within its sequence, on every axis",
	batch.InScoreRows:   "for every sequence the selected row that holds its score token",
	"group_rows":        "rows of each group; an export has one group of sequences of equal length",
	"group_lengths":     "length of each sequence of the group",
	"select":            "rows of the packed batch that are read, ascending",
	"select_place":      "place of each selected row within its sequence",
	"group_select_rows": "selected rows of each group",
	"group_select_each": "selected rows of each sequence of the group",
	outScore:            "the score on 0..1, not clipped",
	outHidden:           "last hidden state, after the final norm, at the selected row",
	outHead:             "outputs of the head",
	outLogits:           "next-token logits at the selected rows",
	outSigma:            "standard deviation of score01, as the heads see it",
	outSaid:             "id of the likeliest next token behind the state that is read",
	nn.InPredict:        "places among the selected rows that predict the choices' tokens",
	nn.InTargets:        "for each of them the id of the token that follows it",
	nn.OutNLL:           "for each of them -log softmax over the whole vocabulary",
}

const outLogits = "logits"

// runProgram is run.py, which scores an edit with the graphs next to it.
//
//go:embed run.py
var runProgram []byte

// RunFile is the name of the program in an export of a scorer.
const RunFile = "run.py"

// Export writes vision.onnx and score.onnx with the weights they refer to, the tokenizer's and processor's files,
// graphs.json, which documents every input and output, and run.py, which scores an edit with them without Assay.
// score.onnx outputs score01. A scorer of format 2 may have further graphs: see [ExportedJudge].
//
// dir must not exist.
func (s *Scorer) Export(dir string) (*Exported, error) {
	if err := s.config.NotAlone("exported"); err != nil {
		return nil, err
	}
	judge, err := s.exported()
	if err != nil {
		return nil, err
	}
	c := s.config
	if err := c.hasScore(); err != nil {
		return nil, err
	}
	joint := len(c.heads()) < len(c.Heads)
	whole := len(c.Passes) == 1 && !joint // one graph computes everything
	spec := forwardSpec{State: true, Next: slices.ContainsFunc(c.Passes, func(q PassConfig) bool { return q.Steps > 0 })}
	var graphs []exportedGraph
	if len(c.heads()) > 0 {
		graphs = append(graphs, exportedGraph{"score", func(g *nn.Graph) error {
			_, err := s.buildForward(g, spec)
			switch m := s.scoreMap(); {
			case err != nil || !whole:
			case !c.AddsToken():
				s.reported(g, headOutput)
			case m != nil: // the head's own output is what is reported
				calibrateOutput(g, m)
			}
			return errors.Join(err, g.Err())
		}})
	}
	if joint {
		graphs = append(graphs, exportedGraph{"joint", func(g *nn.Graph) error {
			_, err := s.buildJoint(g, false)
			return err
		}})
	}
	if !whole {
		graphs = append(graphs, exportedGraph{"fusion", s.fusionGraph})
	}
	return exportTo(dir, s.net.Backbone, s.net.NewGraph, &Exported{Judge: judge}, graphs...)
}

// ExportBackbone is Export for a checkpoint without a scorer.
func ExportBackbone(b *backbone.Backbone, dir string) (*Exported, error) {
	graph := func(name string) *nn.Graph { return nn.NewGraph(name, b.Weights) }
	score := func(g *nn.Graph) error {
		dec, keys := b.Decoder(), b.Keys()
		h := g.Decode(b, nn.BatchSpec{Groups: 1}, nil)
		g.Output(outHidden, h, onnx.Float, onnx.Dims("selected", dec.Hidden))
		g.Output(outLogits, g.OpA("Gemm", onnx.Attrs{"transB": 1}, h, g.Param(keys.Output)), onnx.Float,
			onnx.Dims("selected", dec.Vocab))
		return g.Err()
	}
	return exportTo(dir, b, graph, &Exported{}, exportedGraph{"score", score})
}

// exportedGraph is a graph to write, besides the vision tower's.
type exportedGraph struct {
	name  string
	build func(g *nn.Graph) error
}

// exportTo writes the vision tower and other graphs, and completes graphs.json.
func exportTo(dir string, b *backbone.Backbone, graph func(string) *nn.Graph, out *Exported, others ...exportedGraph) (
	*Exported, error,
) {
	vision := graph("vision")
	vision.Output(nn.InFeatures, b.Vision(vision), onnx.Float, onnx.Dims("image_tokens", b.Decoder().FeatureWidth()))
	if err := vision.Err(); err != nil {
		return nil, err
	}
	graphs := []*onnx.Model{vision.M}
	for _, o := range others {
		g := graph(o.name)
		if err := o.build(g); err != nil {
			return nil, fmt.Errorf("%s.onnx: %w", o.name, err)
		}
		graphs = append(graphs, g.M)
	}
	out.Format, out.Backbone, out.Opset, out.Processor = 1, filepath.Base(b.Dir), nn.Opset, b.Processor()
	err := atomicfile.WriteDir(dir, func(tmp string) (err error) {
		if out.Weights, err = graphfiles.Write(tmp, b.Weights, graphs); err != nil {
			return err
		}
		for _, m := range graphs {
			out.Graphs = append(out.Graphs, describe(m, b.Inputs()))
		}
		if err := checkpoints.CopyCompanions(b.Dir, tmp); err != nil {
			return err
		}
		if out.Judge != nil {
			if err := atomicfile.WriteBytes(filepath.Join(tmp, RunFile), runProgram); err != nil {
				return err
			}
		}
		return jsonfile.Write(filepath.Join(tmp, "graphs.json"), out)
	})
	return out, err
}

func describe(m *onnx.Model, vision map[string]string) ExportedGraph {
	ports := func(vs []onnx.ValueInfo) []Port {
		var out []Port
		for _, v := range vs {
			p := Port{Name: v.Name, Type: v.Type.String(), About: about[v.Name] + aboutHead(v.Name) + vision[v.Name]}
			for _, d := range v.Shape {
				if d.Known() {
					p.Shape = append(p.Shape, d.Size)
				} else {
					p.Shape = append(p.Shape, d.Name)
				}
			}
			out = append(out, p)
		}
		return out
	}
	return ExportedGraph{File: m.Name + ".onnx", Inputs: ports(m.Inputs), Outputs: ports(m.Outputs)}
}
