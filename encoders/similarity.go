package encoders

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"assay/data"
	"assay/edit"
	"assay/heuristics"
)

// SimilarityKind is an embedding similarity that can judge edits: higher is better.
type SimilarityKind struct {
	Name       string
	Definition string // of the cosine
	DINO       bool   // of DINOv2's embeddings, not of CLIP's
	Target     bool   // needs the target
	Captions   int    // number of captions needed: 1 is the target's
}

// SimilarityKinds are all similarities. The papers' CLIP-I and DINO-I compare with the target, CLIP-T with its
// caption. The similarities to the source and to the instruction have separate names.
var SimilarityKinds = []SimilarityKind{
	{Name: "clip_d", Definition: "change of the picture, change of the captions (embeddings of length 1)", Captions: 2},
	{Name: "clip_d_raw", Definition: "change of the picture, change of the captions (embeddings as they are, as in ADIEE)",
		Captions: 2},
	{Name: "clip_t", Definition: "edit, caption of the wanted result", Captions: 1},
	{Name: "clip_t_instruction", Definition: "edit, instruction"},
	{Name: "clip_i", Definition: "edit, wanted result", Target: true},
	{Name: "clip_i_source", Definition: "edit, source"},
	{Name: "dino_i", Definition: "edit, wanted result", DINO: true, Target: true},
	{Name: "dino_i_source", Definition: "edit, source", DINO: true},
}

// SimilarityNames are the names of SimilarityKinds.
func SimilarityNames() (names []string) {
	for _, s := range SimilarityKinds {
		names = append(names, s.Name)
	}
	return names
}

// FindSimilarity returns the similarity with a name.
func FindSimilarity(name string) (kind SimilarityKind, ok bool) {
	for _, s := range SimilarityKinds {
		if s.Name == name {
			return s, true
		}
	}
	return kind, false
}

// Similarity judges edits by a similarity: its scores are 10 times the cosine, without bounds.
type Similarity struct {
	SimilarityKind
	model   *Model
	encoder string
}

var _ edit.Judge = (*Similarity)(nil)

// OpenSimilarity opens an encoder, a Hugging Face checkpoint directory or an .onnx file, for a similarity.
func OpenSimilarity(kind SimilarityKind, encoder string, o Options) (*Similarity, error) {
	if o.Kind = CLIP; kind.DINO {
		o.Kind = DINO
	}
	m, err := Open(encoder, o)
	if err != nil {
		return nil, err
	}
	s := &Similarity{kind, m, filepath.Base(filepath.Clean(encoder))}
	if len(s.texts()) > 0 && !m.HasTexts() {
		return nil, errors.Join(fmt.Errorf("%s has no text encoder: %s needs one", encoder, kind.Name), m.Close())
	}
	return s, nil
}

// texts are the roles of the texts that are compared.
func (s *Similarity) texts() []string {
	switch {
	case s.Captions > 0:
		return data.CaptionColumns[2-s.Captions:]
	case s.Name == "clip_t_instruction":
		return []string{"instruction"}
	}
	return nil
}

// Info implements edit.Judge.
func (s *Similarity) Info() edit.Info {
	info := edit.Info{Name: fmt.Sprintf("%s: cosine of %s; %s", s.Name, s.Definition, s.encoder), Range: edit.NoRange(),
		Texts: s.texts()}
	if info.Sources = 1; s.Target {
		info.Sources, info.Pictures = 0, []string{"target"}
	}
	return info
}

// Fingerprint implements edit.Judge.
func (s *Similarity) Fingerprint() (string, error) { return s.Name + " " + s.model.Fingerprint(), nil }

// Close implements edit.Judge.
func (s *Similarity) Close() error { return s.model.Close() }

// other is the role of the picture that the output is compared with, or was edited from.
func (s *Similarity) other() string {
	if s.Target {
		return "target"
	}
	return "source"
}

// Prepare implements edit.Judge. The encoder takes pictures as they are.
func (s *Similarity) Prepare(e *edit.Edit) (edit.Inputs, error) {
	return edit.View(e, s.other(), "edit")
}

// Score implements edit.Judge.
func (s *Similarity) Score(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, []error, error) {
	return edit.Each(ctx, inputs, s.scores)
}

func (s *Similarity) scores(ctx context.Context, inputs []edit.Inputs) ([]edit.Score, error) {
	var pictures []*data.Picture
	for _, in := range inputs {
		v := in.(*edit.Views)
		pictures = append(pictures, v.ByRole[s.other()], v.ByRole["edit"])
	}
	images, err := s.model.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	scores := make([]edit.Score, len(inputs))
	for i, in := range inputs {
		cosine, err := s.cosine(ctx, in.(*edit.Views).Edit, images[2*i], images[2*i+1])
		if err != nil {
			return nil, err
		}
		scores[i] = edit.Score{Value: 10 * cosine, Score01: 10 * cosine, Unbounded: true}
	}
	return scores, nil
}

// cosine computes the similarity of an edit from the embeddings of the other picture and the output.
func (s *Similarity) cosine(ctx context.Context, e *edit.Edit, other, output []float32) (float64, error) {
	var texts []string
	for _, role := range s.texts() {
		texts = append(texts, e.Text(role))
	}
	if len(texts) == 0 {
		return heuristics.Cosine(other, output), nil
	}
	text, err := s.model.Texts(ctx, texts)
	switch {
	case err != nil:
		return 0, err
	case s.Name == "clip_d":
		return heuristics.DirectionUnit.Of(other, output, text[0], text[1]), nil
	case s.Name == "clip_d_raw":
		return heuristics.DirectionRaw.Of(other, output, text[0], text[1]), nil
	}
	return heuristics.Cosine(output, text[0]), nil
}
