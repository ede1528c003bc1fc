package doctor

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"assay/data"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/model/text"
	"assay/optim"
)

// stepOf says what is special about a training step.
type stepOf struct {
	packed    bool // weights of four bits
	symmetric bool // without zero points
	group     bool // edits of one source, which share what they begin with
	blocks    int  // queries of a block of attention
	resident  bool // parameters and the sums of gradients stay on the device
}

func (o stepOf) run(d *doctor, ctx context.Context, w way) (values, error) { return d.step(ctx, w, o) }

// of makes a way's options of sessions.
func (w way) of(blocks int) model.Options {
	if w.alone {
		blocks = 0
	}
	return model.Options{Device: w.device, Profile: w.profile, OnGraph: w.onGraph, Cache: 1 << 30, Blocks: blocks}
}

// scorer makes the scorer that steps train: an adapter that is no longer at its beginning, so that all of it has
// gradients.
func scorer(backbone, dtype string) (*model.ScorerState, error) {
	c := &model.ScorerConfig{
		Format:     1,
		Backbone:   backbone,
		Pair:       model.Sequence,
		Question:   `How well was "[INSTRUCTION]" done?`,
		Answer:     "It is [SCORE].",
		TextLoss:   "answer",
		ScoreRange: [2]float64{0, 10},
		DType:      dtype,
		Head:       model.HeadConfig{Hidden: []int{64}, Activation: "relu", Kind: "regression"},
	}
	if err := c.Normalize(); err != nil {
		return nil, err
	}
	state, err := model.NewScorerState(c, adapterOver(backbone), 1)
	if err == nil {
		stir(state.Adapter)
	}
	return state, err
}

func adapterOver(backbone string) *lora.Config {
	l := lora.NewConfig(8, 16, lora.Names{List: []string{"q_proj", "v_proj"}})
	l.Base = backbone
	return l
}

// stir gives the matrices B of a fresh adapter, which are zeros, values.
func stir(a *lora.Adapter) {
	for name, t := range a.Tensors {
		if strings.Contains(name, ".lora_B.") {
			for i, v := 0, t.Float32s(); i < len(v); i++ {
				v[i] = float32(0.01 * math.Sin(float64(i+len(name))))
			}
		}
	}
}

// step gives losses, scores and gradients of a training step over four pairs.
func (d *doctor) step(ctx context.Context, w way, o stepOf) (values, error) {
	backbone := d.small
	if o.packed {
		var err error
		if backbone, err = d.packedBackbone(ctx, o.symmetric); err != nil {
			return nil, err
		}
	}
	state, err := scorer(backbone, w.dtype)
	if err != nil {
		return nil, err
	}
	t, err := model.NewTuner(state, model.TuneOptions{Options: w.of(o.blocks), TextLoss: 1, ScoreLoss: 10,
		Share: o.group && !w.alone, Resident: o.resident})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	samples, err := prepare(t.Prepare, o.group)
	if err != nil {
		return nil, err
	}
	if o.resident {
		if err := t.Begin(ctx); err != nil {
			return nil, err
		}
	}
	out, grads := values{}, newSums(t.Params())
	err = w.each(samples, func(part []*model.Sample, at int) error {
		labels := make([]float64, len(part))
		for i := range labels {
			labels[i] = float64(at+i) / pairs
		}
		r, err := t.Step(ctx, part, labels, 1.0/pairs, 0)
		if err != nil {
			return err
		}
		out.note(r.Loss, r.Score)
		if !o.resident {
			grads.add(optim.Gradients(grads.params, r.Grads))
		}
		return nil
	})
	if err == nil && o.resident {
		err = t.Sums(ctx, grads.values)
	}
	grads.into(out)
	return out, err
}

