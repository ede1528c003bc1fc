package model

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/calibration"
	"assay/model/batch"
	"assay/model/nn"
	"assay/onnx"
)

// ExportedJudge describes what an exported scorer shows and asks, in the terms of a scorer.yaml of format 2; a scorer
// of format 1 is a judge with one pass. Its graphs are, besides vision.onnx:
//
//	score.onnx   head.NAME and score01.NAME of all heads that read a state; with one pass also score01
//	joint.onnx   the likelihoods of the tokens of joint choices, if there are any
//	fusion.onnx  score01 from the outputs of several passes, or of joint choices
//
// A sequence is one pass of one edit. score01 is what the scorer reports, calibrated if the scorer is; score01.NAME is
// the head's uncalibrated dimension.
type ExportedJudge struct {
	Passes      []ExportedPass          `json:"passes"`
	AddsToken   bool                    `json:"adds_token"` // each sequence has its own row for the token
	Heads       map[string]ExportedHead `json:"heads"`
	Fusion      string                  `json:"fusion"`
	Of          []string                `json:"of"`
	ScoreRange  edit.Range              `json:"score_range"` // reported: lo + (hi - lo) score01; null: score01 itself
	Positions   string                  `json:"positions"`   // own: the family's; plain: 0, 1, 2... on all axes
	Alpha       string                  `json:"alpha"`       // drop: the colours below transparency; white: over white
	Pixels      *PixelLimits            `json:"pixels,omitempty"`
	PairSize    []int                   `json:"pair_size,omitempty"` // [height, width] of each picture
	Calibrated  bool                    `json:"calibrated,omitempty"`
	Calibration []calibration.Map       `json:"calibration,omitempty"` // applied in the graphs: of score, of dimensions
}

// ExportedPass is one pass: its sequence is the prompt and the answer up to the state that is read.
type ExportedPass struct {
	Name     string   `json:"name"`
	Pictures []string `json:"pictures"` // source and edit in any number; or concat, or frames, of both
	Prompt   string   `json:"prompt"`   // one turn of the user, in the checkpoint's chat template
	Answer   string   `json:"answer,omitempty"`
	Steps    int      `json:"steps,omitempty"` // number of generated tokens, each from output said
	End      []int64  `json:"end,omitempty"`   // ids that end the generation
	Token    string   `json:"token,omitempty"`
	TokenID  *int64   `json:"token_id,omitempty"`
	Position string   `json:"position"` // of the state: at the token, before it, or the last
	Heads    []string `json:"heads"`

	Text          string `json:"text,omitempty"`  // prompt and answer as tokenised: a placeholder per picture
	SpecialTokens bool   `json:"special_tokens"`  // the tokenizer adds its own around the text
	Strip         string `json:"strip,omitempty"` // left, right, both: ends of an instruction that the template strips
}

