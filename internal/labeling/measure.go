package labeling

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"

	"assay/data/readers"
	"assay/encoders"
	"assay/heuristics"
	"assay/internal/table"
	"assay/internal/tokens"
)

// Measure measures the parts of the shard o.Shard (the zero Ref: all parts) that are missing or whose inputs have
// changed: an instruction, a caption, the content of a picture, an encoder's weights. It opens the encoders if there
// is anything to do; warn is called with problems of their store. o.Progress counts samples. If ctx ends, the parts
// measured so far stay and the error is a *table.InterruptedError; the next call resumes.
func (j *Job) Measure(ctx context.Context, o table.Options, warn func(text string)) error {
	files, err := j.partFiles(ctx, o.Shard)
	if err != nil || files.samples == files.total {
		return err
	}
	e, closeEncoders, err := j.open(j.Config.Encoders, warn)
	if err != nil {
		return err
	}
	m := &measurer{job: j, encoders: e, workers: j.Config.Workers, pools: map[int][]foreignInstruction{}}
	m.workers = cmp.Or(m.workers, runtime.GOMAXPROCS(0))
	work := &table.Job[inputs, []row]{
		Rows: len(files.parts),
		Skip: files.skip,
		Read: func(i int) (inputs, error) {
			return j.inputs(ctx, files.parts[i])
		},
		Content: func(in inputs, err error) (string, error) { return in.of, nil },
		Work: func(ctx context.Context, tasks []table.Task[inputs]) ([][]row, []error, error) {
			rows, err := m.part(ctx, &tasks[0].Row)
			return [][]row{rows}, []error{nil}, err
		},
	}
	if o.Progress != nil {
		work.Progress = func(int, int) { o.Progress(files.samples, files.total) }
	}
	err = work.Run(ctx, files, 0, work.Rows)
	if e := new(table.InterruptedError); errors.As(err, &e) {
		e.Done, e.Rows, e.Journal = files.samples, files.total, j.Config.Out
	}
	return cmp.Or(err, closeEncoders())
}

// measurer turns samples into rows with similarities.
type measurer struct {
	job      *Job
	encoders models
	workers  int
	pools    map[int][]foreignInstruction // by data set, drawn so far
}

// part measures the samples of one part. Errors of samples become rows; the returned error is never a sample's.
func (m *measurer) part(ctx context.Context, in *inputs) ([]row, error) {
	load, err := m.newLoader(ctx, in)
	if err != nil {
		return nil, err
	}
	p := in.part
	samples := make([]*readers.Sample, p.samples)
	rows := make([][]row, p.samples)
	for i := range samples {
		if ctx.Err() != nil {
			break
		}
		var err error
		if samples[i], err = m.begin(p.source, p.first+i, load); err != nil {
			rows[i] = []row{m.failed(p.source, p.first+i, samples[i], err)}
			samples[i] = nil
		}
	}
	if err := load.wait(ctx); err != nil {
		return nil, err
	}
	texts, err := m.texts(ctx, samples)
	if err != nil {
		return nil, err
	}
	pool, err := m.pool(ctx, p.source)
	if err != nil {
		return nil, err
	}
	var out []row
	for i, s := range samples {
		if s != nil {
			if rows[i], err = m.rows(p.source, p.first+i, s, load, texts); err != nil {
				rows[i] = []row{m.failed(p.source, p.first+i, s, err)}
			} else if s.Chain == nil {
				rows[i] = append(rows[i], m.foreign(p.source, rows[i], s, out, pool)...)
			}
		}
		out = append(out, rows[i]...)
	}
	thumbnailOnce(out)
	return out, nil
}

// begin reads a sample and starts to load its pictures. In the returned sample they are replaced by their names in
// load.
func (m *measurer) begin(source, i int, load *loader) (*readers.Sample, error) {
	r := m.job.readers[source]
	s, err := r.Read(i)
	if err != nil {
		return nil, err
	}
	if s.Chain != nil {
		return s, m.beginChain(source, i, s, load)
	}
	if s.Source.IsZero() {
		return nil, errors.New("no source picture")
	}
	if _, err := captioned(s); err != nil && m.encoders.Clip != nil {
		return s, err
	}
	s.Source = load.add(s.Source, true)
	if !s.Target.IsZero() {
		s.Target = load.add(s.Target, true)
	}
	for k := range s.Outputs {
		o := &s.Outputs[k]
		o.Picture = load.add(o.Picture, m.job.Config.embeds(o))
	}
	return s, nil
}