// prepare makes samples of the pairs, of one source if they are a group.
func prepare(one func(model.Pair) (*model.Sample, error), group bool) (samples []*model.Sample, err error) {
	for i := range pairs {
		source := picture(2 * i)
		if group {
			source = picture(0)
		}
		s, err := one(model.Pair{Source: source, Edit: picture(2*i + 1), Instruction: "make it brighter"})
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// each goes through samples together, or one by one.
func (w way) each(samples []*model.Sample, f func(part []*model.Sample, at int) error) error {
	micro, at := len(samples), 0
	if w.alone {
		micro = 1
	}
	for part := range slices.Chunk(samples, micro) {
		if err := f(part, at); err != nil {
			return err
		}
		at += len(part)
	}
	return nil
}

// note adds losses and scores.
func (v values) note(losses, scores []float64) {
	for _, x := range losses {
		v["loss"] = append(v["loss"], float32(x))
	}
	for _, x := range scores {
		v["score"] = append(v["score"], float32(x))
	}
}

// heads tries a scorer of format 2: a value, and mu and log sigma.
func (d *doctor) heads(ctx context.Context, w way) (values, error) {
	c := &model.ScorerConfig{Format: 2, Backbone: d.small, DType: w.dtype, Judge: model.Judge{
		Passes: []model.PassConfig{{Name: "all", Pictures: []string{"source", "edit"},
			Prompt: "How well was [INSTRUCTION] done?", Position: "last", Heads: []string{"value", "spread"}}},
		Heads: map[string]model.DimensionConfig{
			"value":  {Hidden: []int{16}, Activation: "gelu", Outputs: model.OutputValue},
			"spread": {Hidden: []int{16}, Activation: "silu", Outputs: model.OutputMuSigma, Scale: []float64{0, 10}},
		},
		Score: &model.FusionConfig{Fusion: "mean"},
	}}
	state, err := model.NewScorerState(c, adapterOver(d.small), 1)
	if err != nil {
		return nil, err
	}
	stir(state.Adapter)
	terms := []losses.Spec{{Kind: "l1", Dimension: "value"}, {Kind: "gaussian", Dimension: "spread"}}
	t, err := model.NewTuner(state, model.TuneOptions{Options: w.of(0), Terms: terms})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	samples, err := prepare(t.Prepare, false)
	if err != nil {
		return nil, err
	}
	out, grads := values{}, newSums(t.Params())
	err = w.each(samples, func(part []*model.Sample, at int) error {
		items := make([][]losses.Item, len(terms))
		for k := range terms {
			for i := range part {
				items[k] = append(items[k], losses.Item{Edits: []int{i}, Label: float64(at+i) / pairs, Weight: 1.0 / pairs})
			}
		}
		r, err := t.Compare(ctx, part, items, 1.0/pairs, 0, 1)
		if err != nil {
			return err
		}
		out.note(r.Loss, r.Score)
		grads.add(optim.Gradients(grads.params, r.Grads))
		return nil
	})
	grads.into(out)
	return out, err
}

// text tries a step over conversations.
func (d *doctor) text(ctx context.Context, w way) (values, error) {
	b, err := model.OpenBackbone(d.small)
	if err != nil {
		return nil, err
	}
	adapter, err := lora.New(adapterOver(d.small), lora.Modules(b.Weights), 1)
	if err = firstOf(err, b.Close()); err != nil {
		return nil, err
	}
	stir(adapter)
	t, err := model.NewTextTuner(d.small, model.TextOptions{Options: w.of(0), Adapter: adapter, DType: w.dtype})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	micro := pairs
	if w.alone {
		micro = 1
	}
	var samples []*model.TextSample
	for i := range pairs {
		s, err := t.Prepare(model.Conversation{Messages: []text.Message{
			{Role: "user", Content: []text.Content{{Image: true}, {Text: "How well was it done?"}}},
			{Role: "assistant", Content: []text.Content{{Text: "It is " + strings.Repeat("darker, ", i) + "brighter."}}},
		}, Pictures: []model.ShownPicture{{Load: func() (*data.Picture, error) { return picture(i), nil }}}})
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	out, grads := values{}, newSums(t.Params())
	for part := range slices.Chunk(samples, micro) {
		weights := make([]float64, len(part))
		for i, s := range part {
			weights[i] = 1 / float64(s.Targets()*pairs)
		}
		r, err := t.Step(ctx, part, weights, 0)
		if err != nil {
			return nil, err
		}
		out.note(r.Loss, nil)
		grads.add(optim.Gradients(grads.params, r.Grads))
	}
	grads.into(out)
	return out, nil
}

func firstOf(a, b error) error {
	if a != nil {
		return a
	}
	return b
}

// scoring tries scores alone.
func (d *doctor) scoring(ctx context.Context, w way) (values, error) {
	s, err := d.openScorer(w, 0)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	samples, err := prepare(s.Prepare, false)
	if err != nil {
		return nil, err
	}
	out := values{}
	err = w.each(samples, func(part []*model.Sample, _ int) error {
		scores, err := s.Score(ctx, part)
		out.note(nil, scores)
		return err
	})
	return out, err
}

func (d *doctor) openScorer(w way, blocks int) (*model.Scorer, error) {
	state, err := scorer(d.small, w.dtype)
	if err != nil {
		return nil, err
	}
	return model.NewScorer(state, w.of(blocks))
}

// pixels tries the gradients of scores with respect to the pictures; on the CPU with attention in blocks beside one
// piece.
func (d *doctor) pixels(ctx context.Context, w way) (values, error) {
	blocks := 32
	if d.cuda() {
		blocks = 0
	}
	s, err := d.openScorer(w, blocks)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	out := values{}
	for i := range 2 {
		g, err := s.Gradient(ctx, model.Pair{Source: picture(2 * i), Edit: picture(2*i + 1), Instruction: "make it brighter"})
		if err != nil {
			return nil, err
		}
		out.note(nil, []float64{g.Score01})
		out[fmt.Sprintf("pixels of source %d", i+1)] = g.Source.Values
		out[fmt.Sprintf("pixels of edit %d", i+1)] = g.Edit.Values
	}
	return out, nil
}

// tryResident compares sums of gradients that stay on the device with those that the host adds up. They are the same,
// bit for bit, on a device that computes the same twice.
func (d *doctor) tryResident(ctx context.Context) error {
	d.o.Note("trying " + partResident)
	w := way{device: d.Device, dtype: "float32", alone: true}
	r := Row{Part: partResident, Way: w.String()}
	begin := time.Now()
	want, err := d.step(ctx, w, stepOf{})
	host := time.Since(begin).Seconds()
	begin = time.Now()
	var got values
	if err == nil {
		got, err = d.step(ctx, w, stepOf{resident: true})
	}
	if err != nil {
		r.Error = err.Error()
	} else {
		found := beside(want, got)
		found.Part, found.Way, found.Seconds = r.Part, r.Way, time.Since(begin).Seconds()
		found.Same = found.within(w.dtype)
		found.Note = fmt.Sprintf("beside the same with gradients that come down from every run: %.2f s", host)
		r = found
	}
	d.add(r)
	return ctx.Err()
}
