package reward

import (
	"context"
	"errors"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// A body must arrive, and a response be read, at minRate bytes per second after a grace period. Otherwise a stalled
// client would hold memory that others need.
const (
	minRate = 256 << 10
	grace   = 30 * time.Second
	// lingering is the grace period of clients that get no more than this: see discard.
	lingering = 5 * time.Second
)

// deadline returns when n bytes must have been transferred.
func deadline(n int64) time.Time { return time.Now().Add(grace + timeOf(n)) }

// timeOf returns how long n bytes take at minRate.
func timeOf(n int64) time.Duration { return time.Duration(float64(n) / minRate * float64(time.Second)) }

// largePicture is the allowance for one picture held as base64 text while it is decoded.
const largePicture = 8 << 20

// bodyCost returns the memory for n bytes of a body.
func bodyCost(n int64) int64 { return n + min(n, largePicture) }

// bodyStep is how much of a body is read at a time.
const bodyStep = 64 << 10

// bodyReader reads a body at a minimum rate: the sender may fall behind minRate by slack, at most by the initial
// grace period. Time during which nothing is read does not count.
type bodyReader struct {
	ctx          context.Context
	from         io.Reader
	hold         *memoryHold
	n            int64 // bytes read
	slack, grace time.Duration
	wait         time.Duration // how long it may still wait for memory
	ended        bool
}

// Read reads at most one step, and waits until there is memory for it. After the end of the body it returns io.EOF
// without setting a deadline: net/http keeps reading the connection to notice when the client leaves, and a deadline
// would end the request.
func (b *bodyReader) Read(p []byte) (int, error) {
	if b.ended {
		return 0, io.EOF
	}
	begin := time.Now()
	n, err := 0, error(errEvicted)
	if b.hold.await(begin.Add(b.slack)) {
		n, err = b.from.Read(p[:min(len(p), bodyStep)])
	}
	if !b.hold.arrived() {
		return 0, errEvicted
	}
	b.ended = err == io.EOF
	b.n += int64(n)
	b.slack = min(b.grace, b.slack-time.Since(begin)+timeOf(int64(n)))
	begin = time.Now()
	if e := b.hold.grow(b.ctx, bodyCost(b.n), b.wait); e != nil {
		return 0, e
	}
	b.wait -= time.Since(begin)
	return n, err
}

// errEvicted rejects a body that stalled while other requests waited for its memory.
var errEvicted = &busyError{time.Second, "the body stalled while other requests waited for its memory"}

// bodies reads the bodies of requests.
type bodies struct {
	max    int64         // bytes of one body
	wait   time.Duration // longest wait for memory
	memory *memory
	payer  func(*http.Request) string // whose share of the memory a request takes
}

// read decodes a request into v, a struct of JSON fields. For multipart/form-data it calls field for every part.
//
// The body is held in memory. If there is no room, reading pauses, and TCP slows the sender down. The caller releases
// the memory when it is done with v.
func (b *bodies) read(
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
		return nil, apiErrorf(http.StatusBadRequest, "bad_request", "%q in the URL: query parameters are not read, "+
			"put it in the body", r.URL.RawQuery)
	}
	n := r.ContentLength
	if n > b.max {
		return nil, &http.MaxBytesError{Limit: b.max}
	}
	if n < 0 {
		n = b.max
	}
	to := http.NewResponseController(w)
	h := b.memory.hold(b.payer(r), bodyCost(n), to)
	arrived := false
	defer func() {
		if !arrived {
			h.release()
		}
	}()
	from := http.MaxBytesReader(w, r.Body, b.max)
	body := &bodyReader{ctx: r.Context(), from: from, hold: h, slack: grace, grace: grace, wait: b.wait}
	if form != "" {
		err = readForm(multipart.NewReader(body, form), field)
	} else {
		// Our own format is strict; requests in other formats may have fields that are not used here.
		err = json.UnmarshalRead(body, v, json.RejectUnknownMembers(field != nil))
	}
	if err == nil {
		_, err = io.Copy(io.Discard, body) // data after the form
	}
	if err != nil {
		return nil, bodyError(err)
	}
	arrived = true
	to.SetReadDeadline(time.Time{}) // or it would end the request while it is processed
	h.shrink(body.n)
	return h, nil
}

// contentType accepts JSON and, if forms is set, forms. It returns the boundary of a form.
func contentType(r *http.Request, forms bool) (boundary string, err error) {
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return "", apiErrorf(http.StatusUnsupportedMediaType, "media_type",
			"Content-Encoding %q is not supported: send the body uncompressed", e)
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
	}
	taken := "want application/json"
	if forms {
		taken = "want application/json or multipart/form-data"
	}
	return "", apiErrorf(http.StatusUnsupportedMediaType, "media_type", "Content-Type %q: %s", given, taken)
}

