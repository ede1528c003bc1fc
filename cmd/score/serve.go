package main

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/generate"
	"assay/grammar"
	"assay/internal/cli"
	"assay/model"
	"assay/ort"
	"assay/reward"
	"assay/textjudge"
)

func init() { register(newServeCommand) }

type serveFlags struct {
	scorers   []string
	dimension []string
	addr      string
	tokenFile string
	clients   string
	device    string
	threads   int
	replicas  int
	reusePort bool
	drain     time.Duration
	answers   modelFlags
	judges    []string
	asked     scorerFlags // by the judges
	o         reward.Options
}

func newServeCommand() *cobra.Command {
	f := serveFlags{}
	c := &cobra.Command{
		Use:   "serve --scorer [NAME=]DIR | --chat-backbone [NAME=]DIR | --judge [NAME=]JUDGE",
		Short: "Serve scores and their gradients over HTTP",
		Long: `serve answers trainers of image editors: POST /v1/score, POST /v1/gradient, and /score, /rewards and
/health as UniRL's reward service has them; GET /openapi.json describes all, GET / is a page to try a pair with, GET
/metrics is for Prometheus. docs/reward.md says what to run for which trainer.

With --chat-backbone a checkpoint answers in words, too: POST /v1/chat/completions as OpenAI's protocol has it, with
pictures as data URLs, streamed or not; docs/chat.md says which fields it understands.

With --judge a judge that answers in words gives scores as a scorer does (score judge says which there are). It asks
the model of --url and --model (or --server), or else that of --chat-backbone.

Several scorers are served by name: --scorer adiee=DIR --scorer strict=DIR2; without a name it is the folder's.

On any address but loopback a bearer token is required: the variable ASSAY_TOKEN, --token-file, or --clients, a YAML
file that gives each of several clients a token and a quota. --cert and --key serve HTTPS.

Callers who come together wait for each other: bodies are read when there is memory for them (--memory), and a
request is accepted if its answer is foreseen within --wait; the others get 429 with Retry-After. SIGTERM or Ctrl-C:
no new connection is accepted, what was accepted is answered.`,
		Example: `  score serve --scorer backbones/tiny-scorer
  ASSAY_TOKEN=$(cat token) score serve --scorer adiee=runs/adiee/scorer --addr 0.0.0.0:8100
  score serve --chat-backbone DIR --addr 127.0.0.1:8200
  score serve --judge viescore --url http://localhost:8000/v1 --model NAME
  score serve --scorer runs/adiee/scorer --addr 0.0.0.0:8100 --clients clients.yaml --cert cert.pem --key key.pem`,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c, &f) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.scorers, "scorer", nil, "scorer directory, or name=directory; may be given several times")
	flags.StringArrayVar(&f.dimension, "dimension", nil, "dimension that is reported as the score, of every scorer, or "+
		"scorer=dimension of one; may be given several times (default: what scorer.yaml makes of all)")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8100", "address to listen on")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the bearer token (default: the variable ASSAY_TOKEN)")
	f.answers.add(c, "chat-backbone")
	flags.StringArrayVar(&f.judges, "judge", nil, "judge that answers in words, or name=judge; may be given several times")
	flags.StringVar(&f.asked.settings.Copy, "prompts", "", "folder of the judge's own code, for the published prompts")
	flags.IntVar(&f.asked.settings.Passes, "passes", 0, "how often a judge asks every question (0: as configured)")
	f.asked.answers.addServer(c)
	flags.StringVar(&f.device, "device", "auto", "auto, cpu or cuda:N; or several, with commas between: a copy of every "+
		"scorer on each")
	flags.IntVar(&f.replicas, "replicas", 1, "copies of every scorer on each device; on the CPU they share its threads and "+
		"one set of weights")
	flags.DurationVar(&f.o.Stall, "stall", 5*time.Minute, "how long a run may take before its copy of the scorer is opened "+
		"again; at least ten times as long as foreseen")
	flags.BoolVar(&f.reusePort, "reuse-port", false, "share the port with other servers (SO_REUSEPORT; Linux)")
	flags.IntVar(&f.threads, "threads", 0, "CPU threads (0: all cores)")
	flags.DurationVar(&f.drain, "drain", 2*time.Minute, "how long accepted requests may take after SIGTERM")
	flags.Int64Var(&f.o.MaxBody, "max-body", 64<<20, "bytes of a request")
	flags.Int64Var(&f.o.MaxPixels, "max-pixels", 16<<20, "pixels of a picture")
	flags.IntVar(&f.o.MaxItems, "max-items", 256, "edits of a request")
	flags.IntVar(&f.o.Queue, "queue", 1<<16, "edits that may wait")
	flags.IntVar(&f.o.Batch, "batch", 32, "edits scored in one run")
	flags.Int64Var(&f.o.Memory, "memory", 2<<30, "bytes of requests held at a time")
	flags.DurationVar(&f.o.Wait, "wait", 10*time.Minute, "how long an answer may take, as foreseen, for its request to "+
		"be accepted")
	flags.DurationVar(&f.o.Timeout, "timeout", 15*time.Minute, "of a request")
	flags.StringVar(&f.clients, "clients", "", "YAML file of clients: a list of name, token and, for a quota, "+
		"edits_per_minute")
	flags.StringVar(&f.o.Cert, "cert", "", "certificate (PEM): serve HTTPS")
	flags.StringVar(&f.o.Key, "key", "", "private key (PEM) of --cert")
	for _, name := range []string{"patience", "burst"} { // of earlier versions
		flags.String(name, "", "")
		flags.MarkDeprecated(name, "callers wait for each other; --wait bounds how long")
	}
	return c
}

