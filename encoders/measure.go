package encoders

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/data"
	"assay/edit"
	"assay/heuristics"
)

// Measurer computes the similarities that label rules use. Either encoder may be nil.
type Measurer struct{ CLIP, DINO *Cached }

// Numbers are the similarities of an edit; nil if an input is missing or the number is undefined.
type Numbers struct {
	ClipD *float64 `json:"clip_d,omitempty"` // direction: source to edit, the source's caption to the target's
	ClipI *float64 `json:"clip_i,omitempty"` // edit and target
	DinoI *float64 `json:"dino_i,omitempty"` // edit and target
	ClipT *float64 `json:"clip_t,omitempty"` // edit and the caption of the target
	// Undefined lists the columns of numbers that are undefined although all inputs are there: clip_d of equal
	// captions, which have no direction.
	Undefined []string `json:"undefined,omitempty"`
}

// Similarities are the numbers of an edit, and an error for each of its pictures and captions that could not be read.
type Similarities struct {
	Numbers
	Problems []error
}

// Measure computes the similarities of some edits, whose pictures (roles source, edit and target, each optional) are
// [data.File] values, and whose texts are the captions source_caption and target_caption. Each distinct picture is
// decoded once for both encoders, and each distinct picture and caption is encoded once, so passing a few hundred
// edits at a time is better than one.
func (m *Measurer) Measure(ctx context.Context, edits []*edit.Edit) ([]Similarities, error) {
	out := make([]Similarities, len(edits))
	var models []*Cached
	at := map[*Cached]int{}
	for _, c := range []*Cached{m.CLIP, m.DINO} {
		if _, twice := at[c]; c != nil && !twice {
			at[c], models = len(models), append(models, c)
		}
	}
	if len(models) == 0 {
		return out, nil
	}
	p := pictures{at: map[role]int{}}
	captions := texts{}
	for i, e := range edits {
		before, after := captionsOf(e)
		target := e.Picture("target") != nil
		if c := m.CLIP; c != nil {
			directed := before != "" && after != "" && c.HasTexts()
			p.add(i, "source", e, at[c], directed)
			p.add(i, "edit", e, at[c], directed || target || after != "" && c.HasTexts())
			p.add(i, "target", e, at[c], true)
			captions.add(before, directed)
			captions.add(after, c.HasTexts())
		}
		if c := m.DINO; c != nil {
			p.add(i, "edit", e, at[c], target)
			p.add(i, "target", e, at[c], true)
		}
	}
	image, err := p.embed(ctx, models, out)
	if err != nil {
		return nil, err
	}
	if c := m.CLIP; c != nil {
		text, err := captions.embed(ctx, c)
		if err != nil {
			return nil, err
		}
		for i, e := range edits {
			before, after := captionsOf(e)
			out[i].clip(text(before, &out[i]), text(after, &out[i]),
				func(name string) []float32 { return image(at[c], i, name) })
		}
	}
	if c := m.DINO; c != nil {
		for i := range edits {
			out[i].DinoI = out[i].cosine("dino_i", image(at[c], i, "edit"), image(at[c], i, "target"))
		}
	}
	return out, nil
}

// captionsOf returns the captions of source and target.
func captionsOf(e *edit.Edit) (before, after string) {
	return e.Texts[data.CaptionColumns[0]], e.Texts[data.CaptionColumns[1]]
}

// clip computes the similarities based on CLIP embeddings.
func (s *Similarities) clip(before, after []float32, image func(name string) []float32) {
	source, edit, target := image("source"), image("edit"), image("target")
	s.ClipI = s.cosine("clip_i", edit, target)
	s.ClipT = s.cosine("clip_t", edit, after)
	if source != nil && edit != nil && before != nil && after != nil {
		s.ClipD = s.finite("clip_d", heuristics.ClipDirection(source, edit, before, after))
	}
}

// cosine is nil if an embedding is missing.
func (s *Similarities) cosine(name string, a, b []float32) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return s.finite(name, heuristics.Cosine(a, b))
}

// finite returns nil for a number that is not finite, and records it as undefined.
func (s *Similarities) finite(name string, v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		s.Undefined = append(s.Undefined, name)
		return nil
	}
	return &v
}

// role is the role of a picture in an edit.
type role struct {
	edit int
	name string
}

// pictures collects the pictures to encode, and by which models.
type pictures struct {
	images []data.File
	roles  []role
	by     []map[int]bool // indices of models
	at     map[role]int
}

func (p *pictures) add(n int, name string, e *edit.Edit, model int, wanted bool) {
	file, there := e.Picture(name).(data.File)
	if !wanted || !there {
		return
	}
	i, ok := p.at[role{n, name}]
	if !ok {
		i = len(p.roles)
		p.at[role{n, name}] = i
		p.images, p.roles, p.by = append(p.images, file), append(p.roles, role{n, name}), append(p.by, map[int]bool{})
	}
	p.by[i][model] = true
}

// embed returns a function that returns a model's embedding of an edit's picture, nil if there is none, and records
// problems.
func (p *pictures) embed(ctx context.Context, models []*Cached, out []Similarities) (
	func(model, edit int, name string) []float32, error) {
	got, problems, err := files(ctx, models, p.images, func(k, i int) bool { return p.by[i][k] })
	if err != nil {
		return nil, err
	}
	for i, r := range p.roles {
		if problems[i] != nil {
			out[r.edit].note(fmt.Errorf("%s: %w", r.name, problems[i]))
		}
	}
	return func(model, edit int, name string) []float32 {
		i, ok := p.at[role{edit, name}]
		if !ok {
			return nil
		}
		return got[model][i]
	}, nil
}

// note adds a problem once.
func (s *Similarities) note(err error) {
	same := func(e error) bool { return e.Error() == err.Error() }
	if !slices.ContainsFunc(s.Problems, same) {
		s.Problems = append(s.Problems, err)
	}
}

// texts is a set of captions.
type texts map[string]bool

func (t texts) add(s string, wanted bool) {
	if wanted && s != "" {
		t[s] = true
	}
}

// embed returns a function that returns a caption's embedding, nil if there is none, and records problems.
func (t texts) embed(ctx context.Context, c *Cached) (func(string, *Similarities) []float32, error) {
	var list []string
	for s := range t {
		list = append(list, s)
	}
	slices.Sort(list)
	at, wrong := map[string][]float32{}, map[string]error{}
	if len(list) > 0 {
		got, problems, err := c.captions(ctx, list)
		if err != nil {
			return nil, err
		}
		for i, s := range list {
			at[s], wrong[s] = got[i], problems[i]
		}
	}
	return func(s string, out *Similarities) []float32 {
		if wrong[s] != nil {
			out.note(wrong[s])
		}
		return at[s]
	}, nil
}

// Err joins the problems.
func (s *Similarities) Err() error { return errors.Join(s.Problems...) }
