package model

import (
	"cmp"
	"context"
	"math"
	"slices"

	"gorgonia.org/tensor"

	"assay/edit"
	"assay/model/batch"
)

// ScoreSamples is [Scorer.Score] of samples, all or none.
func (s *Scorer) ScoreSamples(ctx context.Context, samples []*batch.Sample) ([]edit.Score, error) {
	readings, err := s.readAll(ctx, s.ofMembers(samples), false)
	if err != nil {
		return nil, err
	}
	each := make([]edit.Score, len(readings))
	for i, r := range readings {
		if each[i], _, err = s.fused(r); err != nil {
			return nil, err
		}
	}
	var out []edit.Score
	for members := range slices.Chunk(each, max(1, len(s.config.Members))) {
		out = append(out, s.report(s.together(members)))
	}
	return out, nil
}

// report calibrates a raw score of heads and fusion, and maps it to the scorer's range.
func (s *Scorer) report(score edit.Score) edit.Score {
	s.calibrate(&score)
	s.config.ScoreRange.Scale(&score)
	return score
}

// Reading is what was read in one pass.
type Reading struct {
	Pass    string
	IDs     []int64              // tokens of the prompt, and of the answer if it was given
	Said    []int64              // tokens that the model generated
	At      int                  // the state that was read
	State   []float32            // [hidden]
	Outputs map[string][]float32 // by head that reads there: mu and log sigma, logits, or a value

	dimensions map[string]float64
}

// Readings returns what the passes of a scorer read of a sample, for inspection.
func (s *Scorer) Readings(ctx context.Context, sample *batch.Sample) ([]Reading, error) {
	all, err := s.readAll(ctx, s.ofMembers([]*batch.Sample{sample}), true)
	if err != nil {
		return nil, err
	}
	return slices.Concat(all...), nil
}

// readAll runs all passes of all samples; passes with generated answers run after the others.
func (s *Scorer) readAll(ctx context.Context, samples []*batch.Sample, state bool) ([][]Reading, error) {
	out := make([][]Reading, len(samples))
	var given, said, joint []*batch.Sample
	var intoGiven, intoSaid, intoJoint []*Reading
	for i, sample := range samples {
		out[i] = make([]Reading, 1+len(sample.Rest))
		for k, one := range sample.Sequences() {
			switch into := &out[i][k]; {
			case one.Choices != nil:
				joint, intoJoint = append(joint, one), append(intoJoint, into)
			case s.config.Passes[one.Pass].Steps > 0:
				said, intoSaid = append(said, one), append(intoSaid, into)
			default:
				given, intoGiven = append(given, one), append(intoGiven, into)
			}
		}
	}
	if err := s.read(ctx, forwardSpec{State: state}, given, func(i int, r Reading) { *intoGiven[i] = r }); err != nil {
		return nil, err
	}
	if err := s.readJoint(ctx, joint, intoJoint); err != nil {
		return nil, err
	}
	if err := s.answer(ctx, state, said, intoSaid); err != nil {
		return nil, err
	}
	return out, s.net.Backbone.Weights.Overwritten()
}

// read runs samples of any pass once, and calls each, concurrently, with the reading of every sample.
func (s *Scorer) read(
	ctx context.Context, spec forwardSpec, samples []*batch.Sample, each func(i int, r Reading),
) error {
	if len(samples) == 0 {
		return nil
	}
	take := func(i, place int, out map[string]*tensor.Dense) error {
		r, err := s.reading(samples[i], place, out)
		if err == nil {
			each(i, r)
		}
		return err
	}
	return s.run.EachBatch(ctx, s.forwardGraph(spec), s.net.Packer, samples, take)
}

// reading extracts one sample's reading from the outputs of a batch.
func (s *Scorer) reading(sample *batch.Sample, place int, out map[string]*tensor.Dense) (Reading, error) {
	q := &s.config.Passes[sample.Pass]
	r := Reading{
		Pass:       q.Name,
		IDs:        sample.IDs,
		At:         sample.ScoreIndex,
		Outputs:    map[string][]float32{},
		dimensions: map[string]float64{},
	}
	row := func(name string, width int) []float32 {
		return slices.Clone(out[name].Data().([]float32)[place*width : (place+1)*width])
	}
	for _, name := range q.Heads {
		head := s.config.Heads[name]
		r.Outputs[name] = row(headOutput(name), head.width())
		var err error
		if r.dimensions[name], err = s.net.Finite(row(scoreOutput(name), 1)[0]); err != nil {
			return r, err
		}
	}
	if out[outHidden] != nil {
		r.State = row(outHidden, s.net.Backbone.Decoder().Hidden)
	}
	if out[outSaid] != nil {
		r.Said = []int64{out[outSaid].Data().([]int64)[place]}
	}
	return r, nil
}

// answer lets the model answer, the likeliest token each time (greedy decoding). It reads the state that predicts the
// last score token of the answer, or the last token if there is no score token. Every step reruns the whole sequence.
func (s *Scorer) answer(ctx context.Context, state bool, samples []*batch.Sample, into []*Reading) error {
	found := make([]bool, len(samples))
	texts := make([][]int64, len(samples))
	todo := newUnits(len(samples))
	token := int64(-1)
	if t := s.config.token(); t != "" && len(samples) > 0 {
		var err error
		if token, err = s.prepare.Text.Row(t); err != nil {
			return err
		}
	}
	for step := 0; len(todo) > 0; step++ {
		now := make([]*batch.Sample, len(todo))
		for k, i := range todo {
			now[k] = samples[i].Saying(texts[i])
		}
		readings := make([]Reading, len(todo))
		err := s.read(ctx, forwardSpec{State: state, Next: true}, now, func(k int, r Reading) { readings[k] = r })
		if err != nil {
			return err
		}
		var next []int
		for k, i := range todo {
			q, id := &s.config.Passes[samples[i].Pass], readings[k].Said[0]
			texts[i] = append(texts[i], id)
			if id == token || !found[i] {
				*into[i], found[i] = readings[k], found[i] || id == token
			}
			if step+1 < q.Steps && !slices.Contains(q.End, id) {
				next = append(next, i)
			}
		}
		todo = next
	}
	for i, r := range into {
		r.IDs, r.Said = samples[i].IDs, texts[i]
	}
	return nil
}

// fused is a sample's score on 0 to 1 from its readings, before any calibration, and the fusion behind it.
func (s *Scorer) fused(readings []Reading) (out edit.Score, of fusionValue, err error) {
	dimensions, sigmas := map[string]float64{}, map[string]float64{}
	for _, r := range readings {
		for name, z := range r.Outputs {
			head := s.config.Heads[name]
			d := edit.Dimension{Name: name, Value: r.dimensions[name], Sigma: head.sigma(z)}
			d.Probabilities = head.probabilities(z)
			if len(head.Names) > 0 {
				d.Value, d.Class = math.NaN(), head.Names[likeliest(z)]
			}
			dimensions[name], sigmas[name] = d.Value, d.Sigma
			if name != "" {
				out.Dimensions = append(out.Dimensions, d)
			}
		}
	}
	slices.SortFunc(out.Dimensions, func(a, b edit.Dimension) int { return cmp.Compare(a.Name, b.Name) })
	of, err = s.config.fuse(dimensions, sigmas)
	out.Value, out.Sigma = of.score, of.sigma
	return out, of, err
}
