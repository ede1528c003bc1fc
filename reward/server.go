// Package reward serves scorers to trainers of image editors: scores and gradients over HTTP.
package reward

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"assay/internal/graceful"
)

// Options are the limits of a server. Zero values stand for the defaults.
type Options struct {
	Token     string        // wanted as a bearer token, of at least eight characters; "": no token
	Clients   []Client      // tokens of several, with quotas; a request must bear one of them, or Token
	Cert, Key string        // files of TLS; "": plain HTTP
	MaxBody   int64         // bytes of a request; 64 MiB
	MaxPixels int64         // of one picture, as its header says; 16 Mi
	MaxItems  int           // edits of one request; 256
	Queue     int           // edits that wait, of all requests; 65,536
	Batch     int           // edits scored in one run; 32
	Memory    int64         // bytes of requests held at a time; 2 GiB
	Wait      time.Duration // longest estimated time of an admitted request, and longest wait for memory; 10 minutes
	Timeout   time.Duration // from the head of a request to its answer; 15 minutes
	Chat      []NamedModel  // models that answer /v1/chat/completions; the first one, requests that name none
	Warn      func(string)  // told of copies of scorers that failed; nil: nobody

	// Stall is how long a run may take before its copy of the scorer is given up: this long at least, and ten times as
	// long as foreseen. 5 minutes; where there is one copy alone, Timeout. See [Replicated].
	Stall time.Duration
}

func (o *Options) fill() {
	for v, d := range map[*int64]int64{&o.MaxBody: 64 << 20, &o.MaxPixels: 16 << 20, &o.Memory: 2 << 30} {
		if *v == 0 {
			*v = d
		}
	}
	for v, d := range map[*int]int{&o.MaxItems: 256, &o.Queue: 1 << 16, &o.Batch: 32} {
		if *v == 0 {
			*v = d
		}
	}
	for v, d := range map[*time.Duration]time.Duration{&o.Wait: 10 * time.Minute, &o.Timeout: 15 * time.Minute} {
		if *v == 0 {
			*v = d
		}
	}
}

// Server answers HTTP requests with scores.
type Server struct {
	o        Options
	scorers  map[string]*served
	names    []string
	clients  []*client
	queue    *queue
	metrics  *metrics
	memory   *memory             // bytes of requests
	slotPool *semaphore.Weighted // memory slots
	slots    int64               // how many there are
	decoding chan struct{}       // one entry for each picture that is being decoded
	decoder  *estimator          // of decoding and preparing
	chats    chan struct{}       // one entry for each chat request that is held
	draining atomic.Bool
	handler  http.Handler
}

// served is a scorer under a name.
type served struct {
	*Replicated
	estimators [2]*estimator // by kind
}

// NewServer makes a server of scorers by name; the first one answers requests that name none. Those of which there are
// several copies are [Replicated]. Close ends it, but not the scorers.
func NewServer(o Options, names []string, scorers []Scorer) (*Server, error) {
	o.fill()
	s := &Server{
		o:        o,
		scorers:  map[string]*served{},
		memory:   newMemory(o.Memory, o.MaxBody),
		decoding: make(chan struct{}, runtime.NumCPU()),
		decoder:  &estimator{pixels: true},
		chats:    make(chan struct{}, mostChats),
	}
	var err error
	if s.clients, err = checkClients(o.Clients, o.Token); err != nil {
		return nil, err
	}
	workers := 1
	for i, name := range names {
		if name == "" || strings.ContainsAny(name, " \t\r\n/") || s.scorers[name] != nil {
			return nil, fmt.Errorf("scorer name %q: want a name of its own, without spaces and slashes", name)
		}
		copies, ok := scorers[i].(*Replicated)
		if !ok {
			copies = single(scorers[i])
		}
		copies.name = name
		s.scorers[name] = &served{copies, [2]*estimator{{}, {}}}
		s.names, workers = append(s.names, name), max(workers, len(copies.at))
	}
	if o.Stall == 0 {
		if o.Stall = o.Timeout; workers > 1 {
			o.Stall = 5 * time.Minute
		}
	}
	s.slots = int64(workers+1) * int64(o.Batch)
	s.slotPool = semaphore.NewWeighted(s.slots)
	if err := checkChat(o.Chat); err != nil {
		return nil, err
	}
	if len(names)+len(o.Chat) == 0 {
		return nil, errors.New("no scorer to serve")
	}
	s.metrics = newMetrics(func() float64 { return float64(s.queue.waiting()) },
		func() float64 { return s.queue.foreseen().Seconds() })
	s.metrics.memory(s.memory)
	s.queue = newQueue(o, workers, func(n int) { s.metrics.batch.Observe(float64(n)) },
		func(d time.Duration) { s.metrics.delay.Observe(d.Seconds()) })
	s.watch()
	s.handler = s.routes()
	return s, nil
}

// watch tells the queue and the metrics of the copies that come and go.
func (s *Server) watch() {
	var all []*served
	for _, name := range s.names {
		all = append(all, s.scorers[name])
	}
	for _, v := range all {
		v.changed = func() { s.queue.changed(all) }
		if s.o.Warn != nil {
			v.warn = s.o.Warn
		}
		if v.open != nil {
			s.metrics.copies(v.Replicated)
		}
	}
}

