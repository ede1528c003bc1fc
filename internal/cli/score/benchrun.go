package score

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/edit"
	"assay/encoders"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/report"
	"assay/internal/benchmarks/runner"
	"assay/internal/cli"
	"assay/internal/exit"
)

func runBench(c *cobra.Command, b *protocol.Benchmark, f *benchFlags) error {
	r, err := benchReport(c, b, f)
	if errors.Is(err, errShared) {
		return nil
	} else if err != nil || r == nil { // nil: examples were written
		return err
	}
	return f.finish(c, r)
}

// benchReport judges what the flags name. The error is errShared for a worker that has done its shards.
func benchReport(c *cobra.Command, b *protocol.Benchmark, f *benchFlags) (*report.Report, error) {
	b = b.WithLower(f.Lower)
	r := &report.Report{Benchmark: b, Extra: map[string]any{}}
	if f.means != "" {
		if err := alone(c, "--means computes the overall score from the means alone", "means", "report"); err != nil {
			return nil, err
		}
		result, err := b.Means(f.means)
		if err != nil {
			return nil, err
		}
		r.Systems = []report.System{{Name: "means", Result: result}}
		return r, nil
	}
	if err := f.check(c); err != nil {
		return nil, err
	}
	set, err := b.Load(f.Options)
	if err != nil {
		return nil, exit.Usage(err)
	}
	if f.examples != "" {
		return nil, f.writeExamples(c, set.(protocol.Teachable)) // only such sets have the flag
	}
	if err := f.evaluate(c, r, set); err != nil {
		return nil, err
	}
	if len(r.Systems) == 0 {
		return nil, exit.Usagef("nothing to judge: give --predictions FILE, --scorer DIR, --judge NAME, --baseline NAME, " +
			"or --compare FILE FILE")
	}
	if f.writeTo != "" {
		if err := r.WriteAuthors(f.writeTo); err != nil {
			return nil, err
		}
	}
	r.Measure(set, f.resamples, f.seed)
	if len(f.compare) > 0 || len(r.Systems) > 1 {
		if err := r.Compare(f.resamples, f.seed); err != nil {
			return nil, exit.Usage(err)
		}
	}
	return r, nil
}

// check refuses invalid values and combinations of flags.
func (f *benchFlags) check(c *cobra.Command) error {
	if eps := f.Epsilon; c.Flags().Changed("epsilon") && (!(eps >= 0) || math.IsInf(eps, 1)) {
		return exit.Usagef("--epsilon %v: want a finite number, 0 or more", eps)
	}
	if f.resamples < 0 {
		return exit.Usagef("--resamples %d: want 0 or more", f.resamples)
	}
	if ref, merge, err := f.shard.Read(); err != nil {
		return err
	} else if _, similarity := encoders.FindSimilarity(f.baseline); (merge || ref.Count > 0) && !similarity &&
		!f.runtime.given() {
		return exit.Usagef("--shard and --merge split the work of a model: give --scorer, --judge, or a --baseline " +
			"of embeddings")
	}
	if ref, _, _ := f.shard.Read(); len(f.metrics) > 0 && ref.Count > 0 {
		return exit.Usagef("--component is not measured by the workers of --shard: give it with --merge")
	}
	if f.checkOrder && f.runtime.scorer == "" {
		return exit.Usagef("--check-order scores pairs in both orders: give --scorer")
	}
	return nil
}

