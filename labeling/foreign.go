package labeling

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"assay/data/readers"
	"assay/heuristics"
)

// poolSize is how many samples of a data set lend their instructions. They are enough for another colour or place of
// most edits, and few enough to compare each target with all of them.
const poolSize = 512

// foreignInstruction is an instruction of one sample that is asked of others' targets.
type foreignInstruction struct {
	instruction   string
	words         map[string]bool
	before, after []float32 // embeddings of its captions; nil: none, or no encoder
}

// pool draws the samples of a data set that lend their instructions, in their order there.
func (m *measurer) pool(ctx context.Context, source int, r readers.Reader) ([]foreignInstruction, error) {
	if m.config.Foreign.Instructions == 0 {
		return nil, nil
	}
	if p, ok := m.pools[source]; ok {
		return p, nil
	}
	samples, err := m.config.lenders(ctx, source, r)
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
	if m.pools == nil {
		m.pools = map[int][]foreignInstruction{}
	}
	m.pools[source] = p
	return p, nil
}

// lenders draws the samples whose instructions are asked of others' targets, without their pictures.
func (c *Config) lenders(ctx context.Context, source int, r readers.Reader) ([]*readers.Sample, error) {
	at := rand.New(rand.NewPCG(c.Seed, uint64(source))).Perm(r.Len())
	at = at[:min(len(at), 4*poolSize)]
	slices.Sort(at) // tables are quickest from the front
	var samples []*readers.Sample
	seen := map[string]bool{}
	for k, i := range at {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if len(samples)*len(at) > poolSize*k { // spread over the whole of it
			continue
		}
		s, err := r.Read(i)
		if err != nil || s.Chain != nil || s.Instruction == "" || seen[words(s.Instruction)] {
			continue
		}
		seen[words(s.Instruction)] = true
		// not its pictures
		samples = append(samples, &readers.Sample{Instruction: s.Instruction, SourceCaption: s.SourceCaption,
			TargetCaption: s.TargetCaption})
	}
	return samples, nil
}

// foreign asks instructions of other samples of the target of measured[i]: label 0. In ADIEE's data targets are always
// right and sources always wrong, so that much of a label can be told without reading the instruction. These rows look
// like any target, and only the instruction is wrong. Half of the instructions are those that share the most words with
// the right one: another attribute of the same edit. An instruction that the target fulfils all the same, or a
// rewording of the right one, is known by its CLIP-D. It is taken of source and target with the captions of the
// instruction's own sample. Where that cannot be measured, instructions are drawn.
func (m *measurer) foreign(source int, measured []*measuredSample, i int, pool []foreignInstruction) []entry {
	d := measured[i]
	if len(pool) == 0 || !d.usable() || d.target == nil || slices.ContainsFunc(measured[:i], d.sameTask) {
		return nil
	}
	rng := rand.New(rand.NewPCG(m.config.Seed, uint64(source)<<40|1<<39|uint64(d.sample)))
	own := wordSet(d.s.Instruction)
	drawn := rng.Perm(len(pool))
	near := slices.SortedStableFunc(slices.Values(drawn), func(a, b int) int {
		return cmp.Compare(alike(own, pool[b].words), alike(own, pool[a].words))
	})
	var out []entry
	taken := map[int]bool{}
	for k, list := range [][]int{near, drawn} {
		want := (m.config.Foreign.Instructions + 1 - k) / 2
		for _, j := range list {
			if want == 0 {
				break
			}
			r := row{
				Kind:        heuristics.Foreign,
				Session:     d.s.Session,
				Split:       d.s.Split,
				Source:      d.source.picture,
				Edit:        d.target.picture,
				Instruction: pool[j].instruction,
			}
			if taken[j] || words(r.Instruction) == words(d.s.Instruction) || !m.unfulfilled(&r, d, &pool[j], k == 0) {
				continue
			}
			taken[j] = true
			want--
			r.ID = fmt.Sprintf("%s/%s/foreign%d", m.config.Sources[source].Name, d.s.ID, len(taken))
			out = append(out, entry{Sample: d.sample, Row: &r})
		}
	}
	return out
}

// unfulfilled measures the row's CLIP-D. Where there is none, only instructions that were drawn are taken to be
// unfulfilled.
func (m *measurer) unfulfilled(r *row, d *measuredSample, l *foreignInstruction, near bool) bool {
	if l.before == nil || l.after == nil || d.target.clip == nil {
		return !near
	}
	v := m.config.Encoders.ClipD.Of(d.source.clip, d.target.clip, l.before, l.after)
	r.ClipD = heuristics.Measured(v)
	return v <= m.config.Foreign.ClipD // not of NaN: two captions are equal
}

// usable tells that a sample is a source with an instruction, and its pictures could be read.
func (d *measuredSample) usable() bool {
	return d.err == nil && d.left == "" && d.s != nil && d.chain == nil && d.source.err == nil &&
		(d.target == nil || d.target.err == nil)
}

// sameTask tells that a sample is about the same source and instruction: a table may have a row for every output.
func (d *measuredSample) sameTask(o *measuredSample) bool {
	return o.usable() && o.source.Pixels == d.source.Pixels && o.s.Instruction == d.s.Instruction
}

// words is an instruction without case and punctuation.
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

// alike is the Jaccard index of two sets.
func alike(a, b map[string]bool) float64 {
	n := 0
	for w := range a {
		if b[w] {
			n++
		}
	}
	return float64(n) / float64(max(1, len(a)+len(b)-n))
}
