package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"assay/benchmarks"
	"assay/data"
	"assay/internal/cli"
	"assay/model"
)

// benchScorer runs a scorer directory on the items of a benchmark.
type benchScorer struct{ *model.Scorer }

// Score implements benchmarks.Scorer: scores on the scorer's range.
func (s benchScorer) Score(ctx context.Context, group []benchmarks.Item) ([]benchmarks.Prediction, error) {
	samples := make([]*model.Sample, len(group))
	for i, it := range group {
		source, err := decode(it, "source", it.Source)
		if err != nil {
			return nil, err
		}
		edit, err := decode(it, "edit", it.Edit)
		if err != nil {
			return nil, err
		}
		if samples[i], err = s.Prepare(model.Pair{Source: source, Edit: edit, Instruction: it.Instruction}); err != nil {
			return nil, fmt.Errorf("%v: %w", it.Key, err)
		}
	}
	scores, err := s.Scorer.Score(ctx, samples)
	if err != nil {
		return nil, err
	}
	cfg := s.Config()
	out := make([]benchmarks.Prediction, len(group))
	for i, it := range group {
		out[i] = benchmarks.Prediction{Key: it.Key, Score: cfg.Range(scores[i])}
	}
	return out, nil
}

func decode(it benchmarks.Item, what string, p benchmarks.Picture) (*data.Picture, error) {
	raw, err := p.Bytes()
	if err != nil {
		return nil, fmt.Errorf("%v: %s: %w", it.Key, what, err)
	}
	pic, err := data.Decode(raw, data.Limits{})
	if err != nil {
		return nil, fmt.Errorf("%v: %s: %w", it.Key, what, err)
	}
	return pic, nil
}

// judge is what scores the items of a benchmark: a scorer directory, or a baseline made of an encoder.
type judge struct {
	benchmarks.Scorer
	name        string
	fingerprint string
	settings    string // what is printed: question, preprocessing
	close       func() error
}

func (f *benchFlags) openJudge() (*judge, error) {
	if slices.Contains(similarities, f.baseline) {
		s, err := openSimilarity(f.baseline, f.encoders, f.runtime)
		if err != nil {
			return nil, err
		}
		return &judge{s, f.baseline, f.baseline + " " + s.model.Fingerprint(), "10 times the cosine of embeddings", s.model.Close}, nil
	}
	s, err := f.runtime.open()
	if err != nil {
		return nil, err
	}
	cfg := s.Config()
	settings := fmt.Sprintf("question %q, answer %q, pair %s, pair_size %v, range %v", cfg.Question, cfg.Answer, cfg.Pair, cfg.PairSize, cfg.ScoreRange)
	print, err := s.Fingerprint()
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &judge{benchScorer{s}, filepath.Clean(f.runtime.scorer), print, settings, s.Close}, nil
}

// score runs a judge over the benchmark, keeping its predictions in the folder --out.
func (f *benchFlags) score(c *cobra.Command, b *benchmarks.Benchmark, set benchmarks.Set, e *evaluation) (err error) {
	scorable, ok := set.(benchmarks.Scorable)
	if !ok {
		return cli.Usagef("%s is computed from components or answers (--components): no scorer can be run on it", b.Name)
	}
	items, err := scorable.Items()
	if err != nil {
		return cli.Usage(err)
	}
	s, err := f.openJudge()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	e.facts = append(e.facts, "scorer "+s.name+": "+s.settings)
	if f.out == "" {
		f.out = filepath.Join("runs", "bench-"+b.Name)
	}
	bar := cli.NewProgress(c, b.Name, int64(len(items)), "edits")
	done := 0
	path, err := benchmarks.Score(c.Context(), s, items, benchmarks.Run{Benchmark: b.Name, Scorer: s.fingerprint, Settings: s.settings}, f.out, func(n int) {
		bar.Add(int64(n-done), "")
		done = n
	})
	bar.Close()
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%d of %d edits are scored in %s; the same command goes on: %w", done, len(items), path, cli.ErrInterrupted)
	}
	if err != nil {
		return err
	}
	j, err := set.Read(path)
	if err != nil {
		return err
	}
	e.add(systemName(s.name), j)
	e.facts = append(e.facts, "predictions: "+path)
	e.extra["scorer"], e.extra["settings"], e.extra["predictions"] = s.name, s.settings, path
	if !f.checkOrder {
		return nil
	}
	bar = cli.NewProgress(c, "both orders", -1, "pairs")
	order, err := benchmarks.CheckOrder(c.Context(), s, items, func(int) { bar.Add(1, "") })
	bar.Close()
	if err != nil {
		return err
	}
	e.extra["order"] = order
	e.facts = append(e.facts, fmt.Sprintf("order: the winner flips in %d of %d pairs; a score changes by up to %.3g", order.Flips, order.Pairs, order.Largest))
	return nil
}
