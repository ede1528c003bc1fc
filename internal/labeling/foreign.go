package labeling

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/data"
	"assay/data/readers"
	"assay/heuristics"
)

// poolSize is the number of samples of a data set whose instructions are borrowed: enough for another colour or place
// of most edits, and few enough to compare each target with all of them.
const poolSize = 512

// foreignInstruction is an instruction of one sample that is paired with targets of others.
type foreignInstruction struct {
	instruction   string
	words         map[string]bool
	before, after []float32 // embeddings of its captions; nil: none, or no encoder
}

// pool draws the samples of a data set whose instructions are borrowed, in the order of the data set.
func (m *measurer) pool(ctx context.Context, source int) ([]foreignInstruction, error) {
	if p, ok := m.pools[source]; ok {
		return p, nil
	}
	samples, err := m.job.lenders(ctx, source)
	if err != nil {
		return nil, err
	}
	texts, err := m.texts(ctx, samples)
	if err != nil {
		return nil, err
	}
	var p []foreignInstruction
	for _, s := range samples {
		p = append(p, foreignInstruction{s.Instruction, wordSet(s.Instruction), texts[s.SourceCaption],
			texts[s.TargetCaption]})
	}
	m.pools[source] = p
	return p, nil
}

// lenders draws the samples whose instructions are paired with others' targets, without their pictures.
func (j *Job) lenders(ctx context.Context, source int) ([]*readers.Sample, error) {
	c, r := j.Config, j.readers[source]
	if known, ok := j.pools[source]; ok || c.Foreign.Instructions == 0 {
		return known, nil
	}
	at := rand.New(rand.NewPCG(c.Seed, uint64(source))).Perm(r.Len())
	at = at[:min(len(at), 4*poolSize)]
	slices.Sort(at) // tables are fastest to read in order
	var samples []*readers.Sample
	seen := map[string]bool{}
	for k, i := range at {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(samples)*len(at) > poolSize*k { // spread over the full data set
			continue
		}
		s, err := r.Read(i)
		if err != nil || s.Chain != nil || s.Instruction == "" || seen[words(s.Instruction)] {
			continue
		}
		seen[words(s.Instruction)] = true
		// without its pictures
		samples = append(samples, &readers.Sample{Instruction: s.Instruction, SourceCaption: s.SourceCaption,
			TargetCaption: s.TargetCaption})
	}
	j.pools[source] = samples
	return samples, nil
}

// foreign pairs the target of a sample with instructions of other samples: label 0. In ADIEE's data targets are
// always right and sources always wrong, so that much of a label can be predicted without reading the instruction.
// These rows look like any target, and only the instruction is wrong. Half of the instructions are the ones that
// share the most words with the right one: another attribute of the same edit. An instruction that the target fulfils
// anyway, or a rewording of the right one, is detected by CLIP-D, computed from source and target with the captions
// of the instruction's own sample. If that cannot be measured, instructions are only drawn at random. rows are the
// sample's rows, with the source's row first; before are the rows of the preceding samples in its part: a table may
// have a sample for every output, and only one of them gets foreign instructions.
func (m *measurer) foreign(source int, rows []row, s *readers.Sample, before []row, pool []foreignInstruction) []row {
	own := &rows[0]
	again := func(r row) bool {
		return r.Kind == heuristics.Source && r.Source.Pixels == own.Source.Pixels && r.Instruction == s.Instruction
	}
	if len(pool) == 0 || own.Target == nil || slices.ContainsFunc(before, again) {
		return nil
	}
	rng := rand.New(rand.NewPCG(m.job.Config.Seed, uint64(source)<<40|1<<39|uint64(own.Sample)))
	right := wordSet(s.Instruction)
	drawn := rng.Perm(len(pool))
	near := slices.SortedStableFunc(slices.Values(drawn), func(a, b int) int {
		return cmp.Compare(alike(right, pool[b].words), alike(right, pool[a].words))
	})
	var out []row
	taken := map[int]bool{}
	for k, list := range [][]int{near, drawn} {
		want := (m.job.Config.Foreign.Instructions + 1 - k) / 2
		for _, j := range list {
			if want == 0 {
				break
			}
			r := row{
				Sample:      own.Sample,
				Session:     s.Session,
				Split:       s.Split,
				Source:      own.Source,
				Edit:        own.Target,
				Instruction: pool[j].instruction,
				Candidate:   heuristics.Candidate{Kind: heuristics.Foreign},
			}
			if taken[j] || words(r.Instruction) == words(s.Instruction) || !m.unfulfilled(&r, &pool[j], k == 0) {
				continue
			}
			taken[j] = true
			want--
			r.ID = fmt.Sprintf("%s/%s/foreign%d", m.job.Config.Sources[source].Name, s.ID, len(taken))
			out = append(out, r)
		}
	}
	return out
}

// unfulfilled measures the row's CLIP-D and reports whether the instruction counts as unfulfilled. Without a CLIP-D,
// only instructions drawn at random do.
func (m *measurer) unfulfilled(r *row, l *foreignInstruction, near bool) bool {
	if l.before == nil || l.after == nil || r.Edit.clip == nil {
		return !near
	}
	v := m.job.Config.Encoders.ClipD.Of(r.Source.clip, r.Edit.clip, l.before, l.after)
	r.ClipD = heuristics.Measured(v)
	return v <= m.job.Config.Foreign.ClipD // false for NaN: the two captions are equal
}

// turns draws the turns of a chain of n pictures.
func (c *Config) turns(source int, s *readers.Sample, n int) ([]heuristics.Turn, error) {
	return c.Chains.Turns(c.Seed, c.Sources[source].Name+"/"+s.ID, n)
}

// foreignPictures draws a picture of another chain for each turn of a chain that shows one; the zero Image if a few
// tries find none.
func (c *Config) foreignPictures(source, sample int, s *readers.Sample, r readers.Reader) []data.Image {
	turns, err := c.turns(source, s, len(s.Chain.Pictures))
	if err != nil { // measuring reports it
		return nil
	}
	rng := rand.New(rand.NewPCG(c.Seed, uint64(source)<<40|uint64(sample)))
	var out []data.Image
	for _, t := range turns {
		if t.Foreign {
			out = append(out, foreignPicture(rng, r, sample, s.Session))
		}
	}
	return out
}

func foreignPicture(rng *rand.Rand, r readers.Reader, own int, session string) data.Image {
	for range 16 {
		i := rng.IntN(r.Len())
		if i == own {
			continue
		}
		s, err := r.Read(i)
		if err != nil || s.Chain == nil || s.Session == session && session != "" || len(s.Chain.Pictures) == 0 {
			continue
		}
		return s.Chain.Pictures[rng.IntN(len(s.Chain.Pictures))]
	}
	return data.Image{}
}

// words returns an instruction in lower case without punctuation.
func words(text string) string {
	return strings.Join(strings.FieldsFunc(strings.ToLower(text),
		func(r rune) bool { return strings.ContainsRune(" .,;:!?\"'\t\n", r) }), " ")
}

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for w := range strings.FieldsSeq(words(text)) {
		set[w] = true
	}
	return set
}

// alike returns the Jaccard index of two sets.
func alike(a, b map[string]bool) float64 {
	n := 0
	for w := range a {
		if b[w] {
			n++
		}
	}
	return float64(n) / float64(max(1, len(a)+len(b)-n))
}
