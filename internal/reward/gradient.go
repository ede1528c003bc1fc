package reward

import (
	"context"
	"fmt"
	"net/http"

	"assay/data"
)

// gradientRequest is a request to /v1/gradient: a single edit, edits of one source, or pairs of source and edit.
type gradientRequest struct {
	editsRequest
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
		err = g.editsRequest.field(name, value)
	}
	return err
}

// editInputs returns the requested edits. If single is true there is one edit, which has its own answer format.
func (g *gradientRequest) editInputs() (edits []editInput, single bool, err error) {
	if g.Edit != nil && len(g.Edits) > 0 {
		return nil, false, badRequest("edit and edits: give only one of them")
	}
	if g.Edit != nil {
		g.Edits = append(g.Edits, *g.Edit)
	}
	if len(g.Pairs)+len(g.Edits) == 0 {
		return nil, false, badRequest("edit is missing: one picture; or edits, or pairs, for several")
	}
	edits, err = g.editsRequest.editInputs()
	return edits, len(g.Pairs) == 0 && len(edits) == 1, err
}

// maxAnswerBytes is the maximum size of the gradients of one answer.
const maxAnswerBytes = 256 << 20

// postGradient answers POST /v1/gradient with d score / d pixel of the edited pictures: float32 [H, W, 3], per 8-bit
// level of the picture as decoded (upright, over white). Several pairs share batches.
func (s *Server) postGradient(w http.ResponseWriter, r *http.Request) error {
	var g gradientRequest
	held, err := s.read(w, r, gradientKind, &g, g.field)
	if err != nil {
		return err
	}
	return s.answer(w, r, &g.ID, held, &g, func(ctx context.Context) (*reply, error) { return s.gradient(ctx, r, &g) })
}

// gradient computes the reply to a request.
func (s *Server) gradient(ctx context.Context, r *http.Request, g *gradientRequest) (*reply, error) {
	if err := s.countItems("pairs", max(len(g.Pairs), len(g.Edits), 1)); err != nil {
		return nil, err
	}
	edits, single, err := g.editInputs()
	if err != nil {
		return nil, err
	}
	if err := g.checkFormat(single); err != nil {
		return nil, err
	}
	v, err := s.differentiable(g.Scorer)
	if err == nil {
		err = v.demand(g.Fingerprint)
	}
	if err == nil {
		err = s.demand(r)
	}
	if err == nil && len(g.Pairs) == 0 {
		if _, err = s.engine.decoder.check(edits[0].sources, g.Instruction, v.info.Sources != 0); err != nil {
			s.engine.metrics.refused([]*Replicated{v}, len(edits), err)
		}
	}
	if err != nil {
		return nil, err
	}
	var items []*item
	for _, e := range edits {
		items = append(items, v.newItem(e))
	}
	done, err := s.engine.differentiate(ctx, v, items)
	defer done()
	if err != nil {
		return nil, err
	}
	out := &reply{status: http.StatusOK, kind: binaryType}
	if _, out.prints, err = identities([]*Replicated{v}); err != nil {
		return nil, err
	}
	if single {
		return out, g.encodeOne(out, items[0])
	}
	for _, it := range items {
		out.temporary = out.temporary || it.err != nil && isTemporary(toAPIError(it.err))
	}
	out.body, err = s.encodeMany(items)
	return out, err
}

// differentiable returns a scorer that has gradients.
func (s *Server) differentiable(name string) (*Replicated, error) {
	v, err := s.engine.scorers.find(name)
	switch {
	case err != nil:
		return nil, err
	case v.info.Words:
		return nil, apiErrorf(http.StatusUnprocessableEntity, "no_gradient",
			"scorer %s is a text judge: it has no gradients", v.name)
	case !v.gradients:
		return nil, apiErrorf(http.StatusUnprocessableEntity, "no_gradient", "scorer %s has no gradients", v.name)
	}
	return v, nil
}

// encodeOne encodes the gradient of one edit in the requested format.
func (g *gradientRequest) encodeOne(out *reply, it *item) (err error) {
	if it.err != nil {
		return it.err
	}
	format := gradientFormats[g.Format]
	if out.body, err = format.encode(it.gradient, it.picture); err != nil {
		return err
	}
	out.kind, out.header = format.contentType, http.Header{}
	for name, value := range scoreTexts(it.gradient) {
		out.header.Set("X-"+name, value)
	}
	out.header.Set("X-Pixel-Unit", pixelUnit)
	return nil
}

// checkFormat rejects unknown formats, and all but safetensors for several gradients.
func (g *gradientRequest) checkFormat(single bool) error {
	switch {
	case gradientFormats[g.Format].encode == nil:
		return badRequest("format %q: want safetensors, npy or png", g.Format)
	case !single && g.Format != "" && g.Format != "safetensors":
		return badRequest("format %q is only for a single edit: several are sent as safetensors", g.Format)
	}
	return nil
}

// encodeMany encodes the gradients of several pairs: tensors gradient.0, gradient.1, ..., with score.N and score01.N
// (if the scorer has a range) as metadata, or error.N instead of a tensor. If no pair has a gradient, it returns the
// error of the first.
func (s *Server) encodeMany(items []*item) ([]byte, error) {
	metadata := map[string]string{"pixel_unit": pixelUnit, "pairs": fmt.Sprint(len(items))}
	var names []string
	var tensors []*data.Gradient
	var first error
	for i, it := range items {
		if it.err != nil {
			metadata[fmt.Sprint("error.", i)] = s.engine.metrics.countError(it.err).Message
			if first == nil {
				first = prefixError(fmt.Sprint("pair ", i), it.err)
			}
			continue
		}
		g := it.gradient
		it.gradient = nil // the encoded answer may take as much memory again
		for name, value := range scoreTexts(g) {
			metadata[fmt.Sprint(name, ".", i)] = value
		}
		names, tensors = append(names, fmt.Sprint("gradient.", i)), append(tensors, g.Output)
	}
	if len(tensors) == 0 {
		return nil, first
	}
	return safetensors(metadata, names, tensors)
}
