package modeltest

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"gorgonia.org/tensor"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/model"
	"assay/model/batch"
)

// shared compares groups of edits, whose common prefix runs once, with the same edits one by one: scores bit for bit,
// and losses and gradients of a step.
func (f Family) shared(t *testing.T) {
	t.Run("scores", func(t *testing.T) { f.sharedScores(t, openScorer) })
	t.Run("instruction first", f.instructionFirst)
	t.Run("scores, in blocks", func(t *testing.T) { long.Test(t); f.sharedScores(t, openInBlocks) })
	t.Run("scores, fused", func(t *testing.T) { f.sharedScores(t, openFused) })
	for i, c := range []struct {
		text string
		o    model.TuneOptions
	}{
		{"answer", model.TuneOptions{}},
		{"answer", model.TuneOptions{Recompute: true}},
		{"all", model.TuneOptions{Fixed: true}},
		{"answer", model.TuneOptions{Fixed: true}},
		{"answer", model.TuneOptions{Recompute: true, Options: model.Options{Blocks: blockRows}}},
		{"answer", model.TuneOptions{Options: model.Options{Pieces: 1}}},
		{"all", model.TuneOptions{Recompute: true, Options: model.Options{Pieces: 1}}},
		{"answer", model.TuneOptions{Options: fused}},
		{"all", model.TuneOptions{Recompute: true, Options: fused}},
		{"answer", model.TuneOptions{Fixed: true, Options: fused}},
	} {
		name := fmt.Sprintf(
			"gradients,text=%s,recompute=%v,fixed=%v,blocks=%d,pieces=%d,%s", c.text, c.o.Recompute, c.o.Fixed,
			c.o.Blocks, c.o.Pieces, c.o.Kernels,
		)
		t.Run(name, func(t *testing.T) { longIf(i > 0 && c.o.Kernels == "", t); f.sharedGradients(t, c.text, c.o) })
	}
}

// group returns edits with the case's sources and instruction: the case's own, others of its size, and others of
// another size.
func (r *reference) group(t *testing.T) (edits []*edit.Edit) {
	e := r.edit(t)
	p := e.Output.(*data.Picture)
	half := p.Resize(max(1, p.Width/2), p.Height, data.Bicubic)
	for _, output := range []*data.Picture{
		p, p.FlipHorizontal(), p.FlipVertical(), p.FlipVertical().FlipHorizontal(), half, half.FlipVertical(),
	} {
		edits = append(edits, &edit.Edit{Sources: e.Sources, Output: output, Instruction: r.Instruction})
	}
	return edits
}

func prepareAll(t *testing.T, p preparer, edits []*edit.Edit) (samples []*batch.Sample) {
	t.Helper()
	for _, e := range edits {
		s, err := p.Sample(e, model.Ask{})
		if err != nil {
			t.Fatal(err)
		}
		samples = append(samples, s)
	}
	return samples
}

// scoreTogether scores edits as one group, and requires that each has the score that it has alone.
func scoreTogether(t *testing.T, s *model.Scorer, samples []*batch.Sample) []float64 {
	t.Helper()
	together, err := s.Score01(context.Background(), samples)
	if err != nil {
		t.Fatal(err)
	}
	for i, one := range samples {
		alone, err := s.Score01(context.Background(), []*batch.Sample{one})
		if err != nil {
			t.Fatal(err)
		}
		if alone[0] != together[i] {
			t.Errorf("edit %d: %v alone, %v in a group", i, alone[0], together[i])
		}
	}
	return together
}

func (f Family) sharedScores(t *testing.T, open opener) {
	each(t, f, open, func(t *testing.T, r *reference, s *model.Scorer) {
		edits := r.group(t)
		source, output := decoded(edits[1])
		other := source.FlipVertical()
		edits = append(edits, edit.New(other, output, r.Instruction), edit.New(other, output.FlipVertical(), r.Instruction),
			edit.New(source, edits[0].Output, "Remove all."))
		samples := prepareAll(t, s, edits)
		checkScore(t, s, scoreTogether(t, s, samples)[0], r)
		rows, apart := s.Rows(samples)
		pictures := s.Config().Passes[0].Pictures
		if sequence := len(pictures) == 2; sequence != (rows < apart) {
			t.Errorf("pictures %v: %d rows together, %d one by one", pictures, rows, apart)
		}
	})
}

// tuners train the same scorer: as a group, whose common prefix runs once, and one edit at a time, for comparison.
// All groups are compared with one graph without recomputation, blocks or pieces.
type tuners struct {
	alone, group *model.Tuner
	planned      *model.Tuner // like group, but without TuneOptions.Share; it only plans steps and opens no session
	pair         string
}

// plan compares the planned memory of a step over several edits like a sample with that of a step over one edit.
func (both *tuners) plan(t *testing.T, s *batch.Sample, edits int) {
	t.Helper()
	const what = "training step"
	var bytes [2]int64
	for i, n := range []int{edits, 1} {
		usage, err := []*model.Tuner{both.group, both.planned}[i].Usage(s, n, n+1, true)
		if err != nil {
			t.Fatal(err)
		}
		bytes[i] = usage.Bytes[what]
	}
	if bytes[0] <= bytes[1] {
		t.Errorf("pair: %s: a step is planned with %d bytes for a group, %d for one edit", both.pair, bytes[0], bytes[1])
	}
}

