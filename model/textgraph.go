package model

import (
	"fmt"
	"slices"
	"sort"

	"gorgonia.org/tensor"

	"assay/model/nn"
	"assay/onnx"
)

// outBest is the output [targets] int64 of the likeliest tokens.
const outBest = "best"

// textPass says what a pass over conversations holds.
type textPass struct {
	Groups   int
	Vision   bool // pixels are inputs; otherwise the image features are
	Backward bool
}

func (t *TextTuner) stepGraph(s textPass) Recipe {
	return Recipe{fmt.Sprintf("conversations %+v", s), func(g *nn.Graph) (*nn.Program, error) { return t.buildText(g, s) }}
}

// buildText assembles embedding, vision tower, decoder and the cross-entropy of the answers: only the rows that predict
// a token of an answer are multiplied with the vocabulary.
func (t *TextTuner) buildText(g *nn.Graph, s textPass) (*nn.Program, error) {
	if s.Backward && t.o.Dropout > 0 {
		g.UseDropout()
	}
	h := g.Decode(t.net.backbone, nn.BatchSpec{Groups: s.Groups, Vision: s.Vision}, nil)
	logits := g.CrossEntropy(t.net.backbone.Keys(), h)
	if !s.Backward {
		best := g.OpA("ArgMax", onnx.Attrs{"axis": 1, "keepdims": 0}, logits)
		g.Output(outBest, best, onnx.Int64, onnx.Dims("targets"))
	}
	out, err := g.Finish()
	if err != nil || !s.Backward {
		return out, err
	}
	return out, g.Differentiate(out, t.o.Recompute, t.o.Resident)
}

// pack lays conversations one after the other, shortest first, up to the token before their last one: it predicts
// nothing. The last layer delivers the rows from the one before the first answer on.
func (t *TextTuner) pack(samples []*TextSample, weights []float64) (*packed, error) {
	pk := packing{vocab: int64(t.net.backbone.Decoder().Vocab), table: true, loss: true}
	spans, plain := make([]span, len(samples)), make([]*Sample, len(samples))
	for i, s := range samples {
		first, n := s.Answers[0][0]-1, s.Answers[len(s.Answers)-1][1]-1
		spans[i] = span{
			length:    n,
			first:     first,
			selected:  n - first,
			scorePos:  first,
			index:     i,
			predicted: s.Targets(),
		}
		plain[i] = &s.Sample
	}
	if pk.level(spans); t.net.plan.small || t.o.Fixed {
		oneGroup(spans)
	}
	sort.SliceStable(spans, func(a, b int) bool {
		if spans[a].filled != spans[b].filled {
			return spans[a].filled < spans[b].filled
		}
		return spans[a].selected < spans[b].selected
	})
	p := &packed{feeds: map[string]*tensor.Dense{}}
	words, targets := 0, 0
	for _, s := range spans {
		p.order, p.rows = append(p.order, s.index), p.rows+s.filled
		words += s.filled - plain[s.index].imageTokens()
		p.pictures = append(p.pictures, plain[s.index].Pictures...)
		p.targets = append(p.targets, []stretch{{targets, s.predicted}})
		targets += s.predicted
	}
	if err := pk.fillRows(p, spans, plain, words, t.net.positions); err != nil {
		return nil, err
	}
	pk.fillGroups(p, spans)
	fillAnswers(p, spans, samples, weights)
	return p, nil
}

// oneGroup pads all to the longest one, and selects the same rows of each. A small model spends more time on another
// group, and on the graph for another number of groups, than on rows that nothing looks at. So does a GPU.
func oneGroup(spans []span) {
	length, first := 0, spans[0].first
	for _, s := range spans {
		length, first = max(length, s.length), min(first, s.first)
	}
	for i := range spans {
		s := &spans[i]
		s.filled, s.first, s.selected, s.scorePos = length, first, length-first, first
	}
}

// fillAnswers writes what is predicted: the tokens of the answers, each by the row before it.
func fillAnswers(p *packed, spans []span, samples []*TextSample, weights []float64) {
	var predict, ids []int64
	var weight []float32
	offset := 0
	for _, sp := range spans {
		s := samples[sp.index]
		for _, a := range s.Answers {
			for at := a[0]; at < a[1]; at++ {
				predict, ids = append(predict, int64(offset+at-1-sp.first)), append(ids, s.IDs[at])
				weight = append(weight, float32(weights[sp.index]))
			}
		}
		offset += sp.selected
	}
	p.feeds[nn.InPredict], p.feeds[nn.InTargets], p.feeds[nn.InTargetWeight] = vector(predict), vector(ids), vector(weight)
}

// Usage estimates the memory of training over micro-batches of that many conversations as long as s, as
// [Tuner.Usage] does.
func (t *TextTuner) Usage(s *TextSample, micro, pictures int, measuring bool) (Usage, error) {
	u := t.net.counts(t.params)
	if t.net.onCUDA() && measuring {
		u.Bytes["weights"] *= 2
	}
	pass := func(backward bool) func(*Sample, int) (int64, error) {
		return func(_ *Sample, micro int) (int64, error) { return t.peak(s, micro, backward) }
	}
	peaks := peaks{"training step": pass(true)}
	if measuring {
		peaks["validation"] = pass(false)
	}
	if len(s.Pictures) > 0 && !t.net.visionTrained() {
		peaks["vision tower"] = t.run.visionPeak
	}
	return u, t.run.addTraining(&u, t.params, &s.Sample, micro, pictures, peaks)
}

// peak is that of a pass over copies of a conversation.
func (t *TextTuner) peak(s *TextSample, micro int, backward bool) (int64, error) {
	one := *s
	one.Sample = *withFeatures(&s.Sample, t.net.backbone.Decoder().FeatureWidth())
	p, err := t.pack(slices.Repeat([]*TextSample{&one}, micro), make([]float64, micro))
	if err != nil {
		return 0, err
	}
	vision, err := t.net.shownFeeds(p)
	if err != nil {
		return 0, err
	}
	b, err := t.run.sessions.graph(t.stepGraph(textPass{p.groups, t.net.visionTrained() && len(p.pictures) > 0, backward}))
	if err != nil {
		return 0, err
	}
	in := shapes(p.feeds, vision)
	pool := 2 * int64(p.rows) * int64(b.Widest)
	in["dropout_pool"] = &onnx.Tensor{Shape: []int64{pool}}
	in["dropout_offsets"] = &onnx.Tensor{Shape: []int64{int64(b.Sites)}}
	t.run.sessions.resident.addTo(in)
	bytes, _, err := peak(b.Model, in)
	return bytes + 4*pool, err
}
