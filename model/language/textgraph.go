package language

import (
	"fmt"
	"slices"
	"sort"

	"gorgonia.org/tensor"

	"assay/model/batch"
	"assay/model/exec"
	"assay/model/nn"
	"assay/onnx"
)

// outBest is the output [targets] int64 of the likeliest tokens.
const outBest = "best"

// textPass describes a pass over conversations.
type textPass struct {
	Groups   int
	Vision   bool // the inputs are pixels; otherwise image features
	Backward bool
}

// stepGraph is the pass over packed conversations, or over none.
func (t *Tuner) stepGraph(s textPass, p *batch.Inputs) exec.Recipe {
	if t.net.Plan.Kernels == nn.Fused { // groups are data
		s.Groups = 1
	}
	r := exec.Recipe{Name: fmt.Sprintf("conversations %+v", s), Build: func(g *nn.Graph) (*nn.Program, error) {
		return t.buildText(g, s)
	}}
	return r.With(nn.Variant{Chunks: t.net.InChunks(p.AllTargets(), true)})
}

// buildText assembles embedding, vision tower, decoder and the cross-entropy of the answers: only the rows that predict
// a token of an answer are multiplied with the output layer.
func (t *Tuner) buildText(g *nn.Graph, s textPass) (*nn.Program, error) {
	if s.Backward && t.o.Dropout > 0 {
		g.UseDropout(t.o.Dropout)
	}
	h := g.Decode(t.net.Backbone, nn.BatchSpec{Groups: s.Groups, Vision: s.Vision}, nil)
	best := g.CrossEntropy(t.net.Backbone.Keys(), h, s.Backward)
	if !s.Backward {
		g.Output(outBest, best, onnx.Int64, onnx.Dims("targets"))
	}
	out, err := g.Finish()
	if err != nil || !s.Backward {
		return out, err
	}
	return out, g.Differentiate(out, t.o.Recompute, t.o.Resident)
}

// pack lays out conversations one after another, shortest first, without their last token, which predicts nothing. The
// last layer outputs the rows starting at the one before the first answer.
func (t *Tuner) pack(samples []*TextSample, weights []float64) (*batch.Inputs, error) {
	pk := batch.Packer{Vocab: int64(t.net.Backbone.Decoder().Vocab), Table: true, Loss: true}
	spans, plain := make([]batch.Span, len(samples)), make([]*batch.Sample, len(samples))
	for i, s := range samples {
		first, n := s.Answers[0][0]-1, s.Answers[len(s.Answers)-1][1]-1
		spans[i] = batch.Span{
			Length:    n,
			First:     first,
			Selected:  n - first,
			ScorePos:  first,
			Index:     i,
			Predicted: s.Targets(),
		}
		plain[i] = &s.Sample
	}
	if pk.Level(spans); (t.net.Plan.Small || t.o.Fixed) && t.net.Plan.Kernels != nn.Fused {
		oneGroup(spans)
	}
	sort.SliceStable(spans, func(a, b int) bool {
		if spans[a].Filled != spans[b].Filled {
			return spans[a].Filled < spans[b].Filled
		}
		return spans[a].Selected < spans[b].Selected
	})
	p := &batch.Inputs{Feeds: map[string]*tensor.Dense{}}
	words, targets := 0, 0
	for _, s := range spans {
		p.Order, p.Rows = append(p.Order, s.Index), p.Rows+s.Filled
		words += s.Filled - plain[s.Index].ImageTokens()
		p.Pictures = append(p.Pictures, plain[s.Index].Pictures...)
		p.Targets = append(p.Targets, []batch.Range{{First: targets, N: s.Predicted}})
		targets += s.Predicted
	}
	if err := pk.FillRows(p, spans, plain, words, t.net.Positions); err != nil {
		return nil, err
	}
	pk.FillGroups(p, spans)
	fillAnswers(p, spans, samples, weights)
	return p, nil
}

// oneGroup pads all to the longest one, and selects the same rows of each. A small model spends more time on another
// group, and on the graph for another number of groups, than on rows that are not used. So does a GPU.
func oneGroup(spans []batch.Span) {
	length, first := 0, spans[0].First
	for _, s := range spans {
		length, first = max(length, s.Length), min(first, s.First)
	}
	for i := range spans {
		s := &spans[i]
		s.Filled, s.First, s.Selected, s.ScorePos = length, first, length-first, first
	}
}

// fillAnswers writes the targets: the tokens of the answers, each predicted by the row before it.
func fillAnswers(p *batch.Inputs, spans []batch.Span, samples []*TextSample, weights []float64) {
	var predict, ids []int64
	var weight []float32
	offset := 0
	for _, sp := range spans {
		s := samples[sp.Index]
		for _, a := range s.Answers {
			for at := a[0]; at < a[1]; at++ {
				predict, ids = append(predict, int64(offset+at-1-sp.First)), append(ids, s.IDs[at])
				weight = append(weight, float32(weights[sp.Index]))
			}
		}
		offset += sp.Selected
	}
	p.Feeds[nn.InPredict], p.Feeds[nn.InTargets] = batch.Vector(predict), batch.Vector(ids)
	p.Feeds[nn.InTargetWeight] = batch.Vector(weight)
}

// Usage estimates the memory of training on micro-batches of micro conversations as long as s.
func (t *Tuner) Usage(s *TextSample, micro, pictures int, measuring bool) (exec.Usage, error) {
	u := t.net.Counts(t.List)
	pass := func(backward bool) func(*batch.Sample, int) (int64, error) {
		return func(_ *batch.Sample, micro int) (int64, error) { return t.peak(s, micro, backward) }
	}
	peaks := exec.Peaks{"training step": pass(true)}
	if measuring {
		peaks["validation"] = pass(false)
	}
	if len(s.Pictures) > 0 && !t.net.VisionTrained() {
		peaks["vision tower"] = t.run.VisionPeak
	}
	return u, t.run.AddTraining(&u, t.List, &s.Sample, micro, pictures, peaks)
}

// peak is the peak memory of a pass over copies of a conversation.
func (t *Tuner) peak(s *TextSample, micro int, backward bool) (int64, error) {
	one := *s
	one.Sample = *t.net.WithFeatures(&s.Sample)
	p, err := t.pack(slices.Repeat([]*TextSample{&one}, micro), make([]float64, micro))
	if err != nil {
		return 0, err
	}
	return t.run.StepPeak(t.stepGraph(textPass{p.Groups, t.pixels(p), backward}, p), p)
}
