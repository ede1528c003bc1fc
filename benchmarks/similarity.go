package benchmarks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"

	"assay/data"
	"assay/encoders"
	"assay/heuristics"
)

// Similarities are the baselines that encoders give. A higher value means a better edit; predictions are 10 times the
// cosine.
//
//   - clip_t: of the instruction (or, where captions are given, the caption of the wanted result) and the edit
//   - clip_i, dino_i: of source and edit, since benchmarks have no target
//   - clip_d: of the change of the picture and the change of the captions
var Similarities = []string{"clip_d", "clip_t", "clip_i", "dino_i"}

// similarity scores edits by one similarity of CLIP's or DINOv2's embeddings.
type similarity struct {
	name     string
	model    *encoders.Model
	captions map[string][2]string // by item id: before, after
}

// OpenSimilarity opens an encoder, a Hugging Face checkpoint directory or an .onnx file, for the similarity of a name.
// captions is a file of JSON lines of id, source_caption and target_caption; "": none.
func OpenSimilarity(name, encoder, captions string, o encoders.Options) (*Scorer, error) {
	s := &similarity{name: name}
	var err error
	if captions != "" {
		if s.captions, err = readCaptions(captions); err != nil {
			return nil, err
		}
	}
	if s.model, err = encoders.Open(encoder, o); err != nil {
		return nil, err
	}
	if (name == "clip_t" || name == "clip_d") && !s.model.HasTexts() {
		return nil, errors.Join(fmt.Errorf("%s has no text encoder: %s needs one", encoder, name), s.model.Close())
	}
	scorer := NewScorer(s, s.model.Close)
	scorer.Name = name
	scorer.Fingerprint = name + " " + s.model.Fingerprint()
	scorer.Settings = "10 times the cosine of embeddings"
	return scorer, nil
}

func readCaptions(path string) (map[string][2]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	out := map[string][2]string{}
	d := json.NewDecoder(f)
	for line := 1; ; line++ {
		var row struct {
			ID     string `json:"id"`
			Before string `json:"source_caption"`
			After  string `json:"target_caption"`
		}
		if err := d.Decode(&row); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil || row.ID == "" {
			return nil, fmt.Errorf("%s: entry %d: id, source_caption and target_caption are wanted (%v)", path, line, err)
		}
		out[row.ID] = [2]string{row.Before, row.After}
	}
}

// Prepare implements scoring.Scorer: the encoder takes pictures as they are.
func (s *similarity) Prepare(e Edit) (Edit, error) { return e, nil }

// Score implements scoring.Scorer.
func (s *similarity) Score(ctx context.Context, edits []Edit) ([]float64, error) {
	var pictures []*data.Picture
	for _, e := range edits {
		pictures = append(pictures, e.Source, e.Edit)
	}
	images, err := s.model.Images(ctx, pictures)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(edits))
	for i, e := range edits {
		v, err := s.of(ctx, e.Item, images[2*i], images[2*i+1])
		if err != nil {
			return nil, fmt.Errorf("%v: %w", e.Item.Key, err)
		}
		scores[i] = 10 * v
	}
	return scores, nil
}

// of is the similarity of one item.
func (s *similarity) of(ctx context.Context, it Item, source, edit []float32) (float64, error) {
	if s.name == "clip_i" || s.name == "dino_i" {
		return heuristics.Cosine(source, edit), nil
	}
	caption, known := s.captions[it.ID]
	texts := []string{it.Instruction}
	if known {
		texts = caption[:]
	} else if s.name == "clip_d" {
		return 0, fmt.Errorf("no captions for id %q", it.ID)
	}
	text, err := s.model.Texts(ctx, texts)
	if err != nil {
		return 0, err
	}
	if s.name == "clip_t" {
		return heuristics.Cosine(edit, text[len(text)-1]), nil
	}
	return heuristics.ClipDirection(source, edit, text[0], text[1]), nil
}
