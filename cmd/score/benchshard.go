package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/internal/benchmarks/runner"
	"assay/internal/cli"
)

// errShared says that a worker has done its shards: the report is for --merge.
var errShared = errors.New("shards are done")

// runScorer scores all items, or those of some shards (then the error is errShared, or why not), or merges all shards.
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
		if errors.Is(err, chat.ErrCap) {
			err = fmt.Errorf("%w: what was answered is kept; the same command goes on: %w", err, cli.ErrInterrupted)
		}
		return path, cmp.Or(f.shard.Finish(c, path, report, err), errShared)
	}
	bar.Set(0, len(run.Items))
	path, err = run.Score(c.Context(), s)
	bar.Close()
	if errors.Is(err, context.Canceled) {
		return "", fmt.Errorf("%d of %d edits are scored in %s; the same command goes on: %w", bar.Done(), len(run.Items),
			path, cli.ErrInterrupted)
	}
	if errors.Is(err, chat.ErrCap) {
		return "", fmt.Errorf("%w: what was answered is kept; the same command goes on: %w", err, cli.ErrInterrupted)
	}
	return path, err
}