// beginChain appends the pictures of the foreign turns, in their order, to the pictures of the chain.
func (m *measurer) beginChain(source, i int, s *readers.Sample, load *loader) error {
	n := len(s.Chain.Pictures)
	if n < 2 || len(s.Chain.Instructions) != n-1 {
		return fmt.Errorf("a chain of %d pictures with %d instructions", n, len(s.Chain.Instructions))
	}
	if _, err := m.job.Config.turns(source, s, n); err != nil {
		return err
	}
	all := append(slices.Clone(s.Chain.Pictures), m.job.Config.foreignPictures(source, i, s, m.job.readers[source])...)
	for k, p := range all {
		if k < n || !p.IsZero() {
			all[k] = load.add(p, false)
		}
	}
	s.Chain.Pictures = all
	return nil
}

// failed returns the line of a sample that has no rows.
func (m *measurer) failed(source, i int, s *readers.Sample, err error) row {
	var left readers.Left
	if errors.As(err, &left) {
		return row{Sample: i, Left: string(left)}
	}
	id := fmt.Sprint(i)
	if s != nil {
		id = s.ID
	}
	return row{Sample: i, ID: m.job.Config.Sources[source].Name + "/" + id, Bad: err.Error()}
}

// captioned reports whether a sample has both captions, and whether an encoder can read them.
func captioned(s *readers.Sample) (bool, error) {
	if s.SourceCaption == "" || s.TargetCaption == "" {
		return false, nil
	}
	return true, cmp.Or(tokens.Check("source_caption", s.SourceCaption), tokens.Check("target_caption", s.TargetCaption))
}

// texts embeds the captions of samples that have both.
func (m *measurer) texts(ctx context.Context, samples []*readers.Sample) (map[string][]float32, error) {
	if m.encoders.Clip == nil {
		return nil, nil
	}
	found := map[string][]float32{}
	for _, s := range samples {
		if s == nil {
			continue
		}
		if both, err := captioned(s); both && err == nil {
			found[s.SourceCaption], found[s.TargetCaption] = nil, nil
		}
	}
	list := slices.Sorted(maps.Keys(found))
	if len(list) == 0 {
		return found, nil
	}
	vectors, err := m.encoders.Clip.Texts(ctx, list)
	if errors.Is(err, encoders.ErrNoTexts) { // no text tower, so there is no CLIP-D
		return nil, nil
	}
	if err == nil && len(vectors) != len(list) {
		err = fmt.Errorf("an encoder returned %d vectors for %d texts", len(vectors), len(list))
	}
	for i := 0; err == nil && i < len(list); i++ {
		found[list[i]] = vectors[i]
		err = finite(vectors[i], fmt.Sprintf("%.40q", list[i]))
	}
	if err != nil {
		return nil, err
	}
	return found, nil
}

// rows returns the rows of a sample whose pictures are loaded: the source and the target as edits, the editors'
// outputs, and which of two is preferred. The error concerns the full sample.
func (m *measurer) rows(
	source, i int, s *readers.Sample, load *loader, texts map[string][]float32,
) (out []row, err error) {
	id := m.job.Config.Sources[source].Name + "/" + s.ID
	if s.Chain != nil {
		return m.chainRows(source, i, id, s, load), nil
	}
	base := row{Sample: i, Session: s.Session, Split: s.Split, Source: load.of(s.Source), Target: load.of(s.Target),
		Instruction: s.Instruction}
	switch {
	case base.Source.err != nil:
		return nil, fmt.Errorf("source: %w", base.Source.err)
	case base.Target != nil && base.Target.err != nil:
		return nil, fmt.Errorf("target: %w", base.Target.err)
	}
	add := func(r row, name string, edit *picture) *row {
		r.ID, r.Edit = id+"/"+name, edit
		m.similarities(&r, s, texts)
		out = append(out, r)
		return &out[len(out)-1]
	}
	r := base
	r.Kind = heuristics.Source
	add(r, "source", base.Source)
	if base.Target != nil {
		r.Kind = heuristics.Target
		add(r, "target", base.Target)
	}
	first := "" // id of the first output
	for k := range s.Outputs {
		o := &s.Outputs[k]
		edit, name := load.of(o.Picture), cmp.Or(o.Editor, "edit")
		if s.Preference != nil {
			name = []string{"left-", "right-"}[min(k, 1)] + name
		}
		r, err := m.output(base, o)
		if edit.err != nil {
			err = fmt.Errorf("edit: %w", edit.err)
		}
		if err != nil {
			out = append(out, row{Sample: i, ID: id + "/" + name, Bad: err.Error()})
			continue
		}
		added := add(r, name, edit)
		if k == 0 {
			first = added.ID
		} else if p := s.Preference; p != nil && first != "" && len(s.Outputs) == 2 {
			winner := map[int]string{0: "left", 1: "right"}[p.Better]
			added.Vote = &vote{first, added.ID, cmp.Or(winner, "tie")}
		}
	}
	return out, nil
}

