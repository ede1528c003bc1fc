package labeling

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"assay/internal/atomicfile"
	"assay/internal/filelock"
	"assay/internal/shards"
	"assay/internal/table"
)

// samplesPerPart is the number of samples of one source in a part. A part is measured by one machine without
// interruption and is one file: parts/<source>-<part>.jsonl. Its content does not depend on which machine measured
// it, or how many there were.
const samplesPerPart = 64

const (
	partsFolder    = "parts"
	picturesFolder = "pictures"
	planFile       = "plan.json"
)

// plan lists the samples and what parts depend on. It is stored next to the parts, so that parts of another
// configuration are not mistaken for parts of this one.
type plan struct {
	Made    string            `json:"made"`           // digest of everything in the configuration that parts depend on
	Keys    map[string]string `json:"keys,omitempty"` // digest of each configuration key among that
	Sources []planSource      `json:"sources"`
}

type planSource struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

// part is a range of samples of one source.
type part struct{ source, first, samples int }

func (p part) file(out string) string {
	return filepath.Join(out, partsFolder, fmt.Sprintf("%03d-%07d.jsonl", p.source, p.first/samplesPerPart))
}

// parts lists all parts in order.
func (p *plan) parts() (list []part) {
	for i, s := range p.Sources {
		for first := 0; first < s.Samples; first += samplesPerPart {
			list = append(list, part{i, first, min(samplesPerPart, s.Samples-first)})
		}
	}
	return list
}

// digest covers the keys of the configuration that the measured rows depend on, together and key by key. Other keys,
// such as rules, split and guard, are not covered and can be changed without measuring again.
func (c *Config) digest() (all string, keys map[string]string, err error) {
	sources := append([]SourceConfig(nil), c.Sources...)
	for i := range sources {
		s := &sources[i]
		s.Path, s.Pictures = c.relative(s.Path), c.relative(s.Pictures)
		s.Split = "" // only used by the merge
	}
	chains := c.Chains
	chains.ForeignLabel, chains.OverEditedLabel = 0, 0
	made := map[string]any{"format": 2, "sources": sources, "chains": chains, "seed": c.Seed, "per part": samplesPerPart,
		"clip": c.relative(c.Encoders.Clip), "dino": c.relative(c.Encoders.Dino), "given": c.Encoders.Given}
	made["clip_d"] = c.Encoders.ClipD
	if c.Foreign.Instructions > 0 {
		made["foreign"] = c.Foreign
	}
	raw, err := json.Marshal(made)
	if err != nil {
		return "", nil, err
	}
	sum := sha256.Sum256(raw)
	keys = map[string]string{}
	for name, key := range map[string]string{"sources": "sources", "chains": "chains", "seed": "seed",
		"clip": "encoders.clip",
		"dino": "encoders.dino", "given": "encoders.given", "clip_d": "encoders.clip_d", "foreign": "foreign"} {
		raw, err := json.Marshal(made[name])
		if err != nil {
			return "", nil, err
		}
		own := sha256.Sum256(raw)
		keys[key] = hex.EncodeToString(own[:8])
	}
	return hex.EncodeToString(sum[:]), keys, nil
}

// differs returns nil if the parts of another plan also belong to this one, that is, if the configuration is the
// same, whatever the samples; otherwise a *PlanError.
func (p *plan) differs(other *plan, folder string) error {
	if other.Made == p.Made {
		return nil
	}
	e := &PlanError{Folder: folder}
	for _, key := range slices.Sorted(maps.Keys(p.Keys)) {
		if have, ok := other.Keys[key]; ok && have != p.Keys[key] {
			e.Keys = append(e.Keys, key)
		}
	}
	return e
}

