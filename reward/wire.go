package reward

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"assay/data"
)

// maxText bounds instructions, in bytes.
const maxText = 8 << 10

// blob is an encoded picture. In JSON it is base64, with or without a data URL's head. What is no base64 is the item's error, not
// the request's.
type blob struct {
	raw []byte
	err error
}

// UnmarshalJSON takes a base64 string.
func (b *blob) UnmarshalJSON(raw []byte) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		b.err = problem(http.StatusUnprocessableEntity, "bad_picture", "a picture is a base64 string")
		return nil
	}
	if head, rest, ok := strings.Cut(text, ","); ok && strings.HasPrefix(head, "data:") && strings.HasSuffix(head, ";base64") {
		text = rest
	}
	var err error
	if b.raw, err = base64.StdEncoding.DecodeString(text); err != nil {
		b.err = problem(http.StatusUnprocessableEntity, "bad_picture", "a picture is base64, not a URL or a path: %v", err)
	}
	return nil
}

// size checks the header of the picture; nothing is decoded.
func (s *Server) size(b *blob) (width, height int, err error) {
	if b.err != nil {
		return 0, 0, b.err
	}
	width, height, err = data.Size(b.raw, s.limits())
	if err != nil && !errors.Is(err, data.ErrLimit) {
		err = problem(http.StatusUnprocessableEntity, "bad_picture", "%v", err)
	}
	return width, height, err
}

func (s *Server) limits() data.Limits {
	return data.Limits{MaxPixels: s.o.MaxPixels, MaxBytes: s.o.MaxBody}
}

// decode decodes a picture whose size was checked.
func (s *Server) decode(b *blob) (*data.Picture, error) {
	p, err := data.Decode(b.raw, s.limits())
	if err != nil {
		return nil, problem(http.StatusUnprocessableEntity, "bad_picture", "%v", err)
	}
	return p, nil
}

// body takes a request's body in, if there is memory for it. The caller calls release when it is done with the body and what
// was decoded of it.
func (s *Server) body(w http.ResponseWriter, r *http.Request) (raw []byte, release func(), err error) {
	n := r.ContentLength
	if n > s.o.MaxBody {
		return nil, nil, &http.MaxBytesError{Limit: s.o.MaxBody}
	}
	if n < 0 {
		n = s.o.MaxBody
	}
	n *= 2 // the body, and the pictures in it
	if !s.memory.take(n) {
		return nil, nil, &busyError{1e9, "no memory is left for the request"}
	}
	raw, err = io.ReadAll(http.MaxBytesReader(w, r.Body, s.o.MaxBody))
	if err != nil {
		s.memory.give(n)
		var large *http.MaxBytesError
		if !errors.As(err, &large) {
			err = problem(http.StatusBadRequest, "bad_request", "the body could not be read: %v", err)
		}
		return nil, nil, err
	}
	return raw, func() { s.memory.give(n) }, nil
}

// parse reads a body into v, a struct of JSON fields; with multipart/form-data through fields, which gets every part.
func parse(r *http.Request, raw []byte, v any, field func(name string, value []byte) error) error {
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err == nil && kind == "multipart/form-data" && field != nil {
		return parts(raw, params["boundary"], field)
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	if field != nil { // our own requests; foreign ones may hold more than is of use here
		d.DisallowUnknownFields()
	}
	if err := d.Decode(v); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return problem(http.StatusBadRequest, "bad_request", "the body is not JSON: %v", err)
		}
		return problem(http.StatusUnprocessableEntity, "bad_request", "%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return problem(http.StatusBadRequest, "bad_request", "the body holds more than one JSON value")
	}
	return nil
}

// pairs is what /v1/score and /v1/gradient are asked for: one source, one instruction, edits.
type pairs struct {
	Scorer      string `json:"scorer"`
	Source      *blob  `json:"source"`
	Instruction string `json:"instruction"`
	Edits       []blob `json:"edits"`
	Edit        *blob  `json:"edit"`   // of a gradient
	Format      string `json:"format"` // of a gradient
}

func (p *pairs) field(name string, value []byte) error {
	switch name {
	case "scorer":
		p.Scorer = string(value)
	case "instruction":
		p.Instruction = string(value)
	case "format":
		p.Format = string(value)
	case "source":
		p.Source = &blob{raw: value}
	case "edit":
		p.Edit = &blob{raw: value}
	case "edits":
		p.Edits = append(p.Edits, blob{raw: value})
	default:
		return problem(http.StatusUnprocessableEntity, "bad_request", "unknown field %q", name)
	}
	return nil
}

// check looks at all that can be told without decoding a picture.
func (s *Server) check(p *pairs) (*served, error) {
	v, err := s.scorer(p.Scorer)
	if err != nil {
		return nil, err
	}
	if err := checkInstruction(p.Instruction); err != nil {
		return nil, err
	}
	if p.Source == nil {
		return nil, problem(http.StatusUnprocessableEntity, "bad_request", "source is missing: a picture")
	}
	if _, _, err := s.size(p.Source); err != nil {
		f := *explain(err)
		f.Message = "source: " + f.Message
		return nil, &f
	}
	return v, nil
}

func checkInstruction(text string) error {
	if strings.TrimSpace(text) == "" {
		return problem(http.StatusUnprocessableEntity, "bad_request", "instruction is missing: what the edit was to do")
	}
	if len(text) > maxText {
		return problem(http.StatusUnprocessableEntity, "bad_request", "instruction: %d bytes, at most %d are taken", len(text), maxText)
	}
	return nil
}

// scorer finds a scorer by name; "" is the first one.
func (s *Server) scorer(name string) (*served, error) {
	if name == "" {
		name = s.names[0]
	}
	if v := s.scorers[name]; v != nil {
		return v, nil
	}
	return nil, problem(http.StatusUnprocessableEntity, "unknown_scorer", "no scorer %q; there are %s", name, strings.Join(s.names, ", "))
}

// countItems wants between one and MaxItems.
func (s *Server) countItems(what string, n int) error {
	if n > s.o.MaxItems {
		return problem(http.StatusRequestEntityTooLarge, "too_many", "%d %s, at most %d are taken at a time", n, what, s.o.MaxItems)
	}
	if n == 0 {
		return problem(http.StatusUnprocessableEntity, "bad_request", "%s is empty: at least one is wanted", what)
	}
	return nil
}
