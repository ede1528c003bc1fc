package reward

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A body must arrive, and an answer be taken, at minRate bytes a second after the grace period. Otherwise a caller who
// sleeps would hold the memory of others.
const (
	minRate = 256 << 10
	grace   = 30 * time.Second
)

// deadline is when n bytes must have passed.
func deadline(n int64) time.Time {
	return time.Now().Add(grace + time.Duration(float64(n)/minRate*float64(time.Second)))
}

// memoryHold is memory that a request holds.
type memoryHold struct {
	s *Server
	n int64
}

// shrink gives back all but n bytes.
func (h *memoryHold) shrink(n int64) {
	if n < h.n {
		h.s.memory.Release(h.n - n)
		h.n = n
	}
}

func (h *memoryHold) release() { h.shrink(0) }

// largePicture is the allowance for one picture that is held as base64 text while it is decoded.
const largePicture = 8 << 20

// readBody reads a request into v, a struct of JSON fields. With multipart/form-data it calls field for every part.
//
// The body is read only when there is memory for it. Until then it stays in the network, held back by TCP, and no
// caller is refused for that. The caller releases the memory when it is done with v.
func (s *Server) readBody(
	w http.ResponseWriter,
	r *http.Request,
	v any,
	field func(name string, value []byte) error,
) (*memoryHold, error) {
	form, err := contentType(r, field != nil)
	if err != nil {
		return nil, err
	}
	if field != nil && r.URL.RawQuery != "" {
		return nil, apiErrorf(http.StatusBadRequest, "bad_request", "%q in the URL: nothing is read there, "+
			"give it in the body", r.URL.RawQuery)
	}
	n := r.ContentLength
	if n > s.o.MaxBody {
		return nil, &http.MaxBytesError{Limit: s.o.MaxBody}
	}
	if n < 0 {
		n = s.o.MaxBody
	}
	h := &memoryHold{s, min(n+min(n, largePicture)+1, s.o.Memory)}
	wait, stop := context.WithTimeoutCause(
		r.Context(),
		s.o.Wait,
		&busyError{time.Second, "too many requests wait for memory"},
	)
	defer stop()
	if err := s.memory.Acquire(wait, h.n); err != nil {
		return nil, context.Cause(wait)
	}
	to := http.NewResponseController(w) // it sets no deadlines in tests without a connection
	to.SetReadDeadline(deadline(n))
	body := &countingReader{Reader: http.MaxBytesReader(w, r.Body, s.o.MaxBody)}
	if form != "" {
		err = readForm(multipart.NewReader(body, form), field)
	} else {
		// Our own format is strict; requests in the format of others may have more fields than are used here.
		err = json.UnmarshalRead(body, v, json.RejectUnknownMembers(field != nil))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, body) // what follows a form
	}
	if err != nil {
		h.release()
		return nil, bodyError(err)
	}
	to.SetReadDeadline(time.Time{}) // or it would end the request during its work
	h.shrink(body.n)
	return h, nil
}

// countingReader counts what is read.
type countingReader struct {
	io.Reader
	n int64
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.n += int64(n)
	return n, err
}

// contentType wants JSON, or a form where one is taken, and returns a form's boundary.
func contentType(r *http.Request, forms bool) (boundary string, err error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", apiErrorf(http.StatusUnsupportedMediaType, "media_type",
			"Content-Encoding %q is not taken: send the body as it is", e)
	}
	given := r.Header.Get("Content-Type")
	kind, params, err := mime.ParseMediaType(given)
	switch {
	case given == "",
		err == nil && (kind == "application/json" || kind == "text/json" || strings.HasSuffix(kind, "+json")):
		return "", nil
	case err == nil && kind == "multipart/form-data" && forms:
		if params["boundary"] == "" {
			return "", apiErrorf(http.StatusBadRequest, "bad_request", "multipart/form-data without a boundary")
		}
		return params["boundary"], nil
	case forms:
		return "", apiErrorf(http.StatusUnsupportedMediaType, "media_type",
			"Content-Type %q: application/json and multipart/form-data are taken", given)
	}
	return "", apiErrorf(http.StatusUnsupportedMediaType, "media_type",
		"Content-Type %q: application/json is taken", given)
}

// bodyError gives an error of reading a body its status.
func bodyError(err error) error {
	var known *apiError
	var large *http.MaxBytesError
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	var slow net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &large):
		return large
	case errors.As(err, &slow) && slow.Timeout():
		return apiErrorf(http.StatusRequestTimeout, "timeout",
			"the body came at less than %d KiB a second", minRate>>10)
	case errors.As(err, &meaning) && errors.Is(err, json.ErrUnknownName):
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"unknown field %q", meaning.JSONPointer.LastToken())
	case errors.As(err, &meaning):
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"%s: a JSON %v is not what is wanted", fieldPath(meaning.JSONPointer), meaning.JSONKind)
	case errors.As(err, &syntax) && syntax.JSONPointer != "":
		return apiErrorf(http.StatusBadRequest, "bad_request",
			"%s: %s", fieldPath(syntax.JSONPointer), syntaxReason(syntax))
	case errors.As(err, &syntax), errors.Is(err, io.EOF):
		return apiErrorf(http.StatusBadRequest, "bad_request",
			"the body is not JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return apiErrorf(http.StatusBadRequest, "bad_request", "the body could not be read: %v", err)
}

// fieldPath names a field of the body: edits/0.
func fieldPath(p jsontext.Pointer) string {
	switch name := strings.TrimPrefix(string(p), "/"); {
	case name == "":
		return "the body"
	case len(name) > 200:
		return name[:200] + "..."
	default:
		return name
	}
}

// syntaxReason is what a syntactic error says, without its position.
func syntaxReason(e *jsontext.SyntacticError) string {
	if errors.Is(e, jsontext.ErrDuplicateName) {
		return "this field is there twice"
	}
	return fmt.Sprintf("%v, after %d bytes of the body", e.Err, e.ByteOffset)
}

// discardBody reads what is left of a body, so that a caller who sends all of it can read the refusal. If the
// connection were closed before, the caller would see a broken pipe. It stops after twice the largest body, or at the
// deadline.
func (s *Server) discardBody(w http.ResponseWriter, r *http.Request) {
	if r.Body == nil || r.Header.Get("Expect") != "" { // a caller who waits for 100 Continue has sent nothing
		return
	}
	most := s.o.MaxBody
	if most <= math.MaxInt64/2 {
		most *= 2
	}
	to := http.NewResponseController(w)
	to.SetReadDeadline(deadline(min(most, max(r.ContentLength, 1<<20))))
	io.CopyN(io.Discard, r.Body, most) // an error changes nothing in the answer
	to.SetReadDeadline(time.Time{})
}

// maxListed bounds the values of a JSON array and the parts of a form: each costs more memory than its bytes.
const maxListed = 10000

// list is a JSON array of at most maxListed values.
type list[T any] []T

// UnmarshalJSONFrom reads value by value.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() != '[' {
		if err := d.SkipValue(); err != nil {
			return err
		}
		return apiErrorf(http.StatusUnprocessableEntity, "bad_request",
			"%s: a list is wanted", fieldPath(d.StackPointer()))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for *l = nil; d.PeekKind() != ']'; {
		if len(*l) == maxListed {
			return apiErrorf(http.StatusRequestEntityTooLarge, "too_many",
				"%s: more than %d values", fieldPath(d.StackPointer().Parent()), maxListed)
		}
		var v T
		if err := json.UnmarshalDecode(d, &v); err != nil {
			return err
		}
		*l = append(*l, v)
	}
	_, err := d.ReadToken()
	return err
}