// check finds all that is wrong with the flags before anything is opened.
func (f *serveFlags) check() error {
	host, _, err := net.SplitHostPort(f.addr)
	switch {
	case len(f.scorers)+len(f.judges) == 0 && f.answers.backbone == "":
		return cli.Usagef("--scorer is needed: a scorer directory, or name=directory (or --judge, or --chat-backbone)")
	case err != nil:
		return cli.Usagef("--addr: %v (host:port is wanted)", err)
	case (f.o.Cert == "") != (f.o.Key == ""):
		return cli.Usagef("--cert and --key go together")
	}
	for name, v := range map[string]int64{"max-body": f.o.MaxBody, "max-pixels": f.o.MaxPixels,
		"max-items": int64(f.o.MaxItems), "queue": int64(f.o.Queue),
		"batch": int64(f.o.Batch), "memory": f.o.Memory, "timeout": int64(f.o.Timeout), "wait": int64(f.o.Wait),
		"drain": int64(f.drain), "stall": int64(f.o.Stall), "replicas": int64(f.replicas)} {
		if v <= 0 {
			return cli.Usagef("--%s must be positive", name)
		}
	}
	f.o.Token = os.Getenv("ASSAY_TOKEN")
	if f.tokenFile != "" {
		raw, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return err
		}
		if f.o.Token = strings.TrimSpace(string(raw)); f.o.Token == "" {
			return cli.Usagef("%s is empty: it must hold the token", f.tokenFile)
		}
	}
	if f.clients != "" {
		raw, err := os.ReadFile(f.clients)
		if err != nil {
			return err
		}
		if f.o.Clients, err = reward.ParseClients(f.clients, raw); err != nil {
			return cli.Usage(err)
		}
	}
	if f.o.Token == "" && len(f.o.Clients) == 0 && !reward.Loopback(host) {
		return cli.Usagef("--addr %s can be reached from other machines: set a bearer token (ASSAY_TOKEN, --token-file or "+
			"--clients)", f.addr)
	}
	if f.o.Cert != "" {
		if _, err := tls.LoadX509KeyPair(f.o.Cert, f.o.Key); err != nil {
			return cli.Usagef("--cert %s, --key %s: %v", f.o.Cert, f.o.Key, err)
		}
	}
	return nil
}

// dimensions are those that are reported as the score, by scorer.
func (f *serveFlags) dimensions() (map[string]string, error) {
	out, every := map[string]string{}, ""
	for _, arg := range f.scorers {
		name, _ := named(arg)
		out[name] = ""
	}
	for _, arg := range f.dimension {
		name, dimension, one := strings.Cut(arg, "=")
		_, known := out[name]
		switch {
		case one && (!known || dimension == ""):
			return nil, cli.Usagef("--dimension %s: want DIMENSION, or SCORER=DIMENSION of a scorer that is served", arg)
		case one:
			out[name] = dimension
		case every != "" && every != arg:
			return nil, cli.Usagef("--dimension %s and %s: say whose each is, as SCORER=DIMENSION", every, arg)
		default:
			every = arg
		}
	}
	for name := range out {
		if out[name] == "" {
			out[name] = every
		}
	}
	return out, nil
}

