// Package assay trains and runs reward models for instruction-guided image editing. Given a picture, an instruction
// and an edited picture, a judge says how well the edit was done; a scorer also how that changes with every pixel.
//
// [Open] opens any judge: a scorer directory that [Train] wrote or `score import` made of a released model, or one that
// asks a vision-language model in words. Its methods score and differentiate an [Edit]. [Label] makes a table of labels
// from data sets of edits, [Train] trains a scorer on such a table, and [DryRun] plans that. The packages that are not
// internal may be imported for the rest: edit has edits, scores and judges, data reads pictures and tables, onnx/grad
// differentiates ONNX graphs, losses and heuristics are the papers' formulas.
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

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/generate"
	"assay/internal/hub"
	"assay/internal/workers"
	"assay/model"
	_ "assay/model/families" // the architectures that are known
	"assay/ort"
	"assay/t2i"
	"assay/textjudge"
)

// Edit is an edit: pictures before and after it, and what was asked for.
type Edit = edit.Edit

// Score is what a judge says of an edit. Value, Sigma, Interval and Dimensions are on its [Scorer.Range].
type Score = edit.Score

// Gradient is a score with d Value / d pixel of each picture as it was given, [height, width, 3], per 8-bit level.
type Gradient = edit.Gradient

// ReadEdit reads the pictures of an edit from files: PNG, JPEG, WebP, GIF, BMP or TIFF, turned upright, transparency
// over white. An empty source is left out, for judges of one picture. The error names the file, or is ctx's.
func ReadEdit(ctx context.Context, source, output, instruction string) (*Edit, error) {
	var sources []string
	if source != "" {
		sources = []string{source}
	}
	return ReadEditOf(ctx, sources, output, instruction)
}

// ReadEditOf is [ReadEdit] of an edit of several pictures, in the order in which the instruction counts them. Scorers
// with pair: sequence look at any number of sources, others refuse more than one.
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

// Options say where a judge runs.
type Options struct {
	Device    string // cpu, cuda:N or auto; "": auto
	Threads   int    // of the CPU; 0: all cores
	Dimension string // reported as the score of a scorer of several heads; "": their fusion

	// Backbone is where the scorer's backbone is now; "": where scorer.yaml says. It must be the one that the scorer was
	// made with. A judge that answers in words asks this checkpoint, unless there is a Model.
	Backbone string
	Warn     func(text string) // told what is doubtful about the judge; nil: not called

	// Of judges that answer in words:
	Model    chat.Model         // is asked, and stays the caller's; nil: the checkpoint Backbone is
	Workers  int                // edits that it is asked about at a time; 0: 8
	Settings textjudge.Settings // passes, published prompts, constrained answers
}

// Scorer is an opened judge. It is safe for concurrent use.
type Scorer struct {
	judge edit.Judge
	info  edit.Info
	close func() error
}

// Open opens a judge: a scorer directory (scorer.yaml), a reward of text-to-image models (reward.yaml), or one that
// answers in words (a folder with judge.yaml, such a file, or a name of [textjudge.Shipped]). A backbone's weights are
// read where they lie. A file that is not the one that the scorer was made with is an error that names it. Close frees
// everything. A scorer and Options.Backbone may be names on the Hugging Face Hub (hf://org/name@revision, or org/name
// where no such folder is): they are fetched.
func Open(ctx context.Context, name string, o Options) (*Scorer, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
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
		if _, err := ort.Version(); err != nil { // without the runtime nothing can be computed here
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
	return &Scorer{m, m.Info(), m.Close}, nil
}

// openReward opens a reward of text-to-image models.
func openReward(name string, o Options) (*Scorer, error) {
	if o.Dimension != "" || o.Backbone != "" {
		return nil, fmt.Errorf("%s: it is a reward of one number, over no backbone: Options.Dimension and Options.Backbone "+
			"belong to scorers", name)
	}
	j, err := t2i.Open(name, t2i.Options{Device: o.Device, Threads: o.Threads})
	if err != nil {
		return nil, err
	}
	return &Scorer{j, j.Info(), j.Close}, nil
}

// answersInWords reports whether a name is that of a judge of package textjudge.
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

// openTextJudge opens a judge over o.Model, or over a checkpoint of its own.
func openTextJudge(name string, o Options) (*Scorer, error) {
	m, closer := o.Model, func() error { return nil }
	switch {
	case o.Dimension != "":
		return nil, fmt.Errorf("%s: Options.Dimension selects a head of a scorer: this judge answers in words", name)
	case m == nil && o.Backbone == "":
		return nil, fmt.Errorf("%s answers in words: set Options.Model or Options.Backbone to the model that is asked", name)
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
	return &Scorer{j, j.Info(), closer}, nil
}

// Close frees the judge, which must not be used any more.
func (s *Scorer) Close() error { return s.close() }

// Judge is the judge beneath: one for other Go code that takes edits.
func (s *Scorer) Judge() edit.Judge { return s.judge }

// Range is the worst and the best score, as scorer.yaml or judge.yaml has them: 0 and 10 by default. Scores are not
// clipped. Some imported judges have no range: their worst and best are infinite.
func (s *Scorer) Range() (worst, best float64) { return s.info.Range[0], s.info.Range[1] }

// Score scores an edit. A scorer always gives the same edit the same score. The error is the edit's (an instruction
// that is empty or too long, an answer that cannot be read), the device's or server's, or ctx's.
func (s *Scorer) Score(ctx context.Context, e *Edit) (Score, error) {
	if err := s.info.Check(e); err != nil {
		return Score{}, err
	}
	scores, errs, err := edit.ScoreAll(ctx, s.judge, e)
	if err != nil {
		return Score{}, err
	}
	return scores[0], errs[0]
}

// scoredAtOnce bounds how many edits are in memory: a batch that is scored, one that waits, and one that is prepared.
const scoredAtOnce = 32

// batch is edits that were read and prepared.
type batch struct {
	inputs []edit.Inputs
	errs   []error // of each edit; nil: it has inputs
}

// ScoreAll scores edits in batches, and yields a score or an error of each, in their order. An edit is read while those
// before it are scored; its score is the same alone or among others. An error that edits yields is the edit's. When ctx
// ends, or a device can do nothing, that error is the last that is yielded.
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

// prepare prepares edits batch by batch, until send says that no more are wanted.
func (s *Scorer) prepare(edits iter.Seq2[*Edit, error], send func(batch) bool) {
	var next []*Edit
	var errs []error
	flush := func() bool {
		b := batch{make([]edit.Inputs, len(next)), errs}
		workers.Do(len(next), func(i int) {
			if b.errs[i] == nil {
				b.errs[i] = s.info.Check(next[i])
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

// scoreBatch yields the scores of a batch; false: no more are wanted.
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

// Gradient differentiates the score of an edit with respect to every pixel: through head, language model, vision tower,
// normalisation and resizing. Rounding to 8 bits counts as the identity. Judges that answer in words have none.
func (s *Scorer) Gradient(ctx context.Context, e *Edit) (*Gradient, error) {
	if err := s.info.Check(e); err != nil {
		return nil, err
	}
	d, ok := s.judge.(edit.Differentiable)
	if !ok {
		return nil, fmt.Errorf("%s answers in words: its scores have no gradients", s.info.Name)
	}
	all, err := d.Gradients(ctx, []*Edit{e})
	if err != nil {
		return nil, err
	}
	all[0].Scale(s.info.Range)
	return all[0], nil
}
