package reward

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net/http"

	"gorgonia.org/tensor"

	"assay/checkpoints"
	"assay/data"
	"assay/model"
)

// gradientRequest is what /v1/gradient is asked for: a single edit, edits of one source, or pairs of their own.
type gradientRequest struct {
	scoreRequest
	Edit   *encodedPicture `json:"edit"`
	Format string          `json:"format"`
}

func (g *gradientRequest) field(name string, value []byte) (err error) {
	switch name {
	case "format":
		g.Format, err = formText(name, value)
	case "edit":
		g.Edit = &encodedPicture{raw: value}
	default:
		err = g.scoreRequest.field(name, value)
	}
	return err
}

// items returns what is asked for, and whether it is a single edit, whose answer has a form of its own.
func (g *gradientRequest) items() (items []*item, single bool, err error) {
	bad := func(text string) error { return apiErrorf(http.StatusUnprocessableEntity, "bad_request", "%s", text) }
	if g.Edit != nil && len(g.Edits) > 0 {
		return nil, false, bad("edit and edits: one of them is wanted")
	}
	if g.Edit != nil {
		g.Edits = append(g.Edits, *g.Edit)
	}
	if len(g.Pairs)+len(g.Edits) == 0 {
		return nil, false, bad("edit is missing: one picture; or edits, or pairs, for several")
	}
	items, err = g.scoreRequest.items()
	return items, len(g.Pairs) == 0 && len(items) == 1, err
}

// maxAnswerBytes bounds the bytes of the gradients of one answer.
const maxAnswerBytes = 256 << 20

// postGradient answers POST /v1/gradient with d score / d pixel of the edited pictures: float32 [H, W, 3], per 8-bit
// level of the picture as decoded (upright, over white). Many pairs share passes.
func (s *Server) postGradient(w http.ResponseWriter, r *http.Request) error {
	if err := s.probeQueue(gradientKind); err != nil {
		return err
	}
	var g gradientRequest
	held, err := s.readBody(w, r, &g, g.field)
	if err != nil {
		return err
	}
	defer held.release()
	if err := s.countItems("pairs", max(len(g.Pairs), len(g.Edits), 1)); err != nil {
		return err
	}
	items, single, err := g.items()
	if err != nil {
		return err
	}
	if err := g.checkFormat(single); err != nil {
		return err
	}
	v, err := s.scorer(g.Scorer)
	if err == nil && v.inWords() {
		err = apiErrorf(http.StatusUnprocessableEntity, "no_gradient", "scorer %s answers in words: it has no gradients",
			v.name)
	}
	if err != nil {
		return err
	}
	cfg := v.Config()
	for _, it := range items {
		if it.scorer = v; it.source == nil && !cfg.NeedsSource() {
			it.source, g.Source = it.edit, it.edit // the scorer does not look at it
		}
	}
	if len(g.Pairs) == 0 {
		_, err = s.check(g.Source, g.Instruction)
	}
	if err == nil {
		err = s.differentiate(r.Context(), v, items)
	}
	if err != nil {
		return err
	}
	if !single {
		body, err := s.encodeMany(v.Config(), items)
		if err != nil {
			return err
		}
		return writeBytes(w, "application/octet-stream", body)
	}
	return g.writeOne(w, v.Config(), items[0])
}

// writeOne answers with the gradient of one pair in the format that was asked for.
func (g *gradientRequest) writeOne(w http.ResponseWriter, cfg model.ScorerConfig, it *item) error {
	if it.err != nil {
		return it.err
	}
	one := Gradient(cfg, it.gradient)
	body, kind, err := encoders[g.Format](one, it.picture)
	if err != nil {
		return err
	}
	for name, value := range one.scores() {
		w.Header().Set("X-"+name, value)
	}
	w.Header().Set("X-Pixel-Unit", pixelUnit)
	return writeBytes(w, kind, body)
}

// checkFormat: several gradients come as safetensors alone.
func (g *gradientRequest) checkFormat(single bool) error {
	switch {
	case encoders[g.Format] == nil:
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"format %q: safetensors, npy and png are served", g.Format)
	case !single && g.Format != "" && g.Format != "safetensors":
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"format %q is for one edit: several come as safetensors", g.Format)
	}
	return nil
}

