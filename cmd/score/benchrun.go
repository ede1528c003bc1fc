package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/benchmarks"
	"assay/encoders"
	"assay/internal/cli"
)

func runBench(c *cobra.Command, b *benchmarks.Benchmark, f *benchFlags) error {
	r := &benchmarks.Report{Benchmark: b, Extra: map[string]any{}}
	if f.means != "" {
		result, err := b.Means(f.means)
		if err != nil {
			return err
		}
		r.Systems = []benchmarks.System{{Name: "means", Result: result}}
		return f.finish(c, r)
	}
	if f.checkOrder && f.runtime.scorer == "" {
		return cli.Usagef("--check-order scores pairs in both orders: give --scorer")
	}
	set, err := b.Load(f.Options)
	if err != nil {
		return cli.Usage(err)
	}
	if err := f.evaluate(c, r, set); err != nil {
		return err
	}
	if len(r.Systems) == 0 {
		return cli.Usagef("nothing to judge: give --predictions FILE, --scorer DIR, --baseline NAME, or --compare FILE FILE")
	}
	r.Measure(set, f.resamples, f.seed)
	if len(f.compare) > 0 || len(r.Systems) > 1 {
		if err := r.Compare(f.resamples, f.seed); err != nil {
			return cli.Usage(err)
		}
	}
	return f.finish(c, r)
}

// evaluate adds all systems that the flags name, or the predictions that the data hold themselves.
func (f *benchFlags) evaluate(c *cobra.Command, r *benchmarks.Report, set benchmarks.Set) error {
	if f.predictions != "" {
		if err := addFile(r, set, f.predictions); err != nil {
			return err
		}
	}
	similarity := slices.Contains(benchmarks.Similarities, f.baseline)
	switch {
	case similarity && f.runtime.scorer != "":
		return cli.Usagef("--scorer and --baseline %s both run a model: run one after the other and put their "+
			"predictions.jsonl into --compare",
			f.baseline)
	case similarity || f.runtime.scorer != "":
		if err := f.score(c, r, set, similarity); err != nil {
			return err
		}
	}
	if f.baseline != "" && !similarity {
		baseline, err := benchmarks.NewBaseline(set, f.baseline, f.seed)
		if err != nil {
			return cli.Usage(err)
		}
		r.Add(baseline.Name, baseline)
		r.Extra["baseline"], r.Extra["seed"] = baseline.Name, f.seed
		if baseline.Expectation != nil {
			r.Extra["expectation"] = baseline.Expectation
		}
	}
	for _, path := range f.compare {
		if err := addFile(r, set, path); err != nil {
			return err
		}
	}
	if with, ok := set.(benchmarks.WithPredictions); ok && len(r.Systems) == 0 {
		if p, ok := with.Predictions(); ok {
			r.Add("answers in the data", p)
		}
	}
	return nil
}

func addFile(r *benchmarks.Report, set benchmarks.Set, path string) error {
	p, err := set.Read(path)
	if err != nil {
		return err
	}
	r.Add(systemName(path), p)
	return nil
}

// systemName is the name of a file of predictions without folder and extension.
func systemName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// score runs a scorer over the benchmark, keeping its predictions in the folder --out.
func (f *benchFlags) score(c *cobra.Command, r *benchmarks.Report, set benchmarks.Set, similarity bool) (err error) {
	scorable, ok := set.(benchmarks.Scorable)
	if !ok {
		return cli.Usagef("%s is computed from components or answers (--components): no scorer can be run on it",
			r.Benchmark.Name)
	}
	items, err := scorable.Items()
	if err != nil {
		return cli.Usage(err)
	}
	s, err := f.openScorer(similarity)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	r.Facts = append(r.Facts, "scorer "+s.Name+": "+s.Settings)
	if f.out == "" {
		f.out = filepath.Join("runs", "bench-"+r.Benchmark.Name)
	}
	bar := progress{c: c, what: r.Benchmark.Name, unit: "edits"}
	bar.set(0, len(items))
	run := benchmarks.Run{Benchmark: r.Benchmark.Name, Items: items, Dir: f.out, Progress: bar.set}
	path, err := run.Score(c.Context(), s)
	bar.close()
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%d of %d edits are scored in %s; the same command goes on: %w", bar.done, len(items), path,
			cli.ErrInterrupted)
	}
	if err != nil {
		return err
	}
	p, err := set.Read(path)
	if err != nil {
		return err
	}
	r.Add(systemName(s.Name), p)
	r.Facts = append(r.Facts, "predictions: "+path)
	r.Extra["scorer"], r.Extra["settings"], r.Extra["predictions"] = s.Name, s.Settings, path
	if f.checkOrder {
		return compareOrders(c, r, s, items)
	}
	return nil
}

func compareOrders(c *cobra.Command, r *benchmarks.Report, s *benchmarks.Scorer, items []benchmarks.Item) error {
	bar := progress{c: c, what: "both orders", unit: "pairs"}
	bar.set(0, -1)
	order, err := benchmarks.CheckOrder(c.Context(), s, items, func(done int) { bar.set(done, -1) })
	bar.close()
	if err != nil {
		return err
	}
	r.Extra["order"] = order
	r.Facts = append(r.Facts, fmt.Sprintf("order: the winner flips in %d of %d pairs; a score changes by up to %.3g",
		order.Flips, order.Pairs, order.Largest))
	return nil
}

// openScorer opens what the flags name: a scorer directory, or the encoder of a baseline.
func (f *benchFlags) openScorer(similarity bool) (*benchmarks.Scorer, error) {
	if !similarity {
		o, err := f.runtime.options()
		if err != nil {
			return nil, err
		}
		return benchmarks.OpenScorer(f.runtime.scorer, o)
	}
	path, flag := f.clip, "--clip"
	if f.baseline == "dino_i" {
		path, flag = f.dino, "--dino"
	}
	if path == "" {
		return nil, cli.Usagef("--baseline %s needs %s: a Hugging Face checkpoint directory or an .onnx file", f.baseline,
			flag)
	}
	if f.baseline == "clip_d" && f.captions == "" {
		return nil, cli.Usagef("--baseline clip_d needs --captions: JSON lines of id, source_caption and target_caption")
	}
	o := encoders.Options{Device: f.runtime.device, Threads: f.runtime.threads}
	return benchmarks.OpenSimilarity(f.baseline, path, f.captions, o)
}
