package reward

import (
	"fmt"
	"net/http"

	"assay/data"
)

// gradientRequest is a request to /v1/gradient: a single edit, edits of one source, or pairs of source and edit.
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

// items returns the requested edits; single: there is one edit, which has an answer format of its own.
func (g *gradientRequest) items() (items []*item, single bool, err error) {
	if g.Edit != nil && len(g.Edits) > 0 {
		return nil, false, badRequest("edit and edits: one of them is wanted")
	}
	if g.Edit != nil {
		g.Edits = append(g.Edits, *g.Edit)
	}
	if len(g.Pairs)+len(g.Edits) == 0 {
		return nil, false, badRequest("edit is missing: one picture; or edits, or pairs, for several")
	}
	items, err = g.scoreRequest.items()
	return items, len(g.Pairs) == 0 && len(items) == 1, err
}

// maxAnswerBytes bounds the bytes of the gradients of one answer.
const maxAnswerBytes = 256 << 20

// postGradient answers POST /v1/gradient with d score / d pixel of the edited pictures: float32 [H, W, 3], per 8-bit
// level of the picture as decoded (upright, over white). Many pairs share passes.
func (s *Server) postGradient(w http.ResponseWriter, r *http.Request) error {
	var g gradientRequest
	held, err := s.read(w, r, gradientKind, &g, g.field)
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
	v, err := s.engine.scorers.find(g.Scorer)
	switch {
	case err != nil:
		return err
	case v.info.Words:
		return apiErrorf(http.StatusUnprocessableEntity, "no_gradient", "scorer %s answers in words: it has no gradients",
			v.name)
	case !v.gradients:
		return apiErrorf(http.StatusUnprocessableEntity, "no_gradient", "scorer %s has no gradients", v.name)
	}
	for _, it := range items {
		if it.scorer = v; it.source == nil && v.info.Sources == 0 {
			it.source, g.Source = it.output, it.output // the scorer does not look at it
		}
	}
	if len(g.Pairs) == 0 {
		_, err = s.engine.decoder.check(g.Source, g.Instruction)
	}
	if err == nil {
		err = s.engine.differentiate(r.Context(), v, items)
	}
	if err != nil {
		return err
	}
	if !single {
		body, err := s.encodeMany(items)
		if err != nil {
			return err
		}
		return write(w, http.StatusOK, binaryType, body)
	}
	return g.writeOne(w, items[0])
}

// writeOne sends the gradient of one edit in the requested format.
func (g *gradientRequest) writeOne(w http.ResponseWriter, it *item) error {
	if it.err != nil {
		return it.err
	}
	format := gradientFormats[g.Format]
	body, err := format.encode(it.gradient, it.picture)
	if err != nil {
		return err
	}
	for name, value := range scoreTexts(it.gradient) {
		w.Header().Set("X-"+name, value)
	}
	w.Header().Set("X-Pixel-Unit", pixelUnit)
	return write(w, http.StatusOK, format.contentType, body)
}

// checkFormat allows only safetensors for several gradients.
func (g *gradientRequest) checkFormat(single bool) error {
	switch {
	case gradientFormats[g.Format].encode == nil:
		return badRequest("format %q: safetensors, npy and png are served", g.Format)
	case !single && g.Format != "" && g.Format != "safetensors":
		return badRequest("format %q is for one edit: several come as safetensors", g.Format)
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
		it.gradient = nil // the answer may take as much memory again
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
