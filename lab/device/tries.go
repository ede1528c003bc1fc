package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"assay/edit"
	"assay/internal/doctor/trial"
	"assay/internal/optim"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/model/backbone"
	"assay/model/language"
	"assay/model/text"
)

// stepOf describes the special features of a training step.
type stepOf struct {
	packed    bool // 4-bit weights
	symmetric bool // without zero points
	group     bool // edits of one source, which share a prefix
	blocks    int  // queries per attention block
	resident  bool // parameters and the sums of gradients stay on the device
}

func (o stepOf) run(d *visit, ctx context.Context, w trial.Way) (values, error) {
	return d.step(ctx, w, o)
}

// step returns losses, scores and gradients of a training step over four trial.Pairs.
func (d *visit) step(ctx context.Context, w trial.Way, o stepOf) (values, error) {
	backbone := d.backbone
	if o.packed {
		var err error
		if backbone, err = d.packedBackbone(ctx, o.symmetric); err != nil {
			return nil, err
		}
	}
	state, err := trial.Scorer(backbone, w.DType)
	if err != nil {
		return nil, err
	}
	t, err := model.NewTuner(state, model.TuneOptions{Options: w.Options(o.blocks), TextLoss: 1, ScoreLoss: 10,
		Share: o.group && !w.Alone, Resident: o.resident})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	samples, err := trial.Samples(t.Sample, o.group)
	if err != nil {
		return nil, err
	}
	if o.resident {
		if err := t.Begin(ctx); err != nil {
			return nil, err
		}
	}
	out, grads := values{}, trial.NewSums(t.Params())
	err = w.Batches(samples, func(part []*model.Sample, at int) error {
		r, err := t.Step(ctx, part, model.StepInput{Labels: trial.Labels(at, len(part)), Weight: 1.0 / trial.Pairs})
		if err != nil {
			return err
		}
		out.note(r.Loss, r.Score)
		if !o.resident {
			grads.Add(optim.Gradients(grads.Params, r.Grads))
		}
		return nil
	})
	if err == nil && o.resident {
		err = t.Sums(ctx, grads.Values)
	}
	out.gradients(grads)
	return out, err
}