// output returns the row of an editor's output, with the similarities that came with it if encoders.given is keep.
func (m *measurer) output(r row, o *readers.Output) (row, error) {
	if m.job.Config.Encoders.Given != "keep" {
		r.Candidate = heuristics.Candidate{Editor: o.Editor, Given: o.Given}
		return r, nil
	}
	if err := cosines(&o.Candidate); err != nil {
		return r, err
	}
	if r.Candidate = o.Candidate; o.Measured() {
		r.By = cmp.Or(measuredWith(o.Profile), unsaid)
	}
	return r, nil
}

// similarities computes the similarities that are unknown and whose inputs are available.
func (m *measurer) similarities(r *row, s *readers.Sample, texts map[string][]float32) {
	set := func(to *heuristics.Similarity, x float64) {
		if to.Unknown() {
			*to = heuristics.Measured(x)
		}
	}
	if before, after := texts[s.SourceCaption], texts[s.TargetCaption]; before != nil && after != nil &&
		r.Edit.clip != nil {
		set(&r.ClipD, m.job.Config.Encoders.ClipD.Of(r.Source.clip, r.Edit.clip, before, after))
	} else if s.SourceCaption != "" && s.SourceCaption == s.TargetCaption {
		set(&r.ClipD, math.NaN()) // in no model do equal captions have a direction
	}
	if r.Target == nil {
		return
	}
	if r.Edit.clip != nil {
		set(&r.ClipI, heuristics.Cosine(r.Edit.clip, r.Target.clip))
	}
	if r.Edit.dino != nil {
		set(&r.DinoI, heuristics.Cosine(r.Edit.dino, r.Target.dino))
	}
}

// chainRows returns the rows of a chain. The rows that need an unreadable picture are left out.
func (m *measurer) chainRows(source, i int, id string, s *readers.Sample, load *loader) (out []row) {
	n := len(s.Chain.Instructions) + 1
	pictures := make([]*picture, len(s.Chain.Pictures))
	for k, p := range s.Chain.Pictures {
		pictures[k] = load.of(p)
	}
	chain, foreign := pictures[:n], pictures[n:]
	for k, p := range chain {
		if p.err != nil {
			out = append(out, row{Sample: i, ID: fmt.Sprintf("%s/%d", id, k), Bad: "picture of a chain: " + p.err.Error()})
		}
	}
	turns, _ := m.job.Config.turns(source, s, n) // begin has reported its error
	for _, t := range turns {
		var edit *picture
		name := fmt.Sprintf("%s/%d-%d/%d", id, t.From, t.To, t.Shown)
		if t.Foreign {
			edit, foreign = foreign[0], foreign[1:]
			name = fmt.Sprintf("%s/%d-%d/foreign%d", id, t.From, t.To, t.Shown)
			if edit != nil && slices.ContainsFunc(chain, func(p *picture) bool { return p.Pixels == edit.Pixels }) {
				edit = nil // both chains have the picture, so it is not foreign
			}
		} else {
			edit = chain[t.Shown]
		}
		from, to := chain[t.From], chain[t.To]
		if edit == nil || from.err != nil || to.err != nil || edit.err != nil {
			continue
		}
		out = append(out, row{
			Sample:      i,
			ID:          name,
			Session:     s.Session,
			Split:       s.Split,
			Source:      from,
			Edit:        edit,
			Target:      to,
			Instruction: m.job.Config.Chains.Join(t, s.Chain.Instructions),
			Chain:       t.Why,
			Label:       t.Label,
		})
	}
	return out
}

// cosines refuses given similarities that cannot be cosines: percentages, or another kind of column.
func cosines(c *heuristics.Candidate) error {
	const rounding = 1e-3 // float16 has steps of 2^-10 at 1
	for name, s := range c.Similarities() {
		if x, ok := s.Value(); ok && math.Abs(x) > 1+rounding {
			return fmt.Errorf("%s is %v, but a cosine is in -1..1: map another column, or measure it with encoders.given: "+
				"replace", name, x)
		}
	}
	return nil
}