// evaluate adds all systems that the flags name, or the predictions contained in the data.
func (f *benchFlags) evaluate(c *cobra.Command, r *report.Report, set protocol.Set) error {
	mixed, isMixed := set.(protocol.Mixed)
	paths := slices.Clone(f.components)
	if f.predictions != "" {
		paths = append(paths, f.predictions)
	}
	names := newNamer(slices.Concat(paths, f.compare))
	if !isMixed {
		if err := addFiles(r, set, names, paths); err != nil {
			return err
		}
	}
	kind, similarity := encoders.FindSimilarity(f.baseline)
	if similarity && f.runtime.given() {
		return exit.Usagef("--scorer (or --judge) and --baseline %s both run a model: run them one after the other, "+
			"and pass their predictions.jsonl to --compare",
			f.baseline)
	}
	if similarity || f.runtime.given() {
		path, err := f.scored(c, r, set, kind)
		if err != nil {
			return err
		}
		paths = append(paths, path) // for benchmarks that combine files
	}
	measured, err := f.measure(c, r, set)
	if err == nil && !isMixed {
		err = addFiles(r, set, names, measured)
	}
	if err != nil {
		return err
	}
	paths = append(paths, measured...)
	if isMixed && len(paths)+len(f.Editors) > 0 {
		paths = append(paths, f.Editors...)
		if err := addMixed(r, mixed, names(paths[0]), paths); err != nil {
			return err
		}
	}
	if f.baseline != "" && !similarity {
		if err := f.addBaseline(r, set); err != nil {
			return err
		}
	}
	if err := addFiles(r, set, names, f.compare); err != nil {
		return err
	}
	addOwn(r, set)
	return nil
}

// scored runs a scorer and adds its predictions to the report, unless the benchmark combines files: then they are one
// of several.
func (f *benchFlags) scored(
	c *cobra.Command, r *report.Report, set protocol.Set, kind encoders.SimilarityKind,
) (string, error) {
	name, path, err := f.score(c, r, set, kind)
	if _, mixes := set.(protocol.Mixed); err == nil && !mixes {
		err = addFile(r, set, name, path)
	}
	return path, err
}

