package reward

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"

	"assay/data"
	"assay/model"
)

// gradients is what /v1/gradient is asked for: a single edit, edits of one source, or pairs of their own.
type gradientRequest struct {
	scoreRequest
	Edit   *encodedPicture      `json:"edit"`
	Pairs  list[pairRequest] `json:"pairs"`
	Format string     `json:"format"`
}

type pairRequest struct {
	Source      *encodedPicture  `json:"source"`
	Instruction string `json:"instruction"`
	Edit        *encodedPicture  `json:"edit"`
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
	if len(g.Pairs) > 0 {
		if g.Source != nil || g.Edit != nil || len(g.Edits) > 0 || g.Instruction != "" {
			return nil, false, bad("pairs have sources, instructions and edits of their own: source, instruction, edit and edits do not go with them")
		}
		for i, p := range g.Pairs {
			if p.Edit == nil {
				return nil, false, bad(fmt.Sprintf("pairs/%d: edit is missing: one picture", i))
			}
			items = append(items, &item{source: p.Source, edit: p.Edit, instruction: p.Instruction})
		}
		return items, false, nil
	}
	edits := g.Edits
	if g.Edit != nil {
		edits = append(edits, *g.Edit)
	}
	switch {
	case len(edits) == 0:
		return nil, false, bad("edit is missing: one picture; or edits, or pairs, for several")
	case g.Edit != nil && len(edits) > 1:
		return nil, false, bad("edit and edits: one of them is wanted")
	}
	for i := range edits {
		items = append(items, &item{source: g.Source, edit: &edits[i], instruction: g.Instruction})
	}
	return items, len(edits) == 1, nil
}

// mostAnswer bounds the bytes of the gradients of one answer.
const maxAnswerBytes = 256 << 20

