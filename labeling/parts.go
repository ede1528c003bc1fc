package labeling

import (
	"bufio"
	"bytes"
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

	"assay/heuristics"
	"assay/internal/atomicfile"
	"assay/internal/filelock"
	"assay/labeling/nearcopy"
)

// The work is cut into parts of as many samples of one source each. A part is measured by one machine, in one go, and
// is a file: parts/<source>-<part>.jsonl. Which machine made it, and how many there were, cannot be seen in it.
const samplesPerPart = 64

const (
	partsFolder    = "parts"
	picturesFolder = "pictures"
	planFile       = "plan.json"
)

// plan says what parts there are and what they depend on. It lies beside them, so that parts of another configuration
// are not mistaken for this one's.
type plan struct {
	Made    string            `json:"made"`           // digest of all that the content of parts depends on
	Keys    map[string]string `json:"keys,omitempty"` // and of each key of the configuration among that
	Sources []planSource      `json:"sources"`
}

type planSource struct {
	Name    string `json:"name"`
	Samples int    `json:"samples"`
}

type partID struct{ source, part int }

func (p partID) file(out string) string {
	return filepath.Join(out, partsFolder, fmt.Sprintf("%03d-%07d.jsonl", p.source, p.part))
}

// parts yields all parts in order.
func (p *plan) parts() iter.Seq[partID] {
	return func(yield func(partID) bool) {
		for s, source := range p.Sources {
			for k := 0; k*samplesPerPart < source.Samples; k++ {
				if !yield(partID{s, k}) {
					return
				}
			}
		}
	}
}