// score runs a scorer over the benchmark, saves its predictions in the folder --out, and returns its name and their
// file.
func (f *benchFlags) score(
	c *cobra.Command, r *report.Report, set protocol.Set, kind encoders.SimilarityKind,
) (name, path string, err error) {
	scorable, ok := set.(protocol.Scorable)
	if !ok {
		return "", "", exit.Usagef("%s is computed from components or answers (--components): no scorer can be run on it",
			r.Benchmark.Name)
	}
	items, err := scorable.Items()
	if err != nil {
		return "", "", exit.Usage(err)
	}
	if kind.Name != "" {
		if _, err := f.encoder(kind); err != nil {
			return "", "", err
		}
		if err := runner.SetCaptions(kind, items, f.captions); err != nil {
			return "", "", exit.Usage(err)
		}
	}
	s, err := f.openScorer(c, kind)
	if err != nil {
		return "", "", err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if kind.Name == "" {
		if items, err = s.Items(scorable); err != nil {
			return "", "", exit.Usage(err)
		}
	}
	r.Facts = append(r.Facts, "scorer "+s.Name+": "+s.Settings)
	if composed, ok := set.(protocol.Composed); ok && len(s.Components(composed)) > 0 {
		r.Facts = append(r.Facts, fmt.Sprintf("its numbers %s are components: --component %s instead of --judge fills them",
			strings.Join(s.Components(composed), ", "), f.runtime.judge))
	}
	run := runner.Run{Benchmark: r.Benchmark.Name, Items: items, Dir: f.folder(r)}
	if questions, ok := set.(protocol.Questions); ok {
		run.AnswerOf = questions.AnswerOf
	}
	if path, err = f.runScorer(c, &run, s); err != nil {
		return "", "", err
	}
	r.Facts = append(r.Facts, "predictions: "+path)
	if run.Asked != nil {
		r.AddAsked(run.Asked)
		if run.Asked.Judged == 0 && len(items) > 0 {
			return "", "", fmt.Errorf("none of %d items could be judged: %s says why", len(items), run.Asked.File)
		}
	}
	r.Extra["scorer"], r.Extra["settings"], r.Extra["predictions"] = s.Name, s.Settings, path
	name = s.Name
	if kind.Name == "" && f.runtime.judge == "" {
		name = systemName(name)
	}
	if f.checkOrder {
		err = compareOrders(c, r, s, items)
	}
	return name, path, err
}

func compareOrders(c *cobra.Command, r *report.Report, s *runner.Judge, items []*edit.Edit) error {
	bar := cli.Bar{Command: c, What: "both orders", Unit: "pairs"}
	bar.Set(0, -1)
	order, err := runner.CheckOrder(c.Context(), s, items, func(done int) { bar.Set(done, -1) })
	bar.Close()
	if err != nil {
		return err
	}
	r.Extra["order"] = order
	r.Facts = append(r.Facts, fmt.Sprintf("order: the winner flips in %d of %d pairs; a score changes by up to %.3g",
		order.Flips, order.Pairs, order.Largest))
	return nil
}

// folder returns --out, or its default.
func (f *benchFlags) folder(r *report.Report) string {
	return cmp.Or(f.out, filepath.Join("runs", "bench-"+r.Benchmark.Name))
}

// encoder returns the encoder of a similarity.
func (f *benchFlags) encoder(kind encoders.SimilarityKind) (path string, err error) {
	path, flag := f.clip, "--clip"
	if kind.DINO {
		path, flag = f.dino, "--dino"
	}
	if path == "" {
		err = exit.Usagef("--baseline %s needs %s: a Hugging Face checkpoint directory or an .onnx file", f.baseline, flag)
	}
	return path, err
}

// openScorer opens what the flags name: a VLM judge, a scorer directory, or the encoder of a baseline.
func (f *benchFlags) openScorer(c *cobra.Command, kind encoders.SimilarityKind) (*runner.Judge, error) {
	if f.runtime.judge != "" {
		j, m, err := f.runtime.openJudge(c)
		if err != nil {
			return nil, err
		}
		s, err := runner.OpenJudge(j, m.Concurrency(f.runtime.answers.local.o.Batch), m.Close)
		if err != nil {
			return nil, errors.Join(exit.Usage(err), m.Close())
		}
		s.Name += f.runtime.asked()
		return s, nil
	}
	if kind.Name == "" {
		o, err := f.runtime.options(c)
		if err != nil {
			return nil, err
		}
		s, err := runner.OpenScorer(f.runtime.scorer, o)
		if err != nil {
			return nil, exit.Named(err)
		}
		return s, nil
	}
	path, err := f.encoder(kind)
	if err != nil {
		return nil, err
	}
	s, err := runner.OpenSimilarity(kind, path, encoders.Options{Device: f.runtime.device, Threads: f.runtime.threads})
	if err != nil {
		return nil, exit.Named(err)
	}
	return s, nil
}

// errShared reports that a worker has done its shards: --merge makes the report.
var errShared = errors.New("shards are done")

// runScorer scores all items, or the items of some shards (the error is then errShared, or the failure), or merges
// all shards.
func (f *benchFlags) runScorer(c *cobra.Command, run *runner.Run, s *runner.Judge) (path string, err error) {
	ref, merge, err := f.shard.Read()
	if err != nil {
		return "", err
	}
	bar := cli.Bar{Command: c, What: run.Benchmark, Unit: "edits"}
	run.Progress = bar.Set
	switch {
	case merge:
		run.Unchanged = f.shard.Unchanged
		return run.Merge(s)
	case ref.Count > 0:
		run.Told, path = f.shard.Told(c), runner.PredictionsFile(run.Dir)
		f.shard.Why = filepath.Join(run.Dir, "failed.jsonl")
		report, err := run.Shard(c.Context(), s, ref)
		bar.Close()
		err = capped(err, "")
		return path, cmp.Or(f.shard.Finish(c, path, report, err), errShared)
	}
	bar.Set(0, len(run.Items))
	path, err = run.Score(c.Context(), s)
	bar.Close()
	if errors.Is(err, context.Canceled) {
		return "", fmt.Errorf("%d of %d edits are scored in %s; rerun the same command to resume: %w", bar.Done(),
			len(run.Items), path, exit.ErrInterrupted)
	}
	return path, capped(err, "")
}
