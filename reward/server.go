// Package reward is what trainers of image editors call: a server of scores and of their gradients, labels conditioned on
// rewards, and reports on what an editor makes of its reward.
package reward

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"assay/data"
)

// Options are the limits of a server. Zero values stand for the defaults; Patience and Burst have none.
type Options struct {
	Token     string        // wanted as a bearer token; "": no token
	MaxBody   int64         // bytes of a request; 64 MiB
	MaxPixels int64         // of one picture, as its header says; 16 Mi
	MaxItems  int           // edits of one request; 256
	Queue     int           // edits that wait, of all requests; 1024
	Batch     int           // edits scored in one run; 32
	Memory    int64         // bytes of bodies and sources held at a time; 1 GiB
	Timeout   time.Duration // from the first byte of a request to its answer; a minute
	Patience  float64       // a request may wait this many times the time it takes alone
	Burst     int           // requests admitted beyond that after a second of rest
}

func (o *Options) fill() {
	def := func(v *int64, d int64) {
		if *v == 0 {
			*v = d
		}
	}
	def(&o.MaxBody, 64<<20)
	def(&o.MaxPixels, 16<<20)
	def(&o.Memory, 1<<30)
	for v, d := range map[*int]int{&o.MaxItems: 256, &o.Queue: 1024, &o.Batch: 32} {
		if *v == 0 {
			*v = d
		}
	}
	if o.Timeout == 0 {
		o.Timeout = time.Minute
	}
}

// Server answers HTTP requests with scores.
type Server struct {
	o        Options
	scorers  map[string]*served
	names    []string
	queue    *queue
	metrics  *metrics
	memory   *budget
	decoding chan struct{} // a place for each picture that is decoded and resized
	draining atomic.Bool
	handler  http.Handler
}

// served is a scorer under a name.
type served struct {
	Scorer
	name  string
	paces [2]*pace // by kind
}

// NewServer makes a server of scorers by name; the first one answers requests that name none. Close ends it.
func NewServer(o Options, names []string, scorers []Scorer) (*Server, error) {
	o.fill()
	s := &Server{o: o, scorers: map[string]*served{}, memory: &budget{left: o.Memory}, decoding: make(chan struct{}, runtime.NumCPU())}
	for i, name := range names {
		if name == "" || strings.ContainsAny(name, " \t\r\n/") || s.scorers[name] != nil {
			return nil, fmt.Errorf("scorer name %q: want a name of its own, without spaces and slashes", name)
		}
		s.scorers[name] = &served{Scorer: scorers[i], name: name, paces: [2]*pace{{}, {}}}
		s.names = append(s.names, name)
	}
	if len(names) == 0 {
		return nil, errors.New("no scorer to serve")
	}
	s.metrics = newMetrics(func() float64 { return float64(s.queue.waiting()) })
	s.queue = newQueue(o, func(n int) { s.metrics.batch.Observe(float64(n)) })
	s.handler = s.routes()
	return s, nil
}

// Warm scores a small pair with every scorer, so that graphs are built, and paces known, before anybody waits.
func (s *Server) Warm(ctx context.Context) error {
	p := data.NewPicture(64, 64)
	for i := range p.Pix {
		p.Pix[i] = byte(i * i)
	}
	for _, name := range s.names {
		v := s.scorers[name]
		for i := range 3 {
			p.Pix[0]++ // a new picture each time: its features are in no cache
			sample, err := v.Prepare(v.pair(p, p.FlipHorizontal(), "mirror it"))
			if err != nil {
				return fmt.Errorf("scorer %s: %w", name, err)
			}
			t, err := s.queue.admit(demand{v.paces[scoring]: 1})
			if err != nil {
				return err
			}
			j := &job{scorer: v, samples: samplesOf(sample)}
			err = errors.Join(t.run(ctx, j), j.errs[0])
			t.release()
			if err != nil {
				return fmt.Errorf("scorer %s: %w", name, err)
			}
			if i == 0 { // the first run builds the graph: no measure of what follows
				*v.paces[scoring] = pace{}
			}
		}
	}
	return nil
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	handle := func(pattern string, h func(http.ResponseWriter, *http.Request) error) {
		mux.Handle(pattern, s.answer(pattern, h))
	}
	handle("POST /v1/score", s.postScore)
	handle("POST /v1/gradient", s.postGradient)
	handle("POST /score", s.postUniRL)
	handle("GET /rewards", s.getRewards)
	handle("GET /health", s.getHealth)
	mux.Handle("GET /metrics", s.metrics.handler())
	static := func(kind, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src blob: data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'")
			fmt.Fprint(w, body)
		}
	}
	mux.Handle("GET /openapi.json", static("application/json", openapi))
	mux.Handle("GET /{$}", static("text/html; charset=utf-8", page))
	mux.Handle("/", s.answer("other", func(w http.ResponseWriter, r *http.Request) error {
		return problem(http.StatusNotFound, "not_found", "%s %s is not served; see /openapi.json", r.Method, r.URL.Path)
	}))
	return s.guard(http.NewCrossOriginProtection().Handler(mux))
}

//go:embed page.html
var page string

//go:embed openapi.json
var openapi string

// guard wants the token, except for the page (which holds nothing and asks for it), and headers that stop browsers from guessing.
func (s *Server) guard(next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(s.o.Token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if s.o.Token != "" && r.URL.Path != "/" {
			token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
			have := sha256.Sum256([]byte(token)) // equal lengths for the comparison
			if !bearer || subtle.ConstantTimeCompare(have[:], want[:]) != 1 {
				s.metrics.errors.WithLabelValues("unauthorized").Inc()
				w.Header().Set("WWW-Authenticate", "Bearer")
				writeProblem(w, problem(http.StatusUnauthorized, "unauthorized", "a bearer token is wanted"))
				return
			}
		}
		if s.o.Token == "" && !localName(r.Host) { // a page of another site that made its name point here
			writeProblem(w, problem(http.StatusForbidden, "forbidden", "without a token only this machine's own names are answered, not %q", r.Host))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// localName reports whether a Host header names the loopback interface.
func localName(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return host == "localhost" || Loopback(strings.Trim(host, "[]"))
}

// Loopback reports whether a host is a loopback address, or localhost.
func Loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Serve answers on l until ctx ends; then nothing new is admitted, what was admitted is finished (for at most drain), and
// Serve returns.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: s.o.Timeout, WriteTimeout: 2 * s.o.Timeout,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 64 << 10}
	failed := make(chan error, 1)
	go func() { failed <- h.Serve(l) }()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	s.draining.Store(true)
	limit, stop := context.WithTimeout(context.Background(), drain)
	defer stop()
	if err := h.Shutdown(limit); err != nil {
		return errors.Join(fmt.Errorf("requests were not finished after %v: %w", drain, err), h.Close())
	}
	return nil
}

// Close ends the server's work; requests must have ended before.
func (s *Server) Close() { s.queue.close() }