// bodyError maps an error from reading a body to a status.
func bodyError(err error) error {
	var known *apiError
	var busy *busyError
	var large *http.MaxBytesError
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	var slow net.Error
	switch {
	case errors.As(err, &known):
		return known
	case errors.As(err, &busy):
		return busy
	case errors.As(err, &large):
		return large
	case errors.As(err, &slow) && slow.Timeout():
		return apiErrorf(http.StatusRequestTimeout, "timeout",
			"the body arrived at less than %d KiB/s", minRate>>10)
	case errors.As(err, &meaning) && errors.Is(err, json.ErrUnknownName):
		return badRequest("unknown field %q", meaning.JSONPointer.LastToken())
	case errors.As(err, &meaning):
		return badRequest("%s: a JSON %v has the wrong type", fieldPath(meaning.JSONPointer), meaning.JSONKind)
	case errors.As(err, &syntax) && syntax.JSONPointer != "" && errors.Is(err, jsontext.ErrDuplicateName):
		return apiErrorf(http.StatusBadRequest, "bad_request", "%s: duplicate field",
			fieldPath(syntax.JSONPointer))
	case errors.As(err, &syntax) && syntax.JSONPointer != "":
		return apiErrorf(http.StatusBadRequest, "bad_request", "%s: %v, after %d bytes of the body",
			fieldPath(syntax.JSONPointer), syntax.Err, syntax.ByteOffset)
	case errors.As(err, &syntax), errors.Is(err, io.EOF):
		return apiErrorf(http.StatusBadRequest, "bad_request",
			"the body is not JSON: %s", strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return apiErrorf(http.StatusBadRequest, "bad_request", "the body could not be read: %v", err)
}

// fieldPath returns the path of a field of the body, such as edits/0.
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

// endingBody records whether the body was read to its end.
type endingBody struct {
	io.ReadCloser
	ended bool
}

// Read reads.
func (b *endingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.ended = b.ended || errors.Is(err, io.EOF)
	return n, err
}

// discard drains a body after an error response, so that a client that sends all of it first can read the response;
// closing at once would break its pipe. It stops after twice the largest body, or when the sender stalls: quickly for
// unauthorised clients and for clients that were already too slow.
func (b *bodies) discard(w http.ResponseWriter, r *http.Request, f *apiError) {
	if r.Header.Get("Expect") != "" { // a client that waits for 100 Continue has sent nothing
		return
	}
	slack := grace
	switch f.Status {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusRequestTimeout:
		slack = lingering
	}
	most := b.max
	if most <= math.MaxInt64/2 {
		most *= 2
	}
	to := http.NewResponseController(w)
	nothing := newMemory(0, 0).hold("", 0, to)
	body := &bodyReader{ctx: r.Context(), from: r.Body, hold: nothing, slack: slack, grace: slack}
	_, err := io.CopyN(io.Discard, body, most)
	if errors.Is(err, io.EOF) {
		to.SetReadDeadline(time.Time{})
		return
	}
	to.SetReadDeadline(time.Unix(1, 0)) // net/http would keep reading without a limit
}

// maxListed limits the elements of a JSON array and the parts of a form, because each costs more memory than its
// bytes.
const maxListed = 10000

// list is a JSON array of at most maxListed values.
type list[T any] []T

// UnmarshalJSONFrom decodes the elements one by one.
func (l *list[T]) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if d.PeekKind() == 'n' { // null, as if the field were absent
		*l = nil
		return d.SkipValue()
	}
	if d.PeekKind() != '[' {
		if err := d.SkipValue(); err != nil {
			return err
		}
		return badRequest("%s: want a list", fieldPath(d.StackPointer()))
	}
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for *l = (list[T]{}); d.PeekKind() != ']'; {
		if len(*l) == maxListed {
			return tooMany("%s: more than %d values", fieldPath(d.StackPointer().Parent()), maxListed)
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

// readForm calls field for every part of a form, both files and plain fields. Only edits and sources may repeat: a
// second part of any other field would replace the first.
func readForm(m *multipart.Reader, field func(name string, value []byte) error) error {
	seen := map[string]bool{}
	for range maxListed {
		p, err := m.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return formError(err)
		}
		name := p.FormName()
		if seen[name] && name != "edits" && name != "sources" {
			return apiErrorf(http.StatusBadRequest, "bad_request", "%s: duplicate field", name)
		}
		seen[name] = true
		value, err := io.ReadAll(p)
		if err != nil {
			return formError(err)
		}
		if err := field(name, value); err != nil {
			return err
		}
	}
	return tooMany("more than %d form fields", maxListed)
}

// formError returns the error of an unreadable form, unless the connection failed.
func formError(err error) error {
	if f := bodyError(err); toAPIError(f).Status != http.StatusBadRequest {
		return f
	}
	return apiErrorf(http.StatusBadRequest, "bad_request", "invalid form: %v", err)
}

// formText returns a form field as text.
func formText(name string, value []byte) (string, error) {
	if !utf8.Valid(value) {
		return "", apiErrorf(http.StatusBadRequest, "bad_request", "%s is not UTF-8", name)
	}
	return string(value), nil
}
