// Package labeling turns data sets of edited pictures into a label table. It knows neither the layouts of data sets
// (data/readers) nor the rules (heuristics), only the way between them:
//
//	Measure   samples -> pictures -> similarities: parts, small files that any number of machines can make
//	Merge     all parts -> thresholds, rules, splits -> table, report, lists of what was left out
//
// The same inputs give the same bytes, however often the work was interrupted and however it was shared.
package labeling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"assay/data/readers"
	"assay/internal/atomicfile"
)

// Job is a run with its data sets open. Close frees them.
type Job struct {
	Config  *Config
	plan    *plan
	readers []readers.Reader
	inputs  *identifier
}

// SourceError says why a data set cannot be opened: its files or its columns are not as the configuration says.
type SourceError struct {
	Source string
	Err    error
}

func (e *SourceError) Error() string { return fmt.Sprintf("source %q: %v", e.Source, e.Err) }
func (e *SourceError) Unwrap() error { return e.Err }

// Open opens the data sets of a configuration (else the error is a *SourceError), and checks that what was measured
// already belongs to it (else the error is a *PlanError). Unpacking an archive may take long; ctx ends it.
func Open(ctx context.Context, c *Config) (*Job, error) {
	j := &Job{Config: c, plan: &plan{}}
	if err := j.open(ctx); err != nil {
		j.Close()
		return nil, err
	}
	return j, nil
}

var errEmpty = errors.New("there is no sample in it")

func (j *Job) open(ctx context.Context) (err error) {
	c := j.Config
	if j.plan.Made, j.plan.Keys, err = c.digest(); err != nil {
		return err
	}
	if j.inputs, err = newIdentifier(c); err != nil {
		return err
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

// Close closes the data sets.
func (j *Job) Close() {
	for _, r := range j.readers {
		r.Close() // only read
	}
}

// Shard is one machine's share of the parts. Index counts from 0 or from 1, as the machines like: the share is that of
// Index modulo Count. The zero Shard is all.
type Shard struct{ Index, Count int }

// ParseShard reads "i/n".
func ParseShard(text string) (Shard, error) {
	if text == "" {
		return Shard{}, nil
	}
	index, count, _ := strings.Cut(text, "/")
	i, errI := strconv.ParseUint(index, 10, 31)
	n, errN := strconv.ParseUint(count, 10, 31)
	if errI != nil || errN != nil || n < 1 || i > n {
		return Shard{}, fmt.Errorf("want i/n, as 1/4, with i at most n, not %q", text)
	}
	return Shard{int(i), int(n)}, nil
}

func (s Shard) has(part int) bool { return s.Count == 0 || part%s.Count == s.Index%s.Count }

// Progress is told how many samples are done and how many pictures were loaded, since the last time.
type Progress func(samples, pictures int)

// Todo counts the samples of a shard that are not measured yet, or have changed since.
func (j *Job) Todo(ctx context.Context, s Shard) (samples int, err error) {
	todo, err := j.todo(ctx, s)
	for _, id := range todo {
		samples += min(samplesPerPart, j.plan.Sources[id.source].Samples-id.part*samplesPerPart)
	}
	return samples, err
}

func (j *Job) todo(ctx context.Context, s Shard) ([]partID, error) {
	absent := map[partID]bool{}
	list, err := j.lacking(ctx)
	if err != nil {
		return nil, err
	}
	for _, id := range list {
		absent[id] = true
	}
	var todo []partID
	number := 0
	for id := range j.plan.parts() {
		if s.has(number) && absent[id] {
			todo = append(todo, id)
		}
		number++
	}
	return todo, nil
}

// Measure makes the parts of a shard that are not there yet, or of which something has changed: an instruction, a
// caption, the content of a picture, an encoder's weights. What is finished stays if it is stopped at any time; the
// next call goes on from there.
func (j *Job) Measure(ctx context.Context, e Encoders, s Shard, progress Progress) error {
	todo, err := j.todo(ctx, s)
	if err != nil {
		return err
	}
	m := &measurer{config: j.Config, encoders: e, workers: j.Config.Workers, counted: progress}
	if m.workers == 0 {
		m.workers = runtime.GOMAXPROCS(0)
	}
	for _, id := range todo {
		in, err := j.inputs.part(ctx, id, j.readers[id.source])
		if err != nil {
			return err
		}
		entries, err := m.part(ctx, id, j.readers[id.source], in)
		if err != nil {
			return err
		}
		if err := writePart(id.file(j.Config.Out), append([]entry{{Of: in.of}}, entries...)); err != nil {
			return err
		}
	}
	return ctx.Err()
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
	wanted := map[string]bool{} // parts here that are missing, or were made of something else
	list, err := j.lacking(ctx)
	if err != nil {
		return err
	}
	for _, id := range list {
		wanted[id.file(j.Config.Out)] = true
	}
	for _, folder := range []string{picturesFolder, partsFolder} { // parts last: they speak of pictures
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
