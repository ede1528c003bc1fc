package labeling

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"assay/data"
	"assay/data/readers"
	"assay/heuristics"
)

// measurer turns samples into rows with similarities.
type measurer struct {
	config   *Config
	encoders Encoders
	workers  int
	counted  func(samples, pictures int)
	pools    map[int][]foreignInstruction // of the data sets so far
}

// measuredSample is a sample whose pictures are being loaded.
type measuredSample struct {
	sample  int
	s       *readers.Sample
	source  *measuredImage
	target  *measuredImage // nil: none
	outputs []*measuredImage
	chain   []*measuredImage
	foreign []*measuredImage // of the foreign turns, in their order
	turns   []heuristics.Turn
	err     error
	left    string
}

// part measures the samples of one part. The error is none of a sample.
func (m *measurer) part(ctx context.Context, id partID, r readers.Reader, in inputs) ([]entry, error) {
	first := id.part * samplesPerPart
	load, err := newLoader(ctx, m.config.Out, in, m.encoders, m.config.Encoders.Batch, m.workers,
		func(n int) { m.counted(0, n) })
	if err != nil {
		return nil, err
	}
	var measured []*measuredSample
	for i := first; i < min(first+samplesPerPart, r.Len()); i++ {
		if ctx.Err() != nil {
			break
		}
		d := m.begin(id.source, i, r, load)
		measured = append(measured, d)
		if d.s != nil { // the encoded pictures are not needed any more once they are loaded
			d.s.Source.Bytes, d.s.Target.Bytes = nil, nil
			for i := range d.s.Outputs {
				d.s.Outputs[i].Picture.Bytes = nil
			}
			if d.s.Chain != nil {
				d.s.Chain.Pictures = nil
			}
		}
	}
	if err := load.wait(ctx); err != nil {
		return nil, err
	}
	var samples []*readers.Sample
	for _, d := range measured {
		if d.err == nil && d.s != nil {
			samples = append(samples, d.s)
		}
	}
	texts, err := m.texts(ctx, samples)
	if err != nil {
		return nil, err
	}
	pool, err := m.pool(ctx, id.source, r)
	if err != nil {
		return nil, err
	}
	var entries []entry
	for i, d := range measured {
		entries = append(entries, m.entries(id.source, d, texts)...)
		entries = append(entries, m.foreign(id.source, measured, i, pool)...)
		m.counted(1, 0)
	}
	thumbnailOnce(entries)
	return entries, nil
}

// begin reads a sample and starts to load its pictures.
func (m *measurer) begin(source, i int, r readers.Reader, load *loader) *measuredSample {
	d := &measuredSample{sample: i}
	s, err := r.Read(i)
	var left readers.Left
	if errors.As(err, &left) {
		d.left = string(left)
		return d
	} else if err != nil {
		d.err = err
		return d
	}
	if s.Chain != nil {
		d.err = m.beginChain(d, source, s, r, load)
		d.s = s
		return d
	}
	if s.Source.IsZero() {
		d.err = errors.New("no source picture")
		return d
	}
	d.s, d.source = s, load.add(s.Source, true)
	if !s.Target.IsZero() {
		d.target = load.add(s.Target, true)
	}
	for _, o := range s.Outputs {
		d.outputs = append(d.outputs, load.add(o.Picture, m.config.embeds(&o)))
	}
	return d
}

func (m *measurer) beginChain(d *measuredSample, source int, s *readers.Sample, r readers.Reader, load *loader) error {
	n := len(s.Chain.Pictures)
	if n < 2 || len(s.Chain.Instructions) != n-1 {
		return fmt.Errorf("a chain of %d pictures with %d instructions", n, len(s.Chain.Instructions))
	}
	var err error
	name := fmt.Sprintf("%s/%s", m.config.Sources[source].Name, s.ID)
	if d.turns, err = m.config.Chains.Turns(m.config.Seed, name, n); err != nil {
		return err
	}
	for _, p := range s.Chain.Pictures {
		d.chain = append(d.chain, load.add(p, false))
	}
	for _, p := range m.config.foreignPictures(source, d.sample, s, r) {
		if p == nil {
			d.foreign = append(d.foreign, nil)
			continue
		}
		d.foreign = append(d.foreign, load.add(*p, false))
	}
	return nil
}