// postGradient answers POST /v1/gradient with d score / d pixel of the edited pictures: float32 [H, W, 3], per 8-bit level of
// the picture as decoded (upright, over white). Many pairs share passes.
func (s *Server) postGradient(w http.ResponseWriter, r *http.Request) error {
	if err := s.probeQueue(gradient); err != nil {
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
	encode := encoders[g.Format]
	if encode == nil {
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request", "format %q: safetensors, npy and png are served", g.Format)
	}
	if !single && g.Format != "" && g.Format != "safetensors" {
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request", "format %q is for one edit: several come as safetensors", g.Format)
	}
	v, err := s.scorer(g.Scorer)
	if err != nil {
		return err
	}
	if len(g.Pairs) == 0 {
		if _, err := s.check(g.Source, g.Instruction); err != nil {
			return err
		}
	}
	edits, gradients, err := s.differentiate(r.Context(), v, items)
	if err != nil {
		return err
	}
	if single {
		if items[0].err != nil {
			return items[0].err
		}
		one := Gradient(v.Config(), gradients[0])
		body, kind, err := encode(one, edits[0])
		if err != nil {
			return err
		}
		for name, value := range one.metadata() {
			w.Header().Set("X-"+name, value)
		}
		return writeBytes(w, kind, body)
	}
	body, err := s.encodeMany(v.Config(), items, gradients)
	if err != nil {
		return err
	}
	return writeBytes(w, "application/octet-stream", body)
}

// differentiate returns decoded edits and gradients of all items; what goes wrong with one is its error.
func (s *Server) differentiate(ctx context.Context, v *served, items []*item) ([]*data.Picture, []*model.PixelGradients, error) {
	edits, gradients := make([]*data.Picture, len(items)), make([]*model.PixelGradients, len(items))
	groups := s.groupItems(items, func(*item) *served { return v })
	if len(groups) == 0 {
		return edits, gradients, nil
	}
	var pixels, room, answer int64 // of a batch the most room is taken: it is the largest pictures'
	for _, g := range groups {
		pixels += g.pixels
		for _, it := range g.items {
			answer += 3 * 4 * it.pixels
			room = max(room, gradientBytes*it.pixels)
		}
	}
	if answer > maxAnswerBytes {
		return nil, nil, apiErrorf(http.StatusRequestEntityTooLarge, "too_many",
			"the gradients would take %d bytes, at most %d are sent: ask for fewer pairs at a time", answer, maxAnswerBytes)
	}
	t, err := s.admit(ctx, groups, gradient)
	if err != nil {
		return nil, nil, err
	}
	defer t.release()
	batch := min(s.o.Batch, len(items))
	free, err := s.acquireSlots(ctx, batch, pictureBytes*pixels+int64(batch)*room+2*answer)
	if err != nil {
		return nil, nil, err
	}
	defer free()
	at := map[*item]int{}
	for i, it := range items {
		at[it] = i
	}
	j := &job{kind: gradient, scorer: v}
	var of []*item
	send := func() error {
		if len(of) == 0 {
			return nil
		}
		if err := t.run(ctx, j); err != nil {
			return err
		}
		for i, it := range of {
			if it.err = j.errs[i]; it.err != nil { // what the prompt or the pictures' shapes make impossible
				it.err = apiErrorf(http.StatusUnprocessableEntity, "bad_pair", "%v", it.err)
				continue
			}
			gradients[at[it]] = &model.PixelGradients{Score01: j.gradients[i].Score01, Edit: j.gradients[i].Edit}
		}
		j, of = &job{kind: gradient, scorer: v}, nil
		return nil
	}
	for _, g := range groups {
		source, err := s.decodeOne(ctx, t, g.items[0].source, g.pixels)
		if err != nil {
			for _, it := range g.items {
				it.err = prefixError("source", err)
			}
			continue
		}
		for todo := g.items; len(todo) > 0; {
			part := todo[:min(len(todo), s.o.Batch-len(of))]
			todo = todo[len(part):]
			s.decodeEach(ctx, t, part, func(i int, it *item, edit *data.Picture) error {
				edits[at[it]] = edit
				return nil
			})
			for _, it := range part {
				if it.err == nil {
					j.pairs = append(j.pairs, model.Pair{Source: source, Edit: edits[at[it]], Instruction: it.instruction})
					of = append(of, it)
				}
			}
			if len(of) == s.o.Batch {
				if err := send(); err != nil {
					return nil, nil, err
				}
			}
		}
	}
	if err := send(); err != nil {
		return nil, nil, err
	}
	return edits, gradients, ctx.Err()
}

// encodeMany writes the answer to several pairs: tensors gradient.0, gradient.1, ..., with score.N, score01.N, or error.N where
// there is no tensor, as metadata. If not one could be differentiated the first one's error is returned.
func (s *Server) encodeMany(c model.ScorerConfig, items []*item, gradients []*model.PixelGradients) ([]byte, error) {
	facts := map[string]string{"pixel_unit": pixelUnit, "pairs": fmt.Sprint(len(items))}
	var names []string
	var all []*data.Gradient
	var first error
	for i, it := range items {
		if it.err != nil {
			f := toAPIError(it.err)
			s.metrics.errors.WithLabelValues(f.Kind).Inc()
			facts[fmt.Sprint("error.", i)] = f.Message
			if first == nil {
				first = prefixError(fmt.Sprint("pair ", i), it.err)
			}
			continue
		}
		g := Gradient(c, gradients[i])
		gradients[i] = nil
		facts[fmt.Sprint("score.", i)], facts[fmt.Sprint("score01.", i)] = fmt.Sprint(g.Score), fmt.Sprint(g.Score01)
		names, all = append(names, fmt.Sprint("gradient.", i)), append(all, g.Edit)
	}
	if len(all) == 0 {
		return nil, first
	}
	return safetensors(facts, names, all)
}

// ScoreGradient is a score with its derivative with respect to the pixels of the edited picture, on the scorer's range.
type ScoreGradient struct {
	Score, Score01 float64
	Edit           *data.Gradient // d score / d level, [Height, Width, 3]
}

// Gradient puts gradients of score01 on the range that is reported.
func Gradient(c model.ScorerConfig, s *model.PixelGradients) *ScoreGradient {
	g := &ScoreGradient{Score: c.Range(s.Score01), Score01: s.Score01, Edit: data.NewGradient(s.Edit.Width, s.Edit.Height)}
	for i, v := range s.Edit.Values {
		g.Edit.Values[i] = float32(c.ScoreRange[1]-c.ScoreRange[0]) * v
	}
	return g
}

// pixelUnit is what a gradient is per.
const pixelUnit = "8-bit level"

func (g *ScoreGradient) metadata() map[string]string {
	return map[string]string{"Score": fmt.Sprint(g.Score), "Score01": fmt.Sprint(g.Score01), "Pixel-Unit": pixelUnit}
}

// encoders write a gradient in the formats that are served; "" is the default one.
var encoders = map[string]func(*ScoreGradient, *data.Picture) (body []byte, kind string, err error){
	"": encodeSafetensors, "safetensors": encodeSafetensors, "npy": encodeNpy, "png": encodeHeatmap,
}

// Safetensors is the gradient as a safetensors file: the tensor gradient, with score, score01 and the unit as metadata.
func (g *ScoreGradient) Safetensors() ([]byte, error) {
	facts := map[string]string{"score": fmt.Sprint(g.Score), "score01": fmt.Sprint(g.Score01), "pixel_unit": pixelUnit}
	return safetensors(facts, []string{"gradient"}, []*data.Gradient{g.Edit})
}

// safetensors writes tensors float32 [H, W, 3] one behind the other.
func safetensors(facts map[string]string, names []string, tensors []*data.Gradient) ([]byte, error) {
	index, end := map[string]any{"__metadata__": facts}, 0
	for i, t := range tensors {
		begin := end
		end += 4 * len(t.Values)
		index[names[i]] = map[string]any{"dtype": "F32", "shape": []int{t.Height, t.Width, 3}, "data_offsets": []int{begin, end}}
	}
	header, err := json.Marshal(index)
	if err != nil {
		return nil, err
	}
	for len(header)%8 != 0 { // the tensors are aligned
		header = append(header, ' ')
	}
	out := binary.LittleEndian.AppendUint64(make([]byte, 0, 8+len(header)+end), uint64(len(header)))
	out = append(out, header...)
	for _, t := range tensors {
		out = appendFloats(out, t.Values)
	}
	return out, nil
}

// Npy is the gradient as a NumPy file, format 1.0.
func (g *ScoreGradient) Npy() []byte {
	header := fmt.Sprintf("{'descr': '<f4', 'fortran_order': False, 'shape': (%d, %d, 3), }", g.Edit.Height, g.Edit.Width)
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