// digest covers the parts of the configuration that the measured rows depend on, together and key by key. The keys
// rules, split, guard and report are not in it, and can be changed without measuring again.
func (c *Config) digest() (all string, keys map[string]string, err error) {
	sources := append([]SourceConfig(nil), c.Sources...)
	for i := range sources {
		s := &sources[i]
		s.Path, s.Pictures = c.relative(s.Path), c.relative(s.Pictures)
		s.Split = "" // only the merge looks at it
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

// differs is nil if the parts of another plan belong to this one too: the same configuration, whatever the samples.
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

// relative names a path from the output folder, as machines with different roots agree on.
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

// keepPlan writes the plan beside the parts, or compares it with the one that is there.
func keepPlan(out string, p *plan) error {
	path := filepath.Join(out, partsFolder, planFile)
	raw, err := json.Marshal(p)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	lock, err := filelock.Take(filepath.Join(filepath.Dir(path), ".plan.lock")) // or two find none, and both write one
	if err != nil {
		return err
	}
	defer lock.Close()
	have, err := os.ReadFile(path)
	switch {
	case err == nil && string(have) == string(raw):
		return nil
	case err == nil:
		var before plan
		if json.Unmarshal(have, &before) != nil {
			return &PlanError{Folder: filepath.Dir(path)}
		}
		if err := p.differs(&before, filepath.Dir(path)); err != nil {
			return err
		}
		return writeFile(path, raw) // there are more samples, or fewer: parts say themselves what they were made of
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return writeFile(path, raw)
}

// PlanError says that the parts in a folder were measured with another configuration.
type PlanError struct {
	Folder string
	Keys   []string // that differ; none: it is not known which
}

func (e *PlanError) Error() string {
	what := ""
	if len(e.Keys) > 0 {
		what = " (" + strings.Join(e.Keys, ", ") + ")"
	}
	return e.Folder + ": was measured with another configuration" + what +
		": take another out, or remove the folder to measure anew"
}

func writeFile(path string, raw []byte) error {
	return atomicfile.Write(path, func(w io.Writer) error {
		_, err := w.Write(raw)
		return err
	})
}

// entry is one line of a part: a row, or what is said instead of one.
type entry struct {
	source int // number of its source, as its part says

	Of     string  `json:"of,omitempty"` // of the first line, which says nothing else: what the part was made of
	Sample int     `json:"sample"`       // number in its source, from 0
	Row    *row    `json:"row,omitempty"`
	Bad    *bad    `json:"bad,omitempty"`  // a sample, or one of its pictures
	Left   string  `json:"left,omitempty"` // why a whole sample was left out on purpose
	Prefer *prefer `json:"prefer,omitempty"`
}

// row is a row of the label table before the rules.
type row struct {
	ID          string          `json:"id"`
	Session     string          `json:"session,omitempty"`
	Split       string          `json:"split,omitempty"`
	Kind        heuristics.Kind `json:"kind"`
	Editor      string          `json:"editor,omitempty"`
	Source      picture         `json:"source"`
	Edit        picture         `json:"edit"`
	Target      *picture        `json:"target,omitempty"`
	Instruction string          `json:"instruction"`
	Given       *float64        `json:"given,omitempty"`
	By          string          `json:"by,omitempty"` // the profile of similarities that came with the data

	ClipD heuristics.Similarity `json:"clip_d,omitzero"`
	ClipI heuristics.Similarity `json:"clip_i,omitzero"`
	DinoI heuristics.Similarity `json:"dino_i,omitzero"`

	Chain string  `json:"chain,omitempty"` // of a chain: why it gets its label
	Label float64 `json:"label,omitempty"` // of a chain
}

// group is the same for all edits of one source by one instruction.
func (r *row) group() string {
	sum := sha256.Sum256([]byte(r.Source.Pixels + "\x00" + r.Instruction))
	return hex.EncodeToString(sum[:8])
}

// picture is where a picture lies and what it looks like.
type picture struct {
	Path      string             `json:"path"`           // relative to the output folder
	Pixels    string             `json:"pixels"`         // digest of width, height and pixels
	Thumbnail nearcopy.Thumbnail `json:"look,omitempty"` // where the part first speaks of the picture
}

// pictures yields the pictures of a row.
func (r *row) pictures() iter.Seq[*picture] {
	return func(yield func(*picture) bool) {
		_ = yield(&r.Source) && (r.Target == nil || yield(r.Target)) && yield(&r.Edit)
	}
}

// thumbnailOnce leaves each thumbnail where the entries first speak of its picture.
func thumbnailOnce(entries []entry) {
	seen := map[string]bool{}
	for _, e := range entries {
		if e.Row == nil {
			continue
		}
		if e.Row.Target != nil {
			own := *e.Row.Target // it is shared by rows
			e.Row.Target = &own
		}
		for p := range e.Row.pictures() {
			if seen[p.Pixels] {
				p.Thumbnail = nil
			}
			seen[p.Pixels] = true
		}
	}
}

// bad is what cannot be used.
type bad struct {
	ID     string `json:"id"`
	Reason string `json:"reason"`
}

// prefer is a vote between two rows of the same sample.
type prefer struct {
	Left   string `json:"left"` // ids
	Right  string `json:"right"`
	Winner string `json:"winner"` // left, right, tie
}

// writePart writes the entries of one part, complete or not at all.
func writePart(path string, entries []entry) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	for i := range entries {
		if err := e.Encode(&entries[i]); err != nil {
			return err
		}
	}
	return writeFile(path, b.Bytes())
}

// readParts yields the entries of all parts in order, with the number of their source.
func readParts(out string, p *plan) iter.Seq2[entry, error] {
	return func(yield func(entry, error) bool) {
		for id := range p.parts() {
			more := readPart(id.file(out), func(e entry, err error) bool {
				e.source = id.source
				return yield(e, err)
			})
			if !more {
				return
			}
		}
	}
}

func readPart(path string, yield func(entry, error) bool) bool {
	f, err := os.Open(path)
	if err != nil {
		return yield(entry{}, err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return yield(entry{}, fmt.Errorf("%s: %w: remove the file to measure it anew", path, err))
		}
		if e.Of == "" && !yield(e, nil) {
			return false
		}
	}
	if err := lines.Err(); err != nil {
		return yield(entry{}, fmt.Errorf("%s: %w", path, err))
	}
	return true
}
