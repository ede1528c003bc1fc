// Package reward serves scorers to trainers of image editors: scores and gradients over HTTP.
//
// Every request goes through the front, which authenticates the client, limits the time, and writes and counts
// errors. A handler, in a file for each protocol, parses it into items: an edit and the scorer to judge it. The
// engine scores or differentiates them:
//
//	front -> handler: body (within the memory limit) -> items
//	         engine: groups of one source -> admission -> decoder -> queue -> workers -> copies of a scorer
//	      <- handler: answer <- items with a score, a gradient or an error
//
// A new protocol needs a file of handlers, and their lines in Server.routes.
package reward

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"assay/edit"
	"assay/internal/graceful"
	"assay/internal/reward/conn"
	"assay/internal/reward/once"
)

// Options configure a server. Zero values are the defaults, which the comments give last.
type Options struct {
	Token     string        // required as a bearer token, at least eight characters; "": no token
	Clients   []Client      // clients with their own tokens and quotas; a request needs one of these tokens, or Token
	Cert, Key string        // TLS files; "": plain HTTP
	MaxBody   int64         // bytes of a request; 64 MiB
	MaxPixels int64         // of one picture, from its header; 16 Mi
	MaxItems  int           // edits of one request; 256
	Queue     int           // queued edits of all requests; 65,536
	Batch     int           // edits scored in one run; 32
	Memory    int64         // bytes of requests held at a time; 2 GiB
	Wait      time.Duration // longest estimated time of an admitted request, and longest wait for memory; 10 minutes
	Timeout   time.Duration // from the header of a request to its answer; 15 minutes
	Pictures  int64         // bytes of decoded pictures kept for later requests; 128 MiB
	Answers   int64         // bytes of answers kept for retries of requests with an id; 64 MiB
	AnswerAge time.Duration // how long they are kept at most; 10 minutes
	SleepWait time.Duration // longest wait of a request while the scorers are asleep; a minute
	PerCall   bool          // the scorers sleep whenever there is no request, and a request wakes them
	Devices   []string      // CUDA devices of the scorers, whose memory is reported
	Chat      []NamedModel  // models for /v1/chat/completions; the first one is the default
	Warn      func(string)  // called when copies of scorers fail; may be nil

	// Stall is the longest time of a run before its replica is given up, but always at least ten times its estimate.
	// 0: 5 minutes, or Timeout if there is only one replica. See [Replicated].
	Stall time.Duration
}

func (o *Options) fill() {
	o.MaxBody, o.MaxPixels = cmp.Or(o.MaxBody, 64<<20), cmp.Or(o.MaxPixels, 16<<20)
	o.MaxItems, o.Queue, o.Batch = cmp.Or(o.MaxItems, 256), cmp.Or(o.Queue, 1<<16), cmp.Or(o.Batch, 32)
	o.Memory = cmp.Or(o.Memory, 2<<30)
	o.Pictures, o.Answers = cmp.Or(o.Pictures, 128<<20), cmp.Or(o.Answers, 64<<20)
	o.AnswerAge, o.SleepWait = cmp.Or(o.AnswerAge, 10*time.Minute), cmp.Or(o.SleepWait, time.Minute)
	o.Wait, o.Timeout = cmp.Or(o.Wait, 10*time.Minute), cmp.Or(o.Timeout, 15*time.Minute)
}

// Server answers HTTP requests with scores.
type Server struct {
	o       Options
	engine  *engine
	front   *front
	chats   chan struct{} // one entry for each chat request in progress
	handler http.Handler
	child   childPrint

	once    *once.Cache[*response] // of requests with an id
	working sync.WaitGroup         // work of requests with an id
	ending  context.Context        // ends when the server is closed
	end     context.CancelFunc
}

// NewServer returns a server for named scorers; the first one is the default for requests that name none. Scorers
// with several replicas are [Replicated]. Close closes the server, but not the scorers.
func NewServer(o Options, names []string, scorers []edit.Judge) (*Server, error) {
	o.fill()
	clients, err := newClients(o.Clients, o.Token)
	if err != nil {
		return nil, err
	}
	set, err := newScorerSet(names, scorers)
	if err != nil {
		return nil, err
	}
	if err := checkChat(o.Chat); err != nil {
		return nil, err
	}
	if len(names)+len(o.Chat) == 0 {
		return nil, errors.New("no scorer to serve")
	}
	if o.Stall == 0 {
		if o.Stall = o.Timeout; set.copies() > 1 {
			o.Stall = 5 * time.Minute
		}
	}
	s := &Server{o: o, engine: newEngine(o, set, clients), chats: make(chan struct{}, maxChats)}
	s.once = once.New[*response](o.Answers, o.AnswerAge)
	s.ending, s.end = context.WithCancel(context.Background())
	memory := newMemory(o.Memory, o.MaxBody)
	s.engine.metrics.memory(memory)
	s.front = &front{
		timeout: o.Timeout,
		clients: clients,
		bodies:  &bodies{max: o.MaxBody, wait: o.Wait, memory: memory, payer: clients.payer},
		metrics: s.engine.metrics,
	}
	s.handler = s.newHandler()
	return s, nil
}