// gradients adds the gradients of the parameters by name.
func (v values) gradients(s *trial.Sums) {
	for i, p := range s.Params {
		v[p.Name] = s.Values[i]
	}
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

// heads runs a scorer of format 2: a value, and mu and log sigma.
func (d *visit) heads(ctx context.Context, w trial.Way) (values, error) {
	c := &model.ScorerConfig{
		Format: 2, Backbone: d.backbone, DType: w.DType,
		Passes: []model.PassConfig{{Name: "all", Pictures: []string{"source", "edit"},
			Prompt: "How well was [INSTRUCTION] done?", Position: "last", Heads: []string{"value", "spread"}}},
		Heads: map[string]model.DimensionConfig{
			"value":  {Hidden: []int{16}, Activation: "gelu", Outputs: model.OutputValue},
			"spread": {Hidden: []int{16}, Activation: "silu", Outputs: model.OutputMuSigma, Scale: []float64{0, 10}},
		},
		Score: &model.FusionConfig{Fusion: "mean"},
	}
	state, err := model.NewScorerState(c, trial.Adapter(d.backbone), 1)
	if err != nil {
		return nil, err
	}
	trial.FillB(state.Adapter)
	terms := []losses.Spec{{Kind: "l1", Dimension: "value"}, {Kind: "gaussian", Dimension: "spread"}}
	t, err := model.NewTuner(state, model.TuneOptions{Options: w.Options(0), Terms: terms})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	samples, err := trial.Samples(t.Sample, false)
	if err != nil {
		return nil, err
	}
	out, grads := values{}, trial.NewSums(t.Params())
	err = w.Batches(samples, func(part []*model.Sample, at int) error {
		items := make([][]losses.Item, len(terms))
		for k := range terms {
			for i := range part {
				items[k] = append(items[k], losses.Item{Edits: []int{i}, Label: float64(at+i) / trial.Pairs,
					Weight: 1.0 / trial.Pairs})
			}
		}
		r, err := t.Step(ctx, part, model.StepInput{Items: items, Weight: 1.0 / trial.Pairs, Draws: 1})
		if err != nil {
			return err
		}
		out.note(r.Loss, r.Score)
		grads.Add(optim.Gradients(grads.Params, r.Grads))
		return nil
	})
	out.gradients(grads)
	return out, err
}

// text runs a step over conversations.
func (d *visit) text(ctx context.Context, w trial.Way) (values, error) {
	b, err := backbone.OpenBackbone(d.backbone)
	if err != nil {
		return nil, err
	}
	adapter, err := lora.New(trial.Adapter(d.backbone), lora.Modules(b.Weights), 1)
	if err = errors.Join(err, b.Close()); err != nil {
		return nil, err
	}
	trial.FillB(adapter)
	t, err := language.NewTuner(d.backbone, language.TuneOptions{Options: w.Options(0), Adapter: adapter, DType: w.DType})
	if err != nil {
		return nil, err
	}
	defer t.Close()
	micro := trial.Pairs
	if w.Alone {
		micro = 1
	}
	var samples []*language.TextSample
	for i := range trial.Pairs {
		s, err := t.Prepare(language.Conversation{Messages: []text.Message{
			{Role: "user", Content: []text.Content{{Image: true}, {Text: "How well was it done?"}}},
			{Role: "assistant", Content: []text.Content{{Text: "It is " + strings.Repeat("darker, ", i) + "brighter."}}},
		}, Pictures: []edit.Picture{trial.Picture(i)}})
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	out, grads := values{}, trial.NewSums(t.Params())
	for part := range slices.Chunk(samples, micro) {
		weights := make([]float64, len(part))
		for i, s := range part {
			weights[i] = 1 / float64(s.Targets()*trial.Pairs)
		}
		r, err := t.Step(ctx, part, weights, 0)
		if err != nil {
			return nil, err
		}
		out.note(r.Loss, nil)
		grads.Add(optim.Gradients(grads.Params, r.Grads))
	}
	out.gradients(grads)
	return out, nil
}

// scoring only computes scores.
func (d *visit) scoring(ctx context.Context, w trial.Way) (values, error) {
	s, err := d.openScorer(w, 0)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	samples, err := trial.Samples(s.Sample, false)
	if err != nil {
		return nil, err
	}
	out := values{}
	err = w.Batches(samples, func(part []*model.Sample, _ int) error {
		scores, err := s.Score01(ctx, part)
		out.note(nil, scores)
		return err
	})
	return out, err
}

func (d *visit) openScorer(w trial.Way, blocks int) (*model.Scorer, error) {
	state, err := trial.Scorer(d.backbone, w.DType)
	if err != nil {
		return nil, err
	}
	return model.NewScorer(state, w.Options(blocks))
}

// pixels computes the gradients of scores with respect to the pictures; on the CPU it compares attention in blocks
// and in one piece.
func (d *visit) pixels(ctx context.Context, w trial.Way) (values, error) {
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
		all, err := s.Gradients(ctx, []*edit.Edit{edit.New(trial.Picture(2*i), trial.Picture(2*i+1), "make it brighter")})
		if err != nil {
			return nil, err
		}
		g := all[0]
		out.note(nil, []float64{g.Score01})
		out[fmt.Sprintf("pixels of source %d", i+1)] = g.Source().Values
		out[fmt.Sprintf("pixels of edit %d", i+1)] = g.Output.Values
	}
	return out, nil
}

// tryResident compares gradient sums that stay on the device with sums on the host. They are equal bit for bit on a
// deterministic device.
func (d *visit) tryResident(ctx context.Context) {
	d.note("trying " + partResident)
	w := trial.Way{Device: d.device, DType: "float32", Alone: true}
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
		found.Same = found.within(w.DType)
		found.Note = fmt.Sprintf("with gradients copied to the host after every run: %.2f s", host)
		r = found
	}
	d.add(r)
}