// differentiate computes the gradients of all items. An error of one item is kept in it.
func (s *Server) differentiate(ctx context.Context, v *served, items []*item) error {
	groups := s.groupItems(items)
	if len(groups) == 0 {
		return nil
	}
	var pixels, most, answer int64 // of sources; bytes of the largest item's gradients; bytes of the answer
	for _, g := range groups {
		pixels += g.pixels
		for _, e := range g.edits {
			answer += 3 * 4 * e.pixels * int64(len(e.items))
			most = max(most, gradientBytes*e.pixels)
		}
	}
	if answer > maxAnswerBytes {
		return apiErrorf(
			http.StatusRequestEntityTooLarge,
			"too_many",
			"the gradients would take %d bytes, at most %d are sent: ask for fewer pairs at a time",
			answer,
			maxAnswerBytes,
		)
	}
	r, err := s.admit(ctx, groups, gradientKind)
	if err != nil {
		return err
	}
	defer r.release()
	size := min(s.o.Batch, len(items))
	free, err := s.acquireSlots(ctx, size, pictureBytes*pixels+int64(size)*most+2*answer)
	if err != nil {
		return err
	}
	defer free()
	b := gradientBatch{s: s, r: r, scorer: v}
	for _, g := range groups {
		if err := b.add(ctx, g); err != nil {
			return err
		}
	}
	if err := b.run(ctx); err != nil {
		return err
	}
	return ctx.Err()
}

// gradientBatch collects the items of several groups, which need not share a source, until they fill a batch.
type gradientBatch struct {
	s      *Server
	r      *reservation
	scorer *served
	items  []*item
	pairs  []model.Pair
}