// ExportedHead describes a head's outputs.
type ExportedHead struct {
	Outputs string    `json:"outputs"`
	Values  []float64 `json:"values,omitempty"`
	Names   []string  `json:"names,omitempty"` // of classes without an order
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

// aboutHead describes an input or output that is named after a head; "" for other names.
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

// fusionGraph computes score01 from the head outputs of all passes.
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

// reported declares what the scorer reports for the outputs [examples, width] of its heads: score01, its standard
// deviation if fusion and heads have one, and calibrated dimensions.
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
	if k := s.config.Score.LowerBound; k > 0 {
		score = g.Op("Sub", score, g.Op("Mul", sigma, g.Scalar(onnx.Double, k)))
	}
	if m := s.scoreMap(); m != nil {
		raw := score
		score = calibrated(g, m, raw)
		if sigma != "" { // half the mapped distance from raw - sigma to raw + sigma
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

// exported returns the scorer's part of graphs.json.
func (s *Scorer) exported() (*ExportedJudge, error) {
	c := s.config
	out := &ExportedJudge{
		AddsToken:  c.AddsToken(),
		Heads:      map[string]ExportedHead{},
		Fusion:     c.Score.Fusion,
		Of:         c.Score.Of,
		ScoreRange: c.ScoreRange,
		Positions:  cmp.Or(c.Positions, "own"),
		Alpha:      cmp.Or(c.Alpha, "white"),
		Pixels:     c.Pixels,
		PairSize:   c.PairSize,
		Calibrated: s.scoreMap() != nil,
	}
	if s.calibration != nil {
		out.Calibration = s.calibration.Maps
	}
	for name, h := range c.Heads {
		out.Heads[name] = ExportedHead{Outputs: h.Outputs, Values: h.Values, Choices: h.Choices, Joint: h.Joint,
			Scale: h.Scale, Names: h.Names}
	}
	for i := range c.Passes {
		if err := s.exportedChoices(&c.Passes[i], out); err != nil {
			return nil, err
		}
		p, err := s.prepare.exportedPass(&c.Passes[i])
		if err != nil {
			return nil, fmt.Errorf("pass %s: %w", c.Passes[i].Name, err)
		}
		out.Passes = append(out.Passes, p)
	}
	return out, nil
}

// exportedChoices adds the end of the turn to the joint choices of a pass, if it counts.
func (s *Scorer) exportedChoices(q *PassConfig, out *ExportedJudge) error {
	h := s.config.joint(q)
	if h == nil {
		return nil
	}
	e, counts := &edit.Edit{Instruction: "a", Requirement: "a"}, s.config.onePerPicture(q, 1)
	t, err := s.prepare.passTokens(q, e, Ask{}, counts)
	end := ""
	if err == nil {
		_, end, err = s.prepare.choiceSamples(q, h, e, &batch.Sample{Tokens: t}, counts)
	}
	choices := slices.Clone(h.Choices)
	for i := range choices {
		choices[i] += end
	}
	head := out.Heads[q.Heads[0]]
	head.Choices = choices
	out.Heads[q.Heads[0]] = head
	return err
}

func (p *preparer) exportedPass(q *PassConfig) (out ExportedPass, err error) {
	out = ExportedPass{
		Name:     q.Name,
		Pictures: slices.Clone(q.Pictures),
		Prompt:   string(q.Prompt),
		Answer:   string(q.Answer),
		Steps:    q.Steps,
		End:      q.End,
		Token:    q.Token,
		Position: q.Position,
		Heads:    q.Heads,
	}
	for i, name := range out.Pictures { // the text has a placeholder for one
		if name == "sources" {
			out.Pictures[i] = "source"
		}
	}
	if q.Token != "" && !p.config.AddsToken() {
		id, err := p.Text.Row(q.Token)
		if err != nil {
			return out, err
		}
		out.TokenID = &id
	}
	prompt, err := p.markedPrompt(q, InstructionMark, RequirementMark)
	if err != nil {
		return out, err
	}
	out.SpecialTokens = !p.Text.Begins(prompt)
	var known bool
	if out.Strip, known = p.strips(q, prompt); !known {
		return out, nil
	}
	out.Text = prompt + string(q.Answer)
	if p.config.AddsToken() {
		out.Text += p.EndOfTurn()
	}
	return out, nil
}

// markedPrompt is the prompt of a pass with these texts as instruction and requirement.
func (p *preparer) markedPrompt(q *PassConfig, instruction, requirement string) (string, error) {
	pictures := len(p.config.onePerPicture(q, 1))
	return p.prompt(q, &edit.Edit{Instruction: instruction, Requirement: requirement}, pictures, "")
}

// strips finds the ends at which the chat template strips the texts that replace a prompt's marks. known is false if
// the template changes more than that, or if the answer contains a mark.
func (p *preparer) strips(q *PassConfig, marked string) (ends string, known bool) {
	const spaced = " x\n"
	if a := string(q.Answer); strings.Contains(a, InstructionMark) || strings.Contains(a, RequirementMark) {
		return "", false
	}
	got, err := p.markedPrompt(q, spaced, spaced)
	if err != nil {
		return "", false
	}
	for _, way := range []struct{ ends, text string }{
		{"", spaced}, {"left", strings.TrimLeft(spaced, " ")}, {"right", strings.TrimRight(spaced, "\n")},
		{"both", strings.TrimSpace(spaced)},
	} {
		if strings.NewReplacer(InstructionMark, way.text, RequirementMark, way.text).Replace(marked) == got {
			return way.ends, true
		}
	}
	return "", false
}
