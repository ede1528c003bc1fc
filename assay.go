// Package assay trains and runs reward models for instruction-guided image editing. Given a picture, an instruction
// and an edited picture, a judge rates how well the edit follows the instruction; a scorer also returns the gradient
// of its score for every pixel.
//
// [Open] opens any judge: a scorer directory (written by [Train], or by `score import` from a released model), a
// reward of text-to-image models, or a VLM judge, which asks a vision-language model and parses its answers. The
// methods of [Scorer] score and differentiate an [Edit]. [Label] builds a label table from data sets of edits,
// [Train] trains a scorer on such a table, and [DryRun] plans a training. The other packages outside internal/ may be
// imported as well: edit defines edits, scores and judges, data reads pictures and tables, onnx/grad differentiates
// ONNX graphs, losses and heuristics implement the papers' formulas.
package assay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/generate"
	"assay/internal/hub"
	"assay/internal/workers"
	"assay/model"
	_ "assay/model/families" // registers the model families
	"assay/ort"
	"assay/t2i"
	"assay/textjudge"
)

// Edit is one edit: the pictures before and after it, and the instruction.
type Edit = edit.Edit

// Score is the result of a judge for one edit. Value, Sigma, Interval and Dimensions are on its [Scorer.Range].
type Score = edit.Score

// Gradient is a score with d Value / d pixel for each input picture, [height, width, 3], per 8-bit level.
type Gradient = edit.Gradient

// ReadEdit reads the pictures of an edit from files: PNG, JPEG, WebP, GIF, BMP or TIFF, rotated upright, with
// transparency composited over white. An empty source is omitted, for judges of a single picture. The error names the
// file, or is ctx's.
func ReadEdit(ctx context.Context, source, output, instruction string) (*Edit, error) {
	var sources []string
	if source != "" {
		sources = []string{source}
	}
	return ReadEditOf(ctx, sources, output, instruction)
}

// ReadEditOf is [ReadEdit] for an edit with several source pictures, in the order in which the instruction numbers
// them. Scorers with pair: sequence accept any number of sources; others refuse more than one.
func ReadEditOf(ctx context.Context, sources []string, output, instruction string) (*Edit, error) {
	e := &Edit{Instruction: instruction}
	for _, source := range sources {
		p, err := readPicture(ctx, source)
		if err != nil {
			return nil, err
		}
		e.Sources = append(e.Sources, p)
	}
	p, err := readPicture(ctx, output)
	if err != nil {
		return nil, err
	}
	e.Output = p
	return e, nil
}

func readPicture(ctx context.Context, path string) (*data.Picture, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return data.Open(path, data.Limits{})
}

// Options configure how [Open] opens and runs a judge.
type Options struct {
	Device    string // cpu, cuda:N or auto; "": auto
	Threads   int    // of the CPU; 0: all cores
	Dimension string // head that is reported as the score; "": the fusion of all heads

	// Backbone is the current location of the scorer's backbone; "": as in scorer.yaml. It must be the backbone that
	// the scorer was made with. A VLM judge asks this checkpoint unless Model is set.
	Backbone string
	Warn     func(text string) // called with warnings about the judge; nil: not called

	// For VLM judges:
	Model    chat.Model         // the model to ask, which the caller closes; nil: the checkpoint in Backbone
	Workers  int                // edits that it is asked about concurrently; 0: 8
	Settings textjudge.Settings // passes, published prompts, constrained answers
}

// Scorer is an opened judge. It is safe for concurrent use.
type Scorer struct {
	judge  edit.Judge
	info   edit.Info
	close  func() error
	closed atomic.Bool
}