// foreignPicture draws a picture of another chain of the data set, nil if a few tries find none.
func foreignPicture(rng *rand.Rand, r readers.Reader, own int, session string) *data.Image {
	for range 16 {
		i := rng.IntN(r.Len())
		if i == own {
			continue
		}
		s, err := r.Read(i)
		if err != nil || s.Chain == nil || s.Session == session && session != "" || len(s.Chain.Pictures) == 0 {
			continue
		}
		return &s.Chain.Pictures[rng.IntN(len(s.Chain.Pictures))]
	}
	return nil
}

// texts embeds the captions of samples that have both.
func (m *measurer) texts(ctx context.Context, samples []*readers.Sample) (map[string][]float32, error) {
	if m.encoders.Clip == nil {
		return nil, nil
	}
	found := map[string][]float32{}
	for _, s := range samples {
		if s.SourceCaption != "" && s.TargetCaption != "" {
			found[s.SourceCaption], found[s.TargetCaption] = nil, nil
		}
	}
	var list []string
	for t := range found {
		list = append(list, t)
	}
	slices.Sort(list)
	if len(list) == 0 {
		return found, nil
	}
	vectors, err := m.encoders.Clip.Texts(ctx, list)
	if err == nil && len(vectors) != len(list) {
		err = fmt.Errorf("an encoder gave %d vectors for %d texts", len(vectors), len(list))
	}
	for i := 0; err == nil && i < len(list); i++ {
		if vectors[i] != nil { // an encoder of pictures alone has none
			err = finite(vectors[i], fmt.Sprintf("%.40q", list[i]))
		}
	}
	if err != nil {
		return nil, err
	}
	for i, t := range list {
		found[t] = vectors[i]
	}
	return found, nil
}

// entries writes down what became of a sample.
func (m *measurer) entries(source int, d *measuredSample, texts map[string][]float32) []entry {
	id := fmt.Sprintf("%s/%d", m.config.Sources[source].Name, d.sample)
	if d.s != nil {
		id = fmt.Sprintf("%s/%s", m.config.Sources[source].Name, d.s.ID)
	}
	is := func(err error, what string) []entry {
		return []entry{{Sample: d.sample, Bad: &bad{id, what + err.Error()}}}
	}
	switch {
	case d.left != "":
		return []entry{{Sample: d.sample, Left: d.left}}
	case d.err != nil:
		return is(d.err, "")
	case d.chain != nil:
		return m.chainEntries(id, d)
	case d.source.err != nil:
		return is(d.source.err, "source: ")
	case d.target != nil && d.target.err != nil:
		return is(d.target.err, "target: ")
	}
	s := d.s
	base := row{Session: s.Session, Split: s.Split, Source: d.source.picture, Instruction: s.Instruction}
	if d.target != nil {
		base.Target = &d.target.picture
	}
	return m.sampleEntries(id, base, d, texts)
}

// sampleEntries are a sample's rows: the source and the target as edits, the editors' outputs, and which is preferred.
func (m *measurer) sampleEntries(id string, base row, d *measuredSample, texts map[string][]float32) (out []entry) {
	s := d.s
	add := func(r row, name string, edit *measuredImage) {
		r.ID, r.Edit = id+"/"+name, edit.picture
		m.similarities(&r, d, edit, texts)
		out = append(out, entry{Sample: d.sample, Row: &r})
	}
	r := base
	r.Kind = heuristics.Source
	add(r, "source", d.source)
	if d.target != nil {
		r.Kind = heuristics.Target
		add(r, "target", d.target)
	}
	ids := make([]string, len(s.Outputs)) // "" if they are bad
	for i, o := range s.Outputs {
		edit, name := d.outputs[i], orElse(o.Editor, "edit")
		if s.Preference != nil {
			name = []string{"left-", "right-"}[min(i, 1)] + name
		}
		r, err := m.output(base, &o)
		if edit.err != nil {
			err = fmt.Errorf("edit: %w", edit.err)
		}
		if err != nil {
			out = append(out, entry{Sample: d.sample, Bad: &bad{id + "/" + name, err.Error()}})
			continue
		}
		add(r, name, edit)
		ids[i] = id + "/" + name
	}
	if p := s.Preference; p != nil && len(ids) == 2 && ids[0] != "" && ids[1] != "" {
		winner := map[int]string{0: "left", 1: "right"}[p.Better]
		out = append(out, entry{Sample: d.sample, Prefer: &prefer{ids[0], ids[1], orElse(winner, "tie")}})
	}
	return out
}