func (f Family) sharedGradients(t *testing.T, text string, o model.TuneOptions) {
	open := func(t *testing.T, dir string) (out tuners) {
		t.Helper()
		shared := o
		shared.Share = true
		for to, o := range map[**model.Tuner]model.TuneOptions{
			&out.alone:   {Fixed: o.Fixed},
			&out.group:   shared,
			&out.planned: o,
		} {
			p, err := model.LoadScorerState(dir)
			if err != nil {
				t.Fatal(err)
			}
			p.Config.TextLoss = text
			o.TextLoss, o.ScoreLoss = textLoss, scoreLoss
			if *to, err = model.NewTuner(p, o); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { (*to).Close() })
			out.pair = p.Config.OnePass().Pair
		}
		return out
	}
	seen := map[string]bool{}
	each(t, f, open, func(t *testing.T, r *reference, both tuners) {
		nothing := both.pair != model.Sequence && (text != "answer" || o.Recompute) && !o.Fixed
		if nothing || seen[r.scorer()] { // one case per scorer
			return
		}
		seen[r.scorer()] = true
		edits := r.group(t)
		labels := []float64{0.1, 0.9, 0.4, 0.2, 0.7, 0.3}
		shares := both.pair == model.Sequence
		if o.Fixed {
			edits, labels = append(edits, others(edits[:2], text == "answer")...), append(labels, 0, 1)
		}
		want := both.oneByOne(t, prepareAll(t, both.alone, edits), labels)
		both.plan(t, prepareAll(t, both.group, edits[:1])[0], len(edits))
		in := model.StepInput{Labels: labels, Weight: 0.5}
		got, err := both.group.Step(context.Background(), prepareAll(t, both.group, edits), in)
		if err != nil {
			t.Fatal(err)
		}
		if shares != (got.Tokens < want.Tokens) && !(o.Fixed && text == "answer") {
			t.Errorf("%d rows together, %d one by one", got.Tokens, want.Tokens)
		}
		for i := range edits {
			if !(near(got.Loss[i], want.Loss[i]) <= 1e-5) || !(near(got.Score[i], want.Score[i]) <= 1e-5) {
				t.Errorf("edit %d: loss %g and score %g, one by one %g and %g", i, got.Loss[i], got.Score[i], want.Loss[i],
					want.Score[i])
			}
		}
		for n, g := range got.Grads {
			a, b := g.Data().([]float32), want.Grads[n].Data().([]float32)
			if d := distance(a, b); !(d <= 1e-5) {
				t.Errorf("%s: gradient differs by %g of its norm", n, d)
			}
		}
	})
}

// others returns edits with another source, which is a second prefix in a group. If narrow, that prefix has another
// length in most families, and then nothing is shared.
func others(edits []*edit.Edit, narrow bool) (out []*edit.Edit) {
	for _, e := range edits {
		source, output := decoded(e)
		one := edit.New(source.FlipVertical(), output, e.Instruction)
		if narrow {
			one = edit.New(source.FlipVertical().Resize(max(1, source.Width/2), source.Height, data.Bicubic), output,
				"Remove all.")
		}
		out = append(out, one)
	}
	return out
}

// oneByOne runs a step per sample, and returns the losses and scores of all and the sums of their gradients.
func (both *tuners) oneByOne(t *testing.T, samples []*batch.Sample, labels []float64) *model.StepResult {
	t.Helper()
	sum := &model.StepResult{Grads: map[string]*tensor.Dense{}}
	for i, s := range samples {
		in := model.StepInput{Labels: labels[i : i+1], Weight: 0.5}
		one, err := both.alone.Step(context.Background(), []*batch.Sample{s}, in)
		if err != nil {
			t.Fatal(err)
		}
		sum.Loss, sum.Score = append(sum.Loss, one.Loss[0]), append(sum.Score, one.Score[0])
		sum.Tokens += one.Tokens
		for n, g := range one.Grads {
			if sum.Grads[n] == nil {
				sum.Grads[n] = g.Clone().(*tensor.Dense)
				continue
			}
			for k, v := range g.Data().([]float32) {
				sum.Grads[n].Data().([]float32)[k] += v
			}
		}
	}
	return sum
}

func near(a, b float64) float64 { return math.Abs(a-b) / max(1, math.Abs(b)) }

// distance is |a - b| / |b|.
func distance(a, b []float32) float64 {
	var d, n float64
	for i := range a {
		x, y := float64(a[i]), float64(b[i])
		d, n = d+(x-y)*(x-y), n+y*y
	}
	if n == 0 {
		return math.Sqrt(d)
	}
	return math.Sqrt(d / n)
}

// instructionFirst scores edits with the pictures after the instruction: the scores are the same alone and in a
// group, whose prefix is then longer. Templates that always move pictures to the front are refused.
func (f Family) instructionFirst(t *testing.T) {
	long.Test(t)
	f.eachFile(t, func(t *testing.T, rs []*reference) {
		seen := map[string]bool{}
		for _, r := range rs {
			p, err := model.LoadScorerState(r.scorer())
			if err != nil {
				t.Fatal(err)
			}
			if seen[r.scorer()] || p.Config.OnePass().Pair != model.Sequence {
				continue
			}
			seen[r.scorer()] = true
			usual := openScorer(t, r.scorer())
			p.Config.Layout = model.InstructionFirst
			s, err := model.NewScorer(p, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { s.Close() })
			edits := r.group(t)[:4]
			if _, err := s.Sample(edits[0], model.Ask{}); err != nil {
				if !strings.Contains(err.Error(), "wherever they are") {
					t.Error(err)
				}
				continue
			}
			samples := prepareAll(t, s, edits)
			rows, apart := s.Rows(samples)
			if usually, same := usual.Rows(prepareAll(t, usual, edits)); rows >= usually || apart != same {
				t.Errorf("%d of %d rows, with the instruction after the pictures %d of %d", rows, apart, usually, same)
			}
			scoreTogether(t, s, samples)
		}
	})
}
