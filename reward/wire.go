package reward

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"assay/data"
)

// maxInstruction bounds instructions, in bytes.
const maxInstruction = 8 << 10

// encodedPicture is the bytes of a picture file. In JSON it is base64, with or without the head of a data URL. Damaged
// base64 is the error of one item, not of the request.
type encodedPicture struct {
	raw []byte
	err error
}

// UnmarshalJSONFrom takes a base64 string out of the stream, so that only one picture at a time is held as text.
func (b *encodedPicture) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	value, err := d.ReadValue()
	if err != nil {
		return err
	}
	if value.Kind() != '"' {
		b.err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture", "a picture is a base64 string")
		return nil
	}
	text := []byte(value[1 : len(value)-1])
	if bytes.IndexByte(text, '\\') >= 0 {
		if text, err = jsontext.AppendUnquote(nil, value); err != nil {
			return err
		}
	}
	if bytes.HasPrefix(text, []byte("data:")) {
		if head, rest, ok := bytes.Cut(text, []byte(",")); ok && bytes.HasSuffix(head, []byte(";base64")) {
			text = rest
		}
	}
	raw := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Decode(raw, text)
	if err != nil {
		b.err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture",
			"a picture is base64, not a URL or a path: %v", err)
		return nil
	}
	b.raw = raw[:n]
	return nil
}

// size returns the number of pixels that the picture's header says; nothing is decoded.
func (s *Server) size(b *encodedPicture) (pixels int64, err error) {
	if b.err != nil {
		return 0, b.err
	}
	width, height, err := data.Size(b.raw, s.limits())
	if err != nil && !errors.Is(err, data.ErrLimit) {
		err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture", "%v", err)
	}
	return int64(width) * int64(height), err
}

func (s *Server) limits() data.Limits {
	return data.Limits{MaxPixels: s.o.MaxPixels, MaxBytes: s.o.MaxBody}
}

// decode decodes a picture whose size was checked.
func (s *Server) decode(ctx context.Context, b *encodedPicture) (*data.Picture, error) {
	p, err := data.DecodeContext(ctx, b.raw, s.limits())
	if err != nil && ctx.Err() == nil {
		err = apiErrorf(http.StatusUnprocessableEntity, "bad_picture", "%v", err)
	}
	return p, err
}

// scoreRequest is what /v1/score and /v1/gradient are asked for: edits of one source and instruction, or pairs that
// have their own.
type scoreRequest struct {
	Scorer      string               `json:"scorer"`
	Source      *encodedPicture      `json:"source"`
	Instruction string               `json:"instruction"`
	Edits       list[encodedPicture] `json:"edits"`
	Pairs       list[pairRequest]    `json:"pairs"`
}

// pairRequest is one pair of a scoreRequest.
type pairRequest struct {
	Source      *encodedPicture `json:"source"`
	Instruction string          `json:"instruction"`
	Edit        *encodedPicture `json:"edit"`
}

// items returns the request's pairs or, without any, its edits with their common source.
func (p *scoreRequest) items() (items []*item, err error) {
	if len(p.Pairs) == 0 {
		for i := range p.Edits {
			items = append(items, &item{source: p.Source, edit: &p.Edits[i], instruction: p.Instruction})
		}
		return items, nil
	}
	if p.Source != nil || len(p.Edits) > 0 || p.Instruction != "" {
		return nil, apiErrorf(http.StatusUnprocessableEntity, "bad_request", "pairs have sources, instructions and "+
			"edits of their own: source, instruction, edit and edits do not go with them")
	}
	for i, one := range p.Pairs {
		if one.Edit == nil {
			return nil, apiErrorf(http.StatusUnprocessableEntity, "bad_request",
				"pairs/%d: edit is missing: one picture", i)
		}
		items = append(items, &item{source: one.Source, edit: one.Edit, instruction: one.Instruction})
	}
	return items, nil
}

func (p *scoreRequest) field(name string, value []byte) (err error) {
	switch name {
	case "scorer":
		p.Scorer, err = formText(name, value)
	case "instruction":
		p.Instruction, err = formText(name, value)
	case "source":
		p.Source = &encodedPicture{raw: value}
	case "edits":
		p.Edits = append(p.Edits, encodedPicture{raw: value})
	default:
		err = apiErrorf(http.StatusUnprocessableEntity, "bad_request", "unknown field %q", name)
	}
	return err
}

// check finds what is wrong with a source and an instruction without decoding a picture, and returns the source's
// pixels.
func (s *Server) check(source *encodedPicture, instruction string) (pixels int64, err error) {
	if err := checkInstruction(instruction); err != nil {
		return 0, err
	}
	if source == nil {
		return 0, apiErrorf(http.StatusUnprocessableEntity, "bad_request", "source is missing: a picture")
	}
	if pixels, err = s.size(source); err != nil {
		return 0, prefixError("source", err)
	}
	return pixels, nil
}

// prefixError puts what an error is about before its message.
func prefixError(what string, err error) error {
	f := *toAPIError(err)
	f.Message = what + ": " + f.Message
	return &f
}

func checkInstruction(text string) error {
	if strings.TrimSpace(text) == "" {
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"instruction is missing: what the edit was to do")
	}
	if len(text) > maxInstruction {
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"instruction: %d bytes, at most %d are taken", len(text), maxInstruction)
	}
	return nil
}

// scorer finds a scorer by name; "" is the first one.
func (s *Server) scorer(name string) (*served, error) {
	if len(s.names) == 0 {
		return nil, apiErrorf(http.StatusUnprocessableEntity, "unknown_scorer", "this server has no scorer")
	}
	if name == "" {
		name = s.names[0]
	}
	if v := s.scorers[name]; v != nil {
		return v, nil
	}
	return nil, apiErrorf(http.StatusUnprocessableEntity, "unknown_scorer", "no scorer %q; there are %s",
		name, strings.Join(s.names, ", "))
}

// countItems wants between one and MaxItems items.
func (s *Server) countItems(what string, n int) error {
	if n > s.o.MaxItems {
		return apiErrorf(http.StatusRequestEntityTooLarge, "too_many", "%d %s, at most %d are taken at a time",
			n, what, s.o.MaxItems)
	}
	if n == 0 {
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request", "%s is empty: at least one is wanted", what)
	}
	return nil
}
