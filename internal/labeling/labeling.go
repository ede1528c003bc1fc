// Package labeling turns data sets of edited pictures into a label table. It connects the layouts of data sets
// (data/readers) and the rules (heuristics):
//
//	readers.Sample   an instruction, a source, a target, editors' outputs, or a chain of edits
//	row              an edit of a sample with its similarities, measured by the encoders (Job.Measure)
//	data.Row         a row of the table, with its label, the rule that set it, and its split (Job.Merge)
//
// Measure is a [table.Job] whose rows are parts: 64 samples each, a file in OUT/parts, which any number of machines
// can measure. Merge reads the rows of all parts several times. It finds near copies (package nearcopy), pictures of
// benchmarks (package guard) and repeated edits, decides the thresholds, labels and splits, and writes the table, the
// report and the list of skipped rows. The same inputs produce the same bytes, however often the work was interrupted
// and however it was distributed.
package labeling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"assay/data/readers"
	"assay/encoders"
	"assay/internal/atomicfile"
	"assay/internal/shards"
)

// Job is a run with its data sets open. Close frees them.
type Job struct {
	Config  *Config
	plan    *plan
	readers []readers.Reader
	models  string                    // digest of the encoders
	pools   map[int][]*readers.Sample // by source: the samples whose instructions are borrowed
	loaded  atomic.Int64              // pictures

	open func(c EncoderConfig, warn func(string)) (models, func() error, error)
}

// SourceError reports why a data set cannot be opened: its files or columns do not match the configuration.
type SourceError struct {
	Source string
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %q: %v", e.Source, e.Err) }
func (e *SourceError) Unwrap() error { return e.Err }

// Open opens the data sets of a configuration (otherwise the error is a *SourceError) and checks that parts already
// measured belong to it (otherwise the error is a *PlanError). Unpacking an archive may take long; ctx ends it.
func Open(ctx context.Context, c *Config) (*Job, error) {
	j := &Job{Config: c, plan: &plan{}, pools: map[int][]*readers.Sample{}, open: openEncoders}
	if err := j.openSources(ctx); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

var errEmpty = errors.New("it contains no samples")

func (j *Job) openSources(ctx context.Context) (err error) {
	c := j.Config
	if j.plan.Made, j.plan.Keys, err = c.digest(); err != nil {
		return err
	}
	for _, path := range []string{c.Encoders.Clip, c.Encoders.Dino} {
		print := ""
		if path != "" {
			if print, err = encoders.Fingerprint(path); err != nil {
				return err
			}
		}
		j.models += print + "\n"
	}
	for i := range c.Sources {
		s := &c.Sources[i]
		r, err := readers.Open(ctx, s.Layout, s.options(c.Out))
		if err != nil {
			return &SourceError{s.Name, err}
		}
		j.readers = append(j.readers, r)
		if r.Len() == 0 {
			return &SourceError{s.Name, errEmpty}
		}
		j.plan.Sources = append(j.plan.Sources, planSource{s.Name, r.Len()})
	}
	return keepPlan(c.Out, j.plan)
}

// Pictures returns the number of pictures that Measure has loaded so far.
func (j *Job) Pictures() int64 { return j.loaded.Load() }

// Close closes the data sets.
func (j *Job) Close() {
	for _, r := range j.readers {
		r.Close() // only read
	}
}

// AddShard copies the parts and pictures that another machine measured into the output folder of the job.
func (j *Job) AddShard(ctx context.Context, dir string) error {
	raw, err := os.ReadFile(filepath.Join(dir, partsFolder, planFile))
	if err != nil {
		return fmt.Errorf("%s is not the output folder of a shard: %w", dir, err)
	}
	var other plan
	if json.Unmarshal(raw, &other) != nil {
		return &PlanError{Folder: filepath.Join(dir, partsFolder)}
	}
	if err := j.plan.differs(&other, filepath.Join(dir, partsFolder)); err != nil {
		return err
	}
	if !slices.Equal(other.Sources, j.plan.Sources) {
		return &PlanError{filepath.Join(dir, partsFolder), []string{"the samples of sources"}}
	}
	files, err := j.partFiles(ctx, shards.Ref{})
	if err != nil {
		return err
	}
	wanted := map[string]bool{} // parts that are missing here, or were built from other inputs
	for i, p := range files.parts {
		wanted[p.file(j.Config.Out)] = !files.measured[i]
	}
	for _, folder := range []string{picturesFolder, partsFolder} { // parts last: they refer to pictures
		root := filepath.Join(dir, folder)
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err == nil {
				err = ctx.Err()
			}
			if err != nil || e.IsDir() || strings.HasPrefix(e.Name(), ".") {
				return err
			}
			rel, err := filepath.Rel(dir, path)
			if err != nil {
				return err
			}
			to := filepath.Join(j.Config.Out, rel)
			if _, err := os.Stat(to); err == nil && !wanted[to] {
				return nil
			}
			if err := os.MkdirAll(filepath.Dir(to), 0o777); err != nil {
				return err
			}
			return atomicfile.Copy(path, to)
		})
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