// relative returns a path relative to the output folder, so that machines with different roots agree.
func (c *Config) relative(path string) string {
	if path == "" {
		return ""
	}
	rel, err := filepath.Rel(c.Out, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}

// keepPlan writes the plan next to the parts, or compares it with an existing plan.
func keepPlan(out string, p *plan) error {
	folder := filepath.Join(out, partsFolder)
	path := filepath.Join(folder, planFile)
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	lock, err := filelock.Take(filepath.Join(folder, ".plan.lock")) // or two processes may both write one
	if err != nil {
		return err
	}
	defer lock.Close()
	have, err := os.ReadFile(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return atomicfile.WriteBytes(path, raw)
	case err != nil:
		return err
	case bytes.Equal(have, raw):
		return nil
	}
	var before plan
	if json.Unmarshal(have, &before) != nil {
		return &PlanError{Folder: folder}
	}
	if err := p.differs(&before, folder); err != nil {
		return err
	}
	return atomicfile.WriteBytes(path, raw) // there are more or fewer samples; each part records its inputs
}

// PlanError reports that the parts in a folder were measured with another configuration.
type PlanError struct {
	Folder string
	Keys   []string // keys that differ; none: unknown
}

func (e *PlanError) Error() string {
	what := ""
	if len(e.Keys) > 0 {
		what = " (" + strings.Join(e.Keys, ", ") + ")"
	}
	return e.Folder + ": was measured with another configuration" + what +
		": use another out, or remove the folder to measure again"
}

// partHead is the first line of a part.
type partHead struct {
	Of string `json:"of"` // digest of the part's inputs
}

// partFiles are the parts of a shard as the results of a table.Job whose rows are parts.
type partFiles struct {
	out   string
	parts []part
	shard shards.Ref

	mu       sync.Mutex // guards the fields below
	measured []bool     // by part: it exists and its inputs are unchanged
	count    int        // parts measured
	samples  int        // samples in them
	total    int        // samples of the shard
}

// partFiles finds the parts of a shard that exist and are up to date.
func (j *Job) partFiles(ctx context.Context, shard shards.Ref) (*partFiles, error) {
	f := &partFiles{out: j.Config.Out, parts: j.plan.parts(), shard: shard}
	f.measured = make([]bool, len(f.parts))
	for i, p := range f.parts {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if f.skip(i) {
			continue
		}
		f.total += p.samples
		of, err := madeOf(p.file(f.out))
		if err != nil {
			return nil, err
		}
		if of == "" {
			continue
		}
		in, err := j.inputs(ctx, p)
		if err != nil {
			return nil, err
		}
		if in.of == of {
			f.done(i)
		}
	}
	return f, nil
}

// skip reports whether a part belongs to another shard.
func (f *partFiles) skip(i int) bool {
	return f.shard.Count > 0 && i%f.shard.Count != f.shard.Index%f.shard.Count
}

func (f *partFiles) done(i int) {
	f.measured[i] = true
	f.count++
	f.samples += f.parts[i].samples
}

// Has reports whether a part is measured.
func (f *partFiles) Has(i int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.measured[i]
}

// Len returns the number of parts that are measured.
func (f *partFiles) Len() int { return f.count }

// Line is never called: parts do not fail.
func (f *partFiles) Line(int) (table.Line[[]row], error) { return table.Line[[]row]{}, nil }

// Add writes the files of parts, each atomically.
func (f *partFiles) Add(lines ...table.Line[[]row]) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, l := range lines {
		if l.Error != "" {
			return errors.New(l.Error)
		}
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(partHead{l.Content})
		for i := 0; err == nil && i < len(l.Value); i++ {
			err = e.Encode(&l.Value[i])
		}
		if err == nil {
			err = atomicfile.WriteBytes(f.parts[l.Row].file(f.out), b.Bytes())
		}
		if err != nil {
			return err
		}
		f.done(l.Row)
	}
	return nil
}

// madeOf reads the digest of a part's inputs; "" if the file is missing or was written by an earlier version.
func madeOf(path string) (string, error) {
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	defer f.Close()
	line, err := bufio.NewReader(f).ReadBytes('\n')
	if err != nil && err != io.EOF { // an unreadable part is not a missing part
		return "", err
	}
	var head partHead
	if json.Unmarshal(line, &head) != nil {
		return "", nil
	}
	return head.Of, nil
}

// rows yields the rows of all parts in order, until one cannot be read or ctx ends.
func (j *Job) rows(ctx context.Context) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		number := 0
		for _, p := range j.plan.parts() {
			for r, err := range readPart(p.file(j.Config.Out)) {
				if err = cmp.Or(err, ctx.Err()); err != nil {
					yield(nil, err)
					return
				}
				if r.source = p.source; r.isEdit() {
					r.number = number
					number++
				}
				if !yield(r, nil) {
					return
				}
			}
		}
	}
}

func readPart(path string) iter.Seq2[*row, error] {
	return func(yield func(*row, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 64<<20)
		for first := true; lines.Scan(); first = false {
			if first { // the partHead
				continue
			}
			r := &row{}
			if err := json.Unmarshal(lines.Bytes(), r); err != nil {
				yield(nil, fmt.Errorf("%s: %w: remove the file to measure it again", path, err))
				return
			}
			if !yield(r, nil) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			yield(nil, fmt.Errorf("%s: %w", path, err))
		}
	}
}
