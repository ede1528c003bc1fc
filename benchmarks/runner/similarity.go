package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/benchmarks/protocol"
	"assay/data"
	"assay/encoders"
	"assay/heuristics"
)

// Similarity is a baseline that an encoder gives. A higher value means a better edit; predictions are 10 times the
// cosine.
type Similarity struct {
	Name       string
	Definition string // of what the cosine is
	dino       bool   // of DINOv2's embeddings, not of CLIP's
	target     bool   // needs the wanted result
	captions   int    // of how many captions it needs: 1 is the target's
}

// Similarities are the names of the baselines. The papers' CLIP-I and DINO-I compare with the wanted result, CLIP-T
// with its caption. The similarities to the source and to the instruction have names of their own.
var Similarities = similarityNames()

var similarityKinds = []Similarity{
	{Name: "clip_d", Definition: "change of the picture, change of the captions (embeddings of length 1)", captions: 2},
	{Name: "clip_d_raw", Definition: "change of the picture, change of the captions (embeddings as they are, as in ADIEE)",
		captions: 2},
	{Name: "clip_t", Definition: "edit, caption of the wanted result", captions: 1},
	{Name: "clip_t_instruction", Definition: "edit, instruction"},
	{Name: "clip_i", Definition: "edit, wanted result", target: true},
	{Name: "clip_i_source", Definition: "edit, source"},
	{Name: "dino_i", Definition: "edit, wanted result", dino: true, target: true},
	{Name: "dino_i_source", Definition: "edit, source", dino: true},
}

func similarityNames() (names []string) {
	for _, s := range similarityKinds {
		names = append(names, s.Name)
	}
	return names
}

// FindSimilarity returns the similarity of a name.
func FindSimilarity(name string) (Similarity, bool) {
	for _, s := range similarityKinds {
		if s.Name == name {
			return s, true
		}
	}
	return Similarity{}, false
}

// DINO reports whether a similarity is of DINOv2's embeddings; else it is of CLIP's.
func (s Similarity) DINO() bool { return s.dino }

// similarity scores edits by one similarity of CLIP's or DINOv2's embeddings.
type similarity struct {
	Similarity
	model *encoders.Model
}

// OpenSimilarity opens an encoder, a Hugging Face checkpoint directory or an .onnx file, for a similarity. Its name
// says encoder and definition.
func OpenSimilarity(kind Similarity, encoder string, o encoders.Options) (*Scorer, error) {
	s := &similarity{Similarity: kind}
	var err error
	if o.Kind = encoders.CLIP; kind.dino {
		o.Kind = encoders.DINO
	}
	if s.model, err = encoders.Open(encoder, o); err != nil {
		return nil, err
	}
	if strings.HasPrefix(kind.Name, "clip_t") || kind.captions > 0 {
		if !s.model.HasTexts() {
			return nil, errors.Join(fmt.Errorf("%s has no text encoder: %s needs one", encoder, kind.Name),
				s.model.Close())
		}
	}
	scorer := newScorer(s, Decode, s.model.Close)
	scorer.Name = fmt.Sprintf("%s: cosine of %s; %s", kind.Name, kind.Definition,
		filepath.Base(filepath.Clean(encoder)))
	scorer.Fingerprint = kind.Name + " " + s.model.Fingerprint()
	scorer.Settings = "10 times the cosine of embeddings"
	return scorer, nil
}

// Caption gives items the captions of a file of JSON lines of id, source_caption and target_caption ("": none), and
// says which items lack what a similarity needs.
func (s Similarity) Caption(items []protocol.Item, file string) error {
	captions := map[string][2]string{}
	if file != "" {
		var err error
		if captions, err = readCaptions(file); err != nil {
			return err
		}
	}
	var p protocol.Problems
	none := map[string]bool{}
	unknownCaptions(captions, items, file, &p)
	if s.target && !slices.ContainsFunc(items, func(it protocol.Item) bool { return !it.Target.None() }) {
		return fmt.Errorf("%s needs the picture of the wanted result, which this benchmark does not have; %s_source "+
			"compares with the source instead", s.Name, s.Name)
	}
	for i := range items {
		it := &items[i]
		if c, ok := captions[it.ID]; ok {
			it.Captions = c
		}
		lacks := func(what string) {
			if !none[it.ID] {
				none[it.ID] = true
				p.Add(it.ID, "%s needs %s", s.Name, what)
			}
		}
		switch {
		case s.captions > 1 && it.Captions[0] == "":
			lacks("--captions: JSON lines of id, source_caption and target_caption, which the data do not have")
		case s.captions > 1 && it.Captions[0] == it.Captions[1]:
			lacks("two captions that differ: it is undefined where they are equal, which have no direction")
		case s.captions > 0 && it.Captions[1] == "":
			lacks("--captions: JSON lines of id and target_caption, which the data do not have")
		case s.target && it.Target.None():
			lacks("the picture of the wanted result")
		case s.target && it.Target.Read == nil:
			if !none[it.ID] {
				none[it.ID] = true
				protocol.FilePicture(it.Target.Path, true, &p)
			}
		}
	}
	return p.Err()
}

// unknownCaptions names captions of what is no item.
func unknownCaptions(captions map[string][2]string, items []protocol.Item, file string, p *protocol.Problems) {
	known := map[string]bool{}
	for _, it := range items {
		known[it.ID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(captions)) {
		if !known[id] {
			p.Add(file, "%q is no item of the data: an id such as %q was expected", id, items[0].ID)
		}
	}
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
			return nil, fmt.Errorf("%s: entry %d: id, source_caption and target_caption are wanted (%v)", path, line,
				err)
		}
		if _, twice := out[row.ID]; twice {
			return nil, fmt.Errorf("%s: entry %d: second captions of %q", path, line, row.ID)
		}
		out[row.ID] = [2]string{row.Before, row.After}
	}
}

// similar is an edit with the pictures that a similarity needs.
type similar struct {
	Edit
	target *data.Picture
}

// Prepare implements scoring.Scorer: the encoder takes pictures as they are.
func (s *similarity) Prepare(e Edit) (similar, error) {
	out := similar{Edit: e}
	var err error
	if s.target {
		out.target, err = decodePicture(e.Item, "wanted result", e.Item.Target)
	}
	return out, err
}

// other is the picture that an edit is compared with, or changed from.
func (s *similarity) other(e similar) *data.Picture {
	if s.target {
		return e.target
	}
	return e.Source
}

// Score implements scoring.Scorer.
func (s *similarity) Score(ctx context.Context, edits []similar) ([]float64, error) {
	var pictures []*data.Picture
	for _, e := range edits {
		pictures = append(pictures, s.other(e), e.Edit.Edit)
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

// of is the similarity of one item, by the embeddings of the other picture and the edit.
func (s *similarity) of(ctx context.Context, it protocol.Item, other, edit []float32) (float64, error) {
	var texts []string
	switch {
	case s.captions == 2:
		texts = it.Captions[:]
	case s.captions == 1:
		texts = it.Captions[1:]
	case s.Name == "clip_t_instruction":
		texts = []string{it.Instruction}
	default:
		return heuristics.Cosine(other, edit), nil
	}
	text, err := s.model.Texts(ctx, texts)
	if err != nil {
		return 0, err
	}
	switch s.Name {
	case "clip_d":
		return heuristics.DirectionUnit.Of(other, edit, text[0], text[1]), nil
	case "clip_d_raw":
		return heuristics.DirectionRaw.Of(other, edit, text[0], text[1]), nil
	}
	return heuristics.Cosine(edit, text[0]), nil
}
