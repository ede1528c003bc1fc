package model

import (
	"fmt"
	"strings"

	"assay/edit"
	"assay/model/nn"
	"assay/onnx"
)

// ExportedJudge says of an exported scorer of format 2 what is shown and asked, in the words of its scorer.yaml. Its
// graphs are, besides vision.onnx:
//
//	score.onnx   head.NAME and score01.NAME of all heads that read a state; of one pass also score01
//	joint.onnx   the likelihoods of the tokens of joint choices, if there are any
//	fusion.onnx  score01 of the outputs of several passes, or of joint choices
//
// A sequence is one pass of one edit. score01 is what the scorer reports, calibrated if it is; score01.NAME is what the
// head says.
type ExportedJudge struct {
	Passes     []ExportedPass          `json:"passes"`
	Heads      map[string]ExportedHead `json:"heads"`
	Fusion     string                  `json:"fusion"`
	Of         []string                `json:"of"`
	ScoreRange edit.Range              `json:"score_range"` // reported: lo + (hi - lo) score01; null: score01 itself
	Positions  string                  `json:"positions"`   // own: the family's; plain: 0, 1, 2... on all axes
	Alpha      string                  `json:"alpha"`       // drop: the colours below transparency; white: over white
	Pixels     *PixelLimits            `json:"pixels,omitempty"`
	PairSize   []int                   `json:"pair_size,omitempty"` // [height, width] of each picture
	Calibrated bool                    `json:"calibrated,omitempty"`
}

// ExportedPass is one pass: its sequence is prompt and answer up to the state that is read.
type ExportedPass struct {
	Name     string   `json:"name"`
	Pictures []string `json:"pictures"`
	Prompt   string   `json:"prompt"` // one turn of the user, behind the pictures, in the checkpoint's chat template
	Answer   string   `json:"answer,omitempty"`
	Steps    int      `json:"steps,omitempty"` // tokens that the model says, each the one of output said
	End      []int64  `json:"end,omitempty"`   // ids that end what it says
	Token    string   `json:"token,omitempty"`
	TokenID  *int64   `json:"token_id,omitempty"`
	Position string   `json:"position"` // of the state: at the token, before it, or the last
	Heads    []string `json:"heads"`
}

// ExportedHead says what a head's outputs are.
type ExportedHead struct {
	Outputs string    `json:"outputs"`
	Values  []float64 `json:"values,omitempty"`
	Choices []string  `json:"choices,omitempty"`
	Joint   bool      `json:"joint,omitempty"`
	Scale   []float64 `json:"scale,omitempty"`
}

// Names of the values of exported judges, besides those of their graphs.
const (
	outSigma     = "sigma01"
	ofLikelihood = "log_likelihoods." // + name, [examples, choices]
	ofCalibrated = "calibrated."      // + name, [examples]: the dimension
)

// aboutHead says what an input or output with a head's name is; "": it has none.
func aboutHead(name string) string {
	for prefix, about := range map[string]string{
		ofHead:       "what the head gives: a value, mu and log sigma, or logits of its classes or choices",
		ofScore:      "the dimension that the head says, on 0..1 if the scorer has a range; not clipped, not calibrated",
		ofCalibrated: "what the dimension stands for by the scorer's calibration",
		ofLikelihood: "for every choice the sum of -token_nll over its tokens",
	} {
		if strings.HasPrefix(name, prefix) {
			return about
		}
	}
	return ""
}

// fusionGraph makes score01 of what the heads of all passes gave.
func (s *Scorer) fusionGraph(g *nn.Graph) error {
	of := func(head string) string {
		h := s.config.Heads[head]
		prefix := ofHead
		if h.Joint {
			prefix = ofLikelihood
		}
		return g.Input(prefix+head, onnx.Float, onnx.Dims("examples", h.width()))
	}
	s.reported(g, of)
	return g.Err()
}

// reported declares what the scorer reports of the outputs [examples, width] of its heads: score01, its standard
// deviation where fusion and heads have one, and what dimensions stand for.
func (s *Scorer) reported(g *nn.Graph, of func(head string) string) {
	var all, logs []string
	for _, name := range s.config.Score.Of {
		h := s.config.Heads[name]
		z := of(name)
		d := h.dimension(g, z)
		if h.Joint {
			g.Output(ofScore+name, d, onnx.Float, onnx.Dims("examples"))
		}
		if m := s.calibration.Find(name); m != nil {
			g.Output(ofCalibrated+name, calibrated(g, m, d), onnx.Float, onnx.Dims("examples"))
		}
		all = append(all, double(g, d))
		if h.Outputs == OutputMuSigma {
			logs = append(logs, h.logSigma(g, double(g, z), onnx.Double))
		}
	}
	score, sigma := s.config.Score.emit(g, onnx.Double, all, logs)
	if sigma != "" {
		sigma = g.Op("Exp", sigma)
	}
	if m := s.scoreMap(); m != nil {
		raw := score
		score = calibrated(g, m, raw)
		if sigma != "" { // half of what the map makes of a deviation to both sides
			ends := g.Op("Sub", calibrated(g, m, g.Op("Add", raw, sigma)), calibrated(g, m, g.Op("Sub", raw, sigma)))
			sigma = g.Op("Mul", double(g, ends), g.Scalar(onnx.Double, 0.5))
		}
	}
	g.Output(outScore, single(g, score), onnx.Float, onnx.Dims("examples"))
	if sigma != "" {
		g.Output(outSigma, single(g, sigma), onnx.Float, onnx.Dims("examples"))
	}
}

func double(g *nn.Graph, x string) string { return g.OpA("Cast", onnx.Attrs{"to": onnx.Double}, x) }
func single(g *nn.Graph, x string) string { return g.OpA("Cast", onnx.Attrs{"to": onnx.Float}, x) }

// exported is what graphs.json says of the scorer; nil: its graph has all.
func (s *Scorer) exported() (*ExportedJudge, error) {
	c := s.config
	if c.AddsToken() {
		return nil, nil
	}
	out := &ExportedJudge{
		Heads:      map[string]ExportedHead{},
		Fusion:     c.Score.Fusion,
		Of:         c.Score.Of,
		ScoreRange: c.ScoreRange,
		Positions:  c.Positions,
		Alpha:      c.Alpha,
		Pixels:     c.Pixels,
		PairSize:   c.PairSize,
		Calibrated: s.scoreMap() != nil,
	}
	for name, h := range c.Heads {
		out.Heads[name] = ExportedHead{Outputs: h.Outputs, Values: h.Values, Choices: h.Choices, Joint: h.Joint,
			Scale: h.Scale}
	}
	for _, q := range c.Passes {
		p := ExportedPass{
			Name:     q.Name,
			Pictures: q.Pictures,
			Prompt:   string(q.Prompt),
			Answer:   string(q.Answer),
			Steps:    q.Steps,
			End:      q.End,
			Token:    q.Token,
			Position: q.Position,
			Heads:    q.Heads,
		}
		if q.Token != "" {
			id, err := s.prepare.Text.Row(q.Token)
			if err != nil {
				return nil, fmt.Errorf("pass %s: %w", q.Name, err)
			}
			p.TokenID = &id
		}
		out.Passes = append(out.Passes, p)
	}
	return out, nil
}