// output is the row of an editor's output, with the similarities that came with it if they are kept.
func (m *measurer) output(r row, o *readers.Output) (row, error) {
	r.Kind, r.Editor, r.Given = heuristics.Output, o.Editor, o.Label
	if m.config.Encoders.Given != "keep" {
		return r, nil
	}
	if err := cosines(o); err != nil {
		return r, err
	}
	r.ClipD, r.ClipI, r.DinoI = o.ClipD, o.ClipI, o.DinoI
	if !o.ClipD.Unknown() || !o.ClipI.Unknown() || !o.DinoI.Unknown() {
		r.By = orElse(measuredWith(o.Profile), unsaid)
	}
	return r, nil
}

// similarities measures what is not known yet and has all its ingredients.
func (m *measurer) similarities(r *row, d *measuredSample, edit *measuredImage, texts map[string][]float32) {
	set := func(to *heuristics.Similarity, x float64) {
		if to.Unknown() {
			*to = heuristics.Measured(x)
		}
	}
	if before, after := texts[d.s.SourceCaption], texts[d.s.TargetCaption]; before != nil && after != nil &&
		edit.clip != nil {
		set(&r.ClipD, m.config.Encoders.ClipD.Of(d.source.clip, edit.clip, before, after))
	} else if d.s.SourceCaption != "" && d.s.SourceCaption == d.s.TargetCaption {
		set(&r.ClipD, math.NaN()) // of no model equal captions have a direction
	}
	if d.target == nil {
		return
	}
	if edit.clip != nil {
		set(&r.ClipI, heuristics.Cosine(edit.clip, d.target.clip))
	}
	if edit.dino != nil {
		set(&r.DinoI, heuristics.Cosine(edit.dino, d.target.dino))
	}
}

// chainEntries are the rows of a chain. A picture that cannot be read costs the rows that need it.
func (m *measurer) chainEntries(id string, d *measuredSample) []entry {
	var out []entry
	for k, s := range d.chain {
		if s.err != nil {
			out = append(out, entry{Sample: d.sample, Bad: &bad{fmt.Sprintf("%s/%d", id, k), "picture of a chain: " +
				s.err.Error()}})
		}
	}
	foreign := d.foreign
	for _, t := range d.turns {
		var edit *measuredImage
		name := fmt.Sprintf("%s/%d-%d/%d", id, t.From, t.To, t.Shown)
		if t.Foreign {
			edit, foreign = foreign[0], foreign[1:]
			name = fmt.Sprintf("%s/%d-%d/foreign%d", id, t.From, t.To, t.Shown)
			if edit != nil && slices.ContainsFunc(d.chain, func(s *measuredImage) bool { return s.Pixels == edit.Pixels }) {
				edit = nil // the two chains share a picture, so it is not foreign
			}
		} else {
			edit = d.chain[t.Shown]
		}
		from, to := d.chain[t.From], d.chain[t.To]
		if edit == nil || from.err != nil || to.err != nil || edit.err != nil {
			continue
		}
		out = append(out, entry{Sample: d.sample, Row: &row{
			ID:      name,
			Session: d.s.Session,
			Split:   d.s.Split,
			Source:  from.picture,
			Edit:    edit.picture,
			Target:  &to.picture,
			Instruction: m.config.Chains.Join(t,
				d.s.Chain.Instructions),
			Chain: t.Why,
			Label: t.Label,
		}})
	}
	return out
}

// cosines refuses given similarities that cannot be any: percentages, or a column of something else.
func cosines(o *readers.Output) error {
	const rounding = 1e-3 // half floats lie on a grid of 2^-10 at 1
	for _, c := range []struct {
		name string
		s    heuristics.Similarity
	}{{"clip_d", o.ClipD}, {"clip_i", o.ClipI}, {"dino_i", o.DinoI}} {
		if x, ok := c.s.Value(); ok && math.Abs(x) > 1+rounding {
			return fmt.Errorf("%s is %v, and a cosine lies in -1..1: map another column, or measure it with encoders.given: "+
				"replace", c.name, x)
		}
	}
	return nil
}

func orElse(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