func serve(c *cobra.Command, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	dimensions, err := f.dimensions()
	if err != nil {
		return err
	}
	var names []string
	var scorers []reward.Scorer
	var local chat.Model
	if f.answers.backbone != "" {
		m, err := f.openChat()
		if err != nil {
			return err
		}
		defer m.Close()
		local = m
	}
	for _, arg := range f.scorers {
		name, dir := named(arg)
		s, err := f.replicate(dir, dimensions[name])
		if err != nil {
			return err
		}
		defer s.Close()
		names, scorers = append(names, name), append(scorers, reward.Scorer(s))
	}
	if len(f.judges) > 0 {
		m, err := f.openJudged(c, local)
		if err != nil {
			return err
		}
		defer m.Close()
		for _, arg := range f.judges {
			name, s, err := f.openJudge(c, arg, m)
			if err != nil {
				return err
			}
			names, scorers = append(names, name), append(scorers, reward.Scorer(s))
		}
	}
	if os.Getenv("GOMEMLIMIT") == "" { // what the bodies were read from is cleared away before it takes as much again
		debug.SetMemoryLimit(f.o.Memory + f.o.Memory/4 + 1<<29)
	}
	f.o.Warn = cli.Warner(c)
	s, err := reward.NewServer(f.o, names, scorers)
	if err != nil {
		return cli.Usage(err)
	}
	defer s.Close()
	if err := s.Warm(c.Context()); err != nil {
		return err
	}
	listen := reward.Listen
	if f.reusePort {
		listen = reward.ListenShared
	}
	l, err := listen(c.Context(), f.addr)
	if err != nil {
		return err
	}
	scheme := "http://"
	if f.o.Cert != "" {
		scheme = "https://"
	}
	ready := map[string]any{"address": scheme + l.Addr().String(), "scorers": names}
	for _, m := range f.o.Chat {
		names = append(names, m.Name)
		ready["chat"] = m.Name
	}
	err = cli.Print(c, ready, func(w io.Writer) {
		fmt.Fprintf(w, "serving %s on %s%s (Ctrl-C ends it)\n", strings.Join(names, ", "), scheme, l.Addr())
	})
	if err != nil {
		return err
	}
	return s.Serve(c.Context(), l, f.drain)
}

// cudaTolerance is how far scores01 of copies on CUDA devices may be apart: their kernels are chosen by timing.
const cudaTolerance = 1e-3

// replicate opens the copies of a scorer: so many on each device.
func (f *serveFlags) replicate(dir, dimension string) (*reward.Replicated, error) {
	devices := strings.Split(f.device, ",")
	seen := map[string]bool{}
	tolerance, onCPU := 0.0, 0
	for i, name := range devices {
		if err := ort.CheckDevice(name); err != nil {
			return nil, cli.Usage(err)
		}
		var err error
		if devices[i], err = ort.Resolve(name); err != nil {
			return nil, err
		}
		if seen[devices[i]] {
			return nil, cli.Usagef("--device %s: %s is there twice; --replicas says how many copies are on each", f.device,
				devices[i])
		}
		if seen[devices[i]] = true; devices[i] == "cpu" {
			onCPU = f.replicas
		} else {
			tolerance = cudaTolerance
		}
	}
	one := runtimeFlags{scorer: dir, threads: f.threads, dimension: dimension}
	if one.threads == 0 && onCPU > 1 {
		one.threads = runtime.NumCPU()
	}
	if one.threads > 0 && onCPU > 1 {
		one.threads = max(one.threads/onCPU, 1)
	}
	return reward.Replicate(f.replicas*len(devices), tolerance, func(i int) (reward.Scorer, error) {
		own := one
		own.device = devices[i%len(devices)]
		return own.open()
	})
}

// named splits NAME=DIR; without a name it is the folder's.
func named(arg string) (name, dir string) {
	if name, dir, ok := strings.Cut(arg, "="); ok {
		return name, dir
	}
	if abs, err := filepath.Abs(arg); err == nil {
		name = filepath.Base(abs)
	}
	return name, arg
}

// openChat opens the checkpoint that answers in words.
func (f *serveFlags) openChat() (*generate.Model, error) {
	name, dir := named(f.answers.backbone)
	f.answers.backbone, f.answers.o.Threads = dir, f.threads
	m, err := f.answers.open()
	if err != nil {
		return nil, err
	}
	f.o.Chat = []reward.NamedModel{{Name: name, ChatModel: m}}
	return m, nil
}

// stays is a model that somebody else closes.
type stays struct{ chat.Model }

func (stays) Close() error { return nil }

func (s stays) Follows(g *grammar.Grammar) error { return chat.Follows(s.Model, g) }

// openJudged opens the model that the judges ask: on a server, or the local one.
func (f *serveFlags) openJudged(c *cobra.Command, local chat.Model) (*chatModel, error) {
	a := &f.asked.answers
	if a.url == "" && a.server == "" && local != nil {
		m := &chatModel{model: stays{local}}
		return m.keep(a.store)
	}
	if a.url == "" && a.server == "" {
		return nil, cli.Usagef("--judge asks a model: give --url and --model (or --server), or --chat-backbone")
	}
	return a.open(c)
}

// openJudge opens a judge, named as scorers are.
func (f *serveFlags) openJudge(c *cobra.Command, arg string, m *chatModel) (string, *textjudge.Scorer, error) {
	name, config := named(arg)
	j, err := f.asked.judgeOver(c, config, m)
	if err != nil {
		return "", nil, err
	}
	workers := f.answers.o.Batch
	if m.remote != nil {
		workers = m.remote.Concurrency()
	}
	s, err := j.Scorer(workers)
	return name, s, cli.Usage(err)
}

var (
	_ reward.Scorer = (*model.Scorer)(nil)
	_ reward.Scorer = (*textjudge.Scorer)(nil)
)