// Warm scores a small pair with every copy of every scorer, so that graphs are built, and times known, before the first
// request. Copies that disagree are an error.
func (s *Server) Warm(ctx context.Context) error {
	for _, name := range s.names {
		v := s.scorers[name]
		if v.inWords() {
			continue // to ask costs
		}
		if err := v.warm(ctx, func(d time.Duration) { v.estimators[scoreKind].observe(1, d) }); err != nil {
			return fmt.Errorf("scorer %s: %w", name, err)
		}
	}
	return nil
}

// route is one path that is served, and how.
type route struct {
	method, path string
	handler      http.Handler
}

func (s *Server) routes() http.Handler {
	api := func(method, path string, h func(http.ResponseWriter, *http.Request) error) route {
		return route{method, path, s.handle(method+" "+path, h)}
	}
	mux := http.NewServeMux()
	methods := map[string][]string{} // of each path
	for _, r := range []route{
		api("POST", "/v1/score", s.postScore),
		api("POST", "/v1/gradient", s.postGradient),
		api("POST", "/v1/chat/completions", s.postChat),
		api("GET", "/v1/models", s.getModels),
		api("GET", "/v1/limits", s.getLimits),
		api("POST", "/score", s.postUniRL),
		api("GET", "/rewards", s.getRewards),
		api("GET", "/health", s.getHealth),
		api("GET", livePath, s.getLive),
		api("GET", readyPath, s.getReady),
		{"GET", "/metrics", s.metrics.handler()},
		{"GET", "/openapi.json", static("application/json", openapi)},
		{"GET", "/{$}", static("text/html; charset=utf-8", page)},
	} {
		mux.Handle(r.method+" "+r.path, r.handler)
		name := strings.TrimSuffix(r.path, "{$}")
		if methods[name] = append(methods[name], r.method); r.method == http.MethodGet {
			methods[name] = append(methods[name], http.MethodHead)
		}
	}
	mux.Handle("/", s.handle("other", func(w http.ResponseWriter, r *http.Request) error {
		if allowed := methods[r.URL.Path]; allowed != nil {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return apiErrorf(http.StatusMethodNotAllowed, "method", "%s takes %s, not %s",
				r.URL.Path, strings.Join(allowed, " and "), r.Method)
		}
		return apiErrorf(http.StatusNotFound, "not_found",
			"%s %s is not served; see /openapi.json", r.Method, r.URL.Path)
	}))
	same := http.NewCrossOriginProtection()
	same.SetDenyHandler(s.handle("other", func(http.ResponseWriter, *http.Request) error {
		return apiErrorf(http.StatusForbidden, "forbidden", "pages of other sites must not call this server")
	}))
	return s.guard(same.Handler(s.redirect(mux)))
}

// redirect answers requests for paths such as //health with the clean path, as http.ServeMux does, but in JSON.
func (s *Server) redirect(mux *http.ServeMux) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given := r.URL.EscapedPath()
		clean := path.Clean("/" + given)
		if strings.HasSuffix(given, "/") && clean != "/" {
			clean += "/"
		}
		if clean == given || given == "*" || r.Method == http.MethodConnect {
			mux.ServeHTTP(w, r)
			return
		}
		to := clean // as it came, escapes included
		if r.URL.RawQuery != "" {
			to += "?" + r.URL.RawQuery
		}
		s.handle("other", func(w http.ResponseWriter, _ *http.Request) error {
			w.Header().Set("Location", to)
			return apiErrorf(http.StatusTemporaryRedirect, "redirect", "ask for %s", to)
		}).ServeHTTP(w, r)
	})
}

// static serves a text that needs nothing from elsewhere.
func static(contentType, body string) http.HandlerFunc {
	const policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
		"img-src blob: data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		writeBytes(w, contentType, []byte(body))
	}
}

//go:embed page.html
var page string

//go:embed openapi.json
var openapi string

// guard wants a token, except for the page, which holds no data and asks for the token. It sets headers that keep
// browsers from guessing types and from caching.
func (s *Server) guard(next http.Handler) http.Handler {
	stop := func(f *apiError) http.Handler {
		return s.handle("other", func(http.ResponseWriter, *http.Request) error { return f })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		w.Header().Set("Cache-Control", "no-store")
		if s.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		if r.URL.Path == livePath || r.URL.Path == readyPath { // asked by machines without a token; they tell little
			next.ServeHTTP(w, r)
			return
		}
		if len(s.clients) == 0 && !localName(r.Host) { // DNS rebinding: another site's name that points here
			f := apiErrorf(http.StatusForbidden, "forbidden",
				"without a token only this machine's own names are answered, not %q", r.Host)
			stop(f).ServeHTTP(w, r)
			return
		}
		if len(s.clients) > 0 && r.URL.Path != "/" {
			c := s.authenticate(r)
			if c == nil {
				w.Header().Set("WWW-Authenticate", "Bearer")
				stop(apiErrorf(http.StatusUnauthorized, "unauthorized", "a bearer token is wanted")).ServeHTTP(w, r)
				return
			}
			r = r.WithContext(context.WithValue(r.Context(), clientKey{}, c))
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

// Serve answers on l, from [graceful.Listen], until ctx ends. Then it accepts no more connections, answers what was
// accepted, for at most drain, and returns.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	return graceful.Serve(ctx, l, graceful.Options{
		Handler: s,
		Cert:    s.o.Cert,
		Key:     s.o.Key,
		Wrap:    func(l net.Listener) net.Listener { return jsonListener{l} },
		Drain:   drain,
		Ending:  func() { s.draining.Store(true) },
	})
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close ends the server's work; requests must have ended before.
func (s *Server) Close() { s.queue.close() }