// Open opens a judge: a scorer directory (scorer.yaml), a reward of text-to-image models (reward.yaml), or a VLM
// judge (a folder with judge.yaml, such a file, or a name of [textjudge.Shipped]). A backbone's weights are read in
// place. If a file differs from the one that the scorer was made with, the error names it. Close releases everything.
// A scorer and Options.Backbone may be names on the Hugging Face Hub (hf://org/name@revision, or org/name if there is
// no such folder), which are then fetched.
func Open(ctx context.Context, name string, o Options) (*Scorer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if name == "" { // a path relative to it would be in the current folder
		return nil, errors.New("no judge is named: want a scorer's folder, a name on the Hub, or a VLM judge")
	}
	if o.Threads < 0 {
		return nil, fmt.Errorf("threads: want 0 (all cores) or more, not %d", o.Threads)
	}
	o.Device, o.Threads = cmp.Or(o.Device, "auto"), cmp.Or(o.Threads, runtime.NumCPU())
	inWords := answersInWords(name)
	if !inWords {
		var err error
		if name, err = hub.Resolve(ctx, name, "scorer.yaml", "judge.yaml", t2i.ConfigFile); err != nil {
			return nil, err
		}
		inWords = answersInWords(name)
	}
	backbone, err := hub.Resolve(ctx, o.Backbone)
	if err != nil {
		return nil, err
	}
	o.Backbone = backbone
	if !inWords || o.Model == nil {
		if _, err := ort.Version(); err != nil { // nothing can be computed without the runtime
			return nil, err
		}
	}
	if inWords {
		return openTextJudge(name, o)
	}
	if t2i.Is(name) {
		return openReward(name, o)
	}
	m, err := model.OpenScorer(name, model.Options{Device: o.Device, Threads: o.Threads, Dimension: o.Dimension,
		Backbone: o.Backbone, Warn: o.Warn})
	if err != nil {
		return nil, err
	}
	return &Scorer{judge: m, info: m.Info(), close: m.Close}, nil
}