// add decodes the pictures of a group, and runs every batch that is full.
func (b *gradientBatch) add(ctx context.Context, g *group) error {
	source, err := b.s.decodeOne(ctx, b.r, g.source, g.pixels)
	if err != nil {
		for _, e := range g.edits {
			e.fail(prefixError("source", err))
		}
		return nil
	}
	for todo := g.edits; len(todo) > 0; {
		part := todo[:min(len(todo), b.s.o.Batch-len(b.items))]
		todo = todo[len(part):]
		b.s.decodeEach(ctx, b.r, source, part, func(it *item, edit *data.Picture) error {
			it.picture = edit
			return nil
		})
		for _, e := range part {
			for _, it := range e.items {
				if it.err == nil {
					b.items = append(b.items, it)
					b.pairs = append(b.pairs, model.Pair{Source: source, Edit: it.picture, Instruction: it.instruction})
				}
			}
		}
		if len(b.items) == b.s.o.Batch {
			if err := b.run(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

// run computes the gradients of the pairs collected so far, and empties the batch.
func (b *gradientBatch) run(ctx context.Context) error {
	if len(b.items) == 0 {
		return nil
	}
	j := &job{kind: gradientKind, scorer: b.scorer, pairs: b.pairs}
	if err := b.r.run(ctx, j); err != nil {
		return err
	}
	for i, it := range b.items {
		if it.err = asBadPair(j.errs[i]); it.err != nil { // what the prompt or the pictures' shapes make impossible
			continue
		}
		it.gradient = &model.PixelGradients{Score01: j.gradients[i].Score01, Edit: j.gradients[i].Edit}
	}
	b.items, b.pairs = nil, nil
	return nil
}

// encodeMany writes the answer to several pairs: tensors gradient.0, gradient.1, ..., with score.N and score01.N (where
// the scorer has a range) as metadata, or error.N where there is no tensor. If no pair has a gradient, it returns the
// first pair's error.
func (s *Server) encodeMany(c model.ScorerConfig, items []*item) ([]byte, error) {
	metadata := map[string]string{"pixel_unit": pixelUnit, "pairs": fmt.Sprint(len(items))}
	var names []string
	var tensors []*data.Gradient
	var first error
	for i, it := range items {
		if it.err != nil {
			metadata[fmt.Sprint("error.", i)] = s.countError(it.err).Message
			if first == nil {
				first = prefixError(fmt.Sprint("pair ", i), it.err)
			}
			continue
		}
		g := Gradient(c, it.gradient)
		it.gradient = nil // the answer may take as much memory again
		for name, value := range g.scores() {
			metadata[fmt.Sprint(name, ".", i)] = value
		}
		names, tensors = append(names, fmt.Sprint("gradient.", i)), append(tensors, g.Edit)
	}
	if len(tensors) == 0 {
		return nil, first
	}
	return safetensors(metadata, names, tensors)
}

// ScoreGradient is a score with its derivative with respect to the pixels of the edited picture, on the scorer's range.
type ScoreGradient struct {
	Score   float64
	Score01 *float64       // nil: the scores have no bounds
	Edit    *data.Gradient // d score / d level, [Height, Width, 3]
}

// Gradient puts gradients of score01 on the range that is reported.
func Gradient(c model.ScorerConfig, s *model.PixelGradients) *ScoreGradient {
	r := c.Report(model.Judgement{Score01: s.Score01})
	g := &ScoreGradient{Score: r.Score, Score01: r.Score01, Edit: data.NewGradient(s.Edit.Width, s.Edit.Height)}
	for i, v := range s.Edit.Values {
		g.Edit.Values[i] = float32(c.ScoreRange.Width()) * v
	}
	return g
}

// pixelUnit is what a gradient is per.
const pixelUnit = "8-bit level"

// scores are the scores as texts by name: score, and score01 where the scorer has a range.
func (g *ScoreGradient) scores() map[string]string {
	out := map[string]string{"score": fmt.Sprint(g.Score)}
	if g.Score01 != nil {
		out["score01"] = fmt.Sprint(*g.Score01)
	}
	return out
}

// encoders write a gradient in the formats that are served; "" is the default.
var encoders = map[string]func(*ScoreGradient, *data.Picture) (body []byte, kind string, err error){
	"": encodeSafetensors, "safetensors": encodeSafetensors, "npy": encodeNpy, "png": encodeHeatmap,
}

// Safetensors is the gradient as a safetensors file: the tensor gradient, with score, score01 (where the scorer has a
// range) and the unit as metadata.
func (g *ScoreGradient) Safetensors() ([]byte, error) {
	metadata := g.scores()
	metadata["pixel_unit"] = pixelUnit
	return safetensors(metadata, []string{"gradient"}, []*data.Gradient{g.Edit})
}

// safetensors writes gradients as tensors float32 [H, W, 3].
func safetensors(metadata map[string]string, names []string, gradients []*data.Gradient) ([]byte, error) {
	tensors := map[string]*tensor.Dense{}
	for i, g := range gradients {
		tensors[names[i]] = tensor.New(tensor.WithShape(g.Height, g.Width, 3), tensor.WithBacking(g.Values))
	}
	return checkpoints.Marshal(tensors, metadata)
}

// Npy is the gradient as a NumPy file, format 1.0.
func (g *ScoreGradient) Npy() []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }",
		g.Edit.Height, g.Edit.Width)
	header += string(bytes.Repeat([]byte(" "), 63-(10+len(header))%64)) + "\n"
	out := append([]byte("\x93NUMPY\x01\x00"), byte(len(header)), byte(len(header)>>8))
	return appendFloats(append(out, header...), g.Edit.Values)
}

func appendFloats(to []byte, values []float32) []byte {
	for _, v := range values {
		to = binary.LittleEndian.AppendUint32(to, math.Float32bits(v))
	}
	return to
}

func encodeSafetensors(g *ScoreGradient, _ *data.Picture) ([]byte, string, error) {
	b, err := g.Safetensors()
	return b, "application/octet-stream", err
}

func encodeNpy(g *ScoreGradient, _ *data.Picture) ([]byte, string, error) {
	return g.Npy(), "application/octet-stream", nil
}

func encodeHeatmap(g *ScoreGradient, edit *data.Picture) ([]byte, string, error) {
	var b bytes.Buffer
	err := Heatmap(edit, g.Edit).EncodePNG(&b)
	return b.Bytes(), "image/png", err
}
