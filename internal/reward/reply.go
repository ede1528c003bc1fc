package reward

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"assay/internal/reward/once"
)

// reply is the response to a request before it is written.
type reply struct {
	status    int
	kind      string // media type
	header    http.Header
	prints    string // fingerprints of the judges, from [identities]
	body      []byte
	again     time.Duration // Retry-After; 0: none
	temporary bool          // it may differ the next time
}

// response is a reply, or why there is none.
type response struct {
	*reply
	err error
}

// isTemporary reports whether a retry may succeed.
func isTemporary(e *apiError) bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusRequestTimeout || e.Status >= 499
}

// kept reports whether the response is kept for retries, and its size in bytes.
func (o *response) kept() (keep bool, size int64) {
	if o.err != nil {
		return !isTemporary(toAPIError(o.err)), int64(len(o.err.Error()))
	}
	return !o.temporary, int64(len(o.body))
}

// send writes the response to a request with an id ("": none). Several requests with one id may send the same
// response.
func (o *response) send(w http.ResponseWriter, id string) error {
	if id != "" {
		w.Header().Set("X-Request-Id", id)
	}
	w.Header().Set(versionHeader, serverVersion)
	if o.err != nil {
		return o.err
	}
	maps.Copy(w.Header(), o.header)
	w.Header().Set(fingerprintHeader, o.prints)
	if o.again > 0 {
		w.Header().Set("Retry-After", retryAfter(o.again))
	}
	err := write(w, o.status, o.kind, o.body)
	if err == nil && o.status != http.StatusOK {
		err = answeredError(o.status)
	}
	return err
}

// maxID is the maximum length of a request id in bytes.
const maxID = 256

// requestID returns the id of a request: from its body, else from Idempotency-Key, else from X-Request-Id, which
// proxies also set; "" if it has none.
func requestID(r *http.Request, body string) (string, error) {
	key := r.Header.Get("Idempotency-Key")
	if body != "" && key != "" && body != key {
		return "", apiErrorf(http.StatusBadRequest, "bad_request", "id %q and Idempotency-Key %q: they must be the same",
			body, key)
	}
	id := cmp.Or(body, key)
	if given := r.Header.Get("X-Request-Id"); id == "" && validID(given) {
		return given, nil
	}
	if id != "" && !validID(id) {
		return "", badRequest("id: want 1 to %d printable ASCII characters", maxID)
	}
	return id, nil
}

func validID(id string) bool {
	return id != "" && len(id) <= maxID && strings.IndexFunc(id, func(c rune) bool { return c < ' ' || c > '~' }) < 0
}

// digestOf returns a digest of a request's fields, the same for JSON and for a form.
func digestOf(v any) once.Digest {
	raw, err := json.Marshal(v)
	if err != nil { // no field of a request can fail
		raw = fmt.Append(nil, err)
	}
	return sha256.Sum256(raw)
}

// forget empties a request that waits for the work of another one.
func forget(request any) {
	switch v := reflect.ValueOf(request); v.Kind() {
	case reflect.Pointer:
		v.Elem().SetZero()
	case reflect.Slice:
		v.Clear()
	}
}

// answer does the work of a request and sends the response. The work of a request with an id is done once, even if
// its sender leaves: retries wait for it, or get the kept response. given is the id in the request's body, and is set
// to the request's id. request is a pointer to its fields, or a list.
func (s *Server) answer(
	w http.ResponseWriter, r *http.Request, given *string, held *memoryHold, request any,
	work func(context.Context) (*reply, error),
) error {
	id, err := requestID(r, *given)
	if err != nil {
		held.release()
		return err
	}
	*given = ""
	if id == "" {
		defer held.release()
		out := &response{}
		out.reply, out.err = work(r.Context())
		return s.send(w, r, out, "")
	}
	owner := ""
	if by, _ := r.Context().Value(clientKey{}).(*client); by != nil {
		owner = by.name
	}
	digest := digestOf([]any{request, r.Header.Values(fingerprintHeader)})
	call, first, err := s.once.Begin(strings.Join([]string{owner, r.URL.Path, id}, "\x00"), digest)
	*given = id
	if !first { // its pictures are not held while it waits
		forget(request)
		held.release()
	}
	switch {
	case errors.Is(err, once.ErrOther):
		out := &response{err: apiErrorf(http.StatusConflict, "id", "the id %s was already used with another body or %s", id,
			fingerprintHeader)}
		return out.send(w, id)
	case first:
		ctx, stop := context.WithTimeout(context.WithoutCancel(r.Context()), s.o.Timeout)
		ends := context.AfterFunc(s.ending, stop)
		s.working.Go(func() {
			defer stop()
			defer ends()
			defer held.release()
			out := &response{}
			out.err = attempt(func() (err error) {
				out.reply, err = work(ctx)
				return err
			})
			keep, size := out.kept()
			s.once.End(call, out, size, keep)
		})
	default:
		s.engine.metrics.retries.Inc()
	}
	out, err := call.Wait(r.Context()) // w's header must not be used before this: see conn.KeepAlive
	if err != nil {
		out = &response{err: err}
	}
	return s.send(w, r, out, id)
}

// send sends a response, whose bytes count as its client's memory meanwhile: a gradient may be large, and its reader
// slow.
func (s *Server) send(w http.ResponseWriter, r *http.Request, out *response, id string) error {
	if out.err == nil {
		h := s.front.bodies.memory.hold(s.front.bodies.payer(r), 0, nil)
		h.take(int64(len(out.body)))
		defer h.release()
	}
	return out.send(w, id)
}