// openReward opens a reward of text-to-image models.
func openReward(name string, o Options) (*Scorer, error) {
	if o.Dimension != "" || o.Backbone != "" {
		return nil, fmt.Errorf("%s is a reward of one number, without a backbone: Options.Dimension and "+
			"Options.Backbone are for scorers", name)
	}
	j, err := t2i.Open(name, t2i.Options{Device: o.Device, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	return &Scorer{judge: j, info: j.Info(), close: j.Close}, nil
}

// answersInWords reports whether name is a judge of package textjudge.
func answersInWords(name string) bool {
	info, err := os.Stat(name)
	if err != nil {
		return slices.Contains(textjudge.Shipped(), name)
	}
	if info.IsDir() {
		_, err = os.Stat(filepath.Join(name, "judge.yaml"))
	}
	return err == nil
}

// openTextJudge opens a VLM judge that asks o.Model, or a checkpoint that it opens itself.
func openTextJudge(name string, o Options) (*Scorer, error) {
	m, closer := o.Model, func() error { return nil }
	switch {
	case o.Dimension != "":
		return nil, fmt.Errorf("%s: Options.Dimension selects a head of a scorer, but this is a VLM judge", name)
	case m == nil && o.Backbone == "":
		return nil, fmt.Errorf("%s is a VLM judge: set Options.Model or Options.Backbone to the model that it asks", name)
	case m == nil:
		own, err := generate.Open(o.Backbone, generate.Options{Device: o.Device, Threads: o.Threads, Warn: o.Warn})
		if err != nil {
			return nil, err
		}
		m, closer = own, own.Close
	}
	j, err := textjudge.Open(name, m, o.Settings)
	if err == nil {
		j, err = j.Scorer(cmp.Or(o.Workers, 8))
	}
	if err != nil {
		return nil, errors.Join(err, closer())
	}
	if o.Warn != nil {
		for _, text := range j.Warnings {
			o.Warn(text)
		}
	}
	return &Scorer{judge: j, info: j.Info(), close: closer}, nil
}

// Close releases the judge. What uses it afterwards gets an error.
func (s *Scorer) Close() error {
	if s.closed.Swap(true) {
		return nil
	}
	return s.close()
}

// check refuses what cannot be scored.
func (s *Scorer) check(e *Edit) error {
	if s.closed.Load() {
		return errors.New("the judge is closed")
	}
	return s.info.Check(e)
}

// Judge returns the underlying judge, for Go code that takes an [edit.Judge].
func (s *Scorer) Judge() edit.Judge { return s.judge }

// Range returns the worst and the best score, as set in scorer.yaml or judge.yaml: 0 and 10 by default. Scores are
// not clipped. Some imported judges are unbounded: their worst and best are infinite.
func (s *Scorer) Range() (worst, best float64) { return s.info.Range[0], s.info.Range[1] }

// Score scores an edit. A scorer always returns the same score for the same edit. The error is due to the edit (an
// empty or overlong instruction, an unreadable answer), to the device or server, or to ctx.
func (s *Scorer) Score(ctx context.Context, e *Edit) (Score, error) {
	if err := s.check(e); err != nil {
		return Score{}, err
	}
	scores, errs, err := edit.ScoreAll(ctx, s.judge, e)
	if err != nil {
		return Score{}, err
	}
	return scores[0], errs[0]
}

// scoredAtOnce is the number of edits in a batch. It bounds memory: one batch is scored, one waits, and one is
// prepared.
const scoredAtOnce = 32

// batch holds edits that were read and prepared.
type batch struct {
	inputs []edit.Inputs
	errs   []error // by edit; nil: it has inputs
}

// ScoreAll scores edits in batches, and yields a score or an error for each, in order. Edits are read while earlier
// ones are scored; a score does not depend on the other edits. An error from edits is yielded for its edit. If ctx
// ends or the device fails, that error is the last one yielded.
func (s *Scorer) ScoreAll(ctx context.Context, edits iter.Seq2[*Edit, error]) iter.Seq2[Score, error] {
	return func(yield func(Score, error) bool) {
		ctx, stop := context.WithCancel(ctx)
		batches, done := make(chan batch, 1), make(chan struct{})
		defer func() { <-done }()
		defer stop()
		go func() {
			defer close(done)
			defer close(batches)
			s.prepare(edits, func(b batch) bool {
				select {
				case batches <- b:
					return true
				case <-ctx.Done():
					return false
				}
			})
		}()
		for b := range batches {
			if !s.scoreBatch(ctx, b, yield) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(Score{}, err)
		}
	}
}

// prepare prepares edits batch by batch, until send returns false.
func (s *Scorer) prepare(edits iter.Seq2[*Edit, error], send func(batch) bool) {
	var next []*Edit
	var errs []error
	flush := func() bool {
		b := batch{make([]edit.Inputs, len(next)), errs}
		workers.Do(len(next), func(i int) {
			if b.errs[i] == nil {
				b.errs[i] = s.check(next[i])
			}
			if b.errs[i] == nil {
				b.inputs[i], b.errs[i] = s.judge.Prepare(next[i])
			}
		})
		next, errs = nil, nil
		return send(b)
	}
	for e, err := range edits {
		next, errs = append(next, e), append(errs, err)
		if len(next) == scoredAtOnce && !flush() {
			return
		}
	}
	if len(next) > 0 {
		flush()
	}
}

// scoreBatch yields the scores of a batch, and reports whether to continue.
func (s *Scorer) scoreBatch(ctx context.Context, b batch, yield func(Score, error) bool) bool {
	scores, errs, err := edit.ScorePrepared(ctx, s.judge, b.inputs, b.errs)
	if err != nil {
		yield(Score{}, err)
		return false
	}
	for i, score := range scores {
		if !yield(score, errs[i]) {
			return false
		}
	}
	return true
}

// Gradient differentiates the score of an edit with respect to every pixel: through head, language model, vision
// tower, normalisation and resizing. Rounding to 8 bits counts as the identity. VLM judges have no gradients.
func (s *Scorer) Gradient(ctx context.Context, e *Edit) (*Gradient, error) {
	if err := s.check(e); err != nil {
		return nil, err
	}
	d, ok := s.judge.(edit.Differentiable)
	if !ok {
		return nil, fmt.Errorf("%s is a VLM judge: its scores have no gradients", s.info.Name)
	}
	all, err := d.Gradients(ctx, []*Edit{e})
	if err != nil {
		return nil, err
	}
	all[0].Scale(s.info.Range)
	return all[0], nil
}