// Warm scores small edits with every replica of every scorer, so that graphs are built and times are known before the
// first request. It is an error if replicas disagree. With Options.PerCall the scorers are then put to sleep.
func (s *Server) Warm(ctx context.Context) error {
	err := s.engine.scorers.warm(ctx)
	if err == nil && s.engine.gate.PerCall {
		err = s.engine.gate.Close(ctx)
	}
	return err
}

// route is a served path. The error that answer returns is written as JSON.
type route struct {
	method, path string
	answer       func(http.ResponseWriter, *http.Request) error
}

func (s *Server) routes() []route {
	return append(s.flowRoutes(), []route{
		{"POST", "/v1/score", s.postScore},
		{"GET", "/v1/limits", s.limits},
		{"GET", "/v1/judges", s.judges},
		{"POST", "/v1/sleep", s.postSleep},
		{"POST", "/v1/wake", s.postWake},
		{"POST", "/v1/gradient", s.postGradient},
		{"POST", "/v1/chat/completions", s.postChat},
		{"GET", "/v1/models", s.listModels},
		{"POST", "/score", s.postUniRL},
		{"GET", "/rewards", s.rewards},
		{"POST", "/lifecycle/{action}", s.lifecycle},
		{"GET", "/health", s.health},
		{"GET", livePath, s.live},
		{"GET", readyPath, s.ready},
	}...)
}

// read rejects a request if not even one item would be admitted, and otherwise decodes its body: see [bodies.read].
func (s *Server) read(
	w http.ResponseWriter, r *http.Request, kind jobKind, v any, field func(name string, value []byte) error,
) (*memoryHold, error) {
	first, err := s.engine.scorers.find("")
	if err == nil {
		err = s.engine.queue.probe(first.estimators[kind])
	}
	if err != nil {
		return nil, err
	}
	return s.front.bodies.read(w, r, v, field)
}

// countItems checks that there is at least one item, and at most as many as a request may have.
func (s *Server) countItems(what string, n int) error {
	if n > s.o.MaxItems {
		return tooMany("%d %s, at most %d per request", n, what, s.o.MaxItems)
	}
	if n == 0 {
		return badRequest("%s is empty: want at least one", what)
	}
	return nil
}

func (s *Server) newHandler() http.Handler {
	mux := http.NewServeMux()
	methods := map[string][]string{} // of each path
	add := func(method, path string, h http.Handler) {
		mux.Handle(method+" "+path, h)
		name := strings.TrimSuffix(path, "{$}")
		if methods[name] = append(methods[name], method); method == http.MethodGet {
			methods[name] = append(methods[name], http.MethodHead)
		}
	}
	for _, r := range s.routes() {
		add(r.method, r.path, s.front.handle(r.method+" "+r.path, r.answer))
	}
	add("GET", "/metrics", s.engine.metrics.handler())
	add("GET", "/openapi.json", static("application/json", openapi))
	add("GET", "/{$}", static("text/html; charset=utf-8", page))
	mux.Handle("/", s.front.handle("other", func(w http.ResponseWriter, r *http.Request) error {
		if allowed := methods[r.URL.Path]; allowed != nil {
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			return apiErrorf(http.StatusMethodNotAllowed, "method", "%s supports %s, not %s",
				r.URL.Path, strings.Join(allowed, " and "), r.Method)
		}
		return apiErrorf(http.StatusNotFound, "not_found", "%s %s does not exist; see /openapi.json", r.Method, r.URL.Path)
	}))
	same := http.NewCrossOriginProtection()
	same.SetDenyHandler(s.front.handle("other", func(http.ResponseWriter, *http.Request) error {
		return apiErrorf(http.StatusForbidden, "forbidden", "cross-origin requests are not allowed")
	}))
	return s.front.guard(same.Handler(s.front.redirect(mux)))
}

// static serves a text that loads nothing from other origins.
func static(contentType, body string) http.HandlerFunc {
	const policy = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; " +
		"img-src blob: data:; connect-src 'self'; form-action 'none'; frame-ancestors 'none'; base-uri 'none'"
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Security-Policy", policy)
		write(w, http.StatusOK, contentType, []byte(body))
	}
}

//go:embed page.html
var page string

//go:embed openapi.json
var openapi string

// Serve answers on l, from [graceful.Listen], until ctx ends. Then it accepts no more connections, answers accepted
// requests for at most drain, and returns.
func (s *Server) Serve(ctx context.Context, l net.Listener, drain time.Duration) error {
	return graceful.Serve(ctx, l, graceful.Options{
		Handler: s,
		Cert:    s.o.Cert,
		Key:     s.o.Key,
		Wrap:    conn.JSONErrors,
		Drain:   drain,
		Ending:  func() { s.front.draining.Store(true) },
	})
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Close stops the work of the server; requests must have ended before.
func (s *Server) Close() {
	s.end()
	s.working.Wait()
	s.engine.queue.close()
}
