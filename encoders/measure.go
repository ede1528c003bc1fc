package encoders

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"assay/data"
	"assay/heuristics"
)

// Measurer computes the similarities that label rules read. Either encoder may be nil.
type Measurer struct{ CLIP, DINO *Cached }

// Edit is an edit to be measured. What is zero is not known.
type Edit struct {
	Source, Edit, Target data.Image
	Before, After        string // captions of the source and of the target
}

// Similarities of an edit; nil where an ingredient is missing or the number is undefined (equal captions have no direction).
type Similarities struct {
	ClipD *float64 // direction: source to edit, Before to After
	ClipI *float64 // edit and target
	DinoI *float64 // edit and target
	ClipT *float64 // edit and After
	// Problems are the pictures and captions that could not be read, each named.
	Problems []error
}

// Measure computes the similarities of some edits; folder is where relative paths of pictures start. Each distinct picture
// and caption is encoded once, so a few hundred edits at a time are better than one.
func (m *Measurer) Measure(ctx context.Context, folder string, edits []Edit) ([]Similarities, error) {
	out := make([]Similarities, len(edits))
	if m.CLIP != nil {
		if err := measureCLIP(ctx, m.CLIP, folder, edits, out); err != nil {
			return nil, err
		}
	}
	if m.DINO != nil {
		if err := measureDINO(ctx, m.DINO, folder, edits, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func measureCLIP(ctx context.Context, c *Cached, folder string, edits []Edit, out []Similarities) error {
	texts := texts{}
	var pictures pictures
	for i, e := range edits {
		directed := e.Before != "" && e.After != "" && c.HasTexts()
		pictures.add(i, "source", e.Source, directed)
		pictures.add(i, "edit", e.Edit, directed || !e.Target.IsZero() || e.After != "" && c.HasTexts())
		pictures.add(i, "target", e.Target, true)
		if c.HasTexts() {
			texts.add(e.Before, directed)
			texts.add(e.After, true)
		}
	}
	image, err := pictures.embed(ctx, c, folder, out)
	if err != nil {
		return err
	}
	text, err := texts.embed(ctx, c)
	if err != nil {
		return err
	}
	for i, e := range edits {
		source, edit, target := image(i, "source"), image(i, "edit"), image(i, "target")
		before, after := text(e.Before, &out[i]), text(e.After, &out[i])
		out[i].ClipI = known(heuristics.Cosine, edit, target)
		out[i].ClipT = known(heuristics.Cosine, edit, after)
		if source != nil && edit != nil && before != nil && after != nil {
			out[i].ClipD = finite(heuristics.ClipDirection(source, edit, before, after))
		}
	}
	return nil
}

func measureDINO(ctx context.Context, c *Cached, folder string, edits []Edit, out []Similarities) error {
	var pictures pictures
	for i, e := range edits {
		pictures.add(i, "edit", e.Edit, !e.Target.IsZero())
		pictures.add(i, "target", e.Target, true)
	}
	image, err := pictures.embed(ctx, c, folder, out)
	if err != nil {
		return err
	}
	for i := range edits {
		out[i].DinoI = known(heuristics.Cosine, image(i, "edit"), image(i, "target"))
	}
	return nil
}

func known(f func(a, b []float32) float64, a, b []float32) *float64 {
	if a == nil || b == nil {
		return nil
	}
	return finite(f(a, b))
}

func finite(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// role is what a picture is to an edit.
type role struct {
	edit int
	name string
}

// pictures collects what must be encoded.
type pictures struct {
	images []data.Image
	roles  []role
}

func (p *pictures) add(edit int, name string, m data.Image, wanted bool) {
	if wanted && !m.IsZero() {
		p.images, p.roles = append(p.images, m), append(p.roles, role{edit, name})
	}
}

// embed returns a function that gives the embedding of an edit's picture, nil if there is none, and notes problems.
func (p *pictures) embed(ctx context.Context, c *Cached, folder string, out []Similarities) (func(int, string) []float32, error) {
	got, problems, err := c.Files(ctx, folder, p.images)
	if err != nil {
		return nil, err
	}
	at := map[role][]float32{}
	for i, r := range p.roles {
		at[r] = got[i]
		if problems[i] != nil {
			out[r.edit].note(fmt.Errorf("%s: %w", r.name, problems[i]))
		}
	}
	return func(edit int, name string) []float32 { return at[role{edit, name}] }, nil
}

// note adds a problem once: both encoders meet the same broken picture.
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

// embed returns a function that gives a caption's embedding, nil if there is none, and notes problems.
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
