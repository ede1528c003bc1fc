package score

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/generate"
	"assay/internal/graceful"
	"assay/internal/grammar"
	"assay/internal/reward"
)

func init() { register(newServeCommand) }

func newServeCommand() *cobra.Command {
	f := serveFlags{}
	c := &cobra.Command{
		Use:   "serve --scorer [NAME=]DIR | --chat-backbone [NAME=]DIR | --judge [NAME=]JUDGE",
		Short: "Serve scores and their gradients over HTTP",
		Long: `serve is a reward server for trainers of image editors: POST /v1/score, POST /v1/gradient, and UniRL's /score,
/rewards and /health. POST /v1/sleep takes the weights off the device until POST /v1/wake. GET / is a page to try an
edit, GET /openapi.json the description, GET /metrics is for Prometheus. docs/reward.md says what to run for which
trainer.

Several scorers are served by name: --scorer adiee=DIR --scorer strict=DIR2 (default: the folder's name), and so are
metrics: --scorer clip=metric:clip_t_instruction:ENCODER. One request may use several of them. --judge serves a VLM
judge, which asks the model of --url and --model (or --server), or of --chat-backbone. --chat-backbone also serves a
checkpoint's answers, as POST /v1/chat/completions in OpenAI's protocol (docs/chat.md).

--device cuda:0,cuda:1 and --replicas open copies of every scorer behind one queue; a copy that fails is reopened. GET
/livez and /readyz are for Kubernetes. With --reuse-port several servers share an address.

Addresses other than loopback require a bearer token: the variable ASSAY_TOKEN, --token-file, or --clients, a YAML file
with a token and an optional quota for each client. --cert and --key serve HTTPS.

Bursts of requests wait in a queue, and bodies are read as memory allows (--memory). A request that is not expected to
be answered within --wait gets 429 with Retry-After. On SIGTERM or Ctrl-C the server stops accepting connections and
answers what it accepted.`,
		Example: `  score serve --scorer backbones/tiny-scorer
  ASSAY_TOKEN=$(cat token) score serve --scorer adiee=runs/adiee/scorer --addr 0.0.0.0:8100
  score serve --chat-backbone DIR --addr 127.0.0.1:8200
  score serve --scorer backbones/tiny-scorer --replicas 2
  score serve --scorer adiee=runs/adiee/scorer --scorer clip=metric:clip_t_instruction:clip-vit-large-patch14
  score serve --scorer runs/adiee/scorer --mode per_call
  score serve --judge viescore --url http://localhost:8000/v1 --model NAME
  score serve --scorer runs/adiee/scorer --addr 0.0.0.0:8100 --clients clients.yaml --cert cert.pem --key key.pem`,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c, &f) },
	}
	f.add(c)
	return c
}

func serve(c *cobra.Command, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	dimensions, err := f.byScorer("dimension", f.dimension)
	if err != nil {
		return err
	}
	backbones, err := f.byScorer("backbone", f.backbone)
	if err != nil {
		return err
	}
	var names []string
	var scorers []edit.Judge
	var local chat.Model
	if f.answers.backbone != "" {
		m, err := f.openChat(c)
		if err != nil {
			return err
		}
		defer m.Close()
		local = m
	}
	for _, arg := range f.scorers {
		name, _ := named(arg)
		name, s, err := f.openServed(c, arg, runtimeFlags{dimension: dimensions[name], backbone: backbones[name]})
		if err != nil {
			return err
		}
		defer s.Close()
		names, scorers = append(names, name), append(scorers, s)
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
			names, scorers = append(names, name), append(scorers, s)
		}
	}
	if os.Getenv("GOMEMLIMIT") == "" { // garbage of read bodies is collected before it takes as much again
		debug.SetMemoryLimit(f.o.Memory + f.o.Memory/4 + f.o.Pictures + f.o.Answers + 1<<29)
	}
	f.o.Warn = cli.Warner(c)
	return f.listen(c, names, scorers)
}

// listen answers requests to the scorers until c's context ends.
func (f *serveFlags) listen(c *cobra.Command, names []string, scorers []edit.Judge) error {
	s, err := reward.NewServer(f.o, names, scorers)
	if err != nil {
		return exit.Usage(err)
	}
	defer s.Close()
	if err := s.Warm(c.Context()); err != nil {
		return err
	}
	listen := graceful.Listen
	if f.reusePort {
		listen = graceful.ListenShared
	}
	l, err := listen(c.Context(), f.addr)
	if err != nil {
		return fmt.Errorf("%w: use --addr HOST:PORT for another address", err)
	}
	if host, _, err := net.SplitHostPort(l.Addr().String()); strings.HasPrefix(f.addr, "fd:") && err == nil {
		if err := f.checkReach(host, l.Addr().String()); err != nil {
			return err
		}
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
		fmt.Fprintf(w, "serving %s on %s%s (Ctrl-C to stop)\n", strings.Join(names, ", "), scheme, l.Addr())
	})
	if err != nil {
		return err
	}
	return s.Serve(c.Context(), l, f.drain)
}

// named splits NAME=DIR; the default name is the folder's.
func named(arg string) (name, dir string) {
	if name, dir, ok := strings.Cut(arg, "="); ok {
		return name, dir
	}
	if abs, err := filepath.Abs(arg); err == nil {
		name = filepath.Base(abs)
	}
	return name, arg
}

// openChat opens the checkpoint that answers chat requests.
func (f *serveFlags) openChat(c *cobra.Command) (*sleepingModel, error) {
	name, dir := named(f.answers.backbone)
	f.answers.backbone, f.answers.o.Threads = dir, f.threads
	f.answers.o.Device, _, _ = strings.Cut(f.device, ",")
	m, err := newSleepingModel(func() (*generate.Model, error) { return f.answers.open(c) })
	if err != nil {
		return nil, err
	}
	f.o.Chat = []reward.NamedModel{{Name: name, ChatModel: m}}
	return m, nil
}

// stays is a model that its owner closes: Close does nothing.
type stays struct{ chat.Model }

func (stays) Close() error { return nil }

func (s stays) Follows(g *grammar.Grammar) error { return chat.Follows(s.Model, g) }

// openJudged opens the model that the judges ask: on a server, or the local one.
func (f *serveFlags) openJudged(c *cobra.Command, local chat.Model) (*chat.Kept, error) {
	a := &f.asked.answers
	if a.url == "" && a.server == "" && local != nil {
		return chat.OpenKept(stays{local}, a.store, nil)
	}
	if a.url == "" && a.server == "" {
		return nil, exit.Usagef("--judge asks a model: give --url and --model (or --server), or --chat-backbone")
	}
	return a.open(c)
}

// openJudge opens a judge, which is named like scorers.
func (f *serveFlags) openJudge(c *cobra.Command, arg string, m *chat.Kept) (string, edit.Judge, error) {
	name, config := named(arg)
	j, err := f.asked.judgeOver(c, config, m)
	if err != nil {
		return "", nil, err
	}
	s, err := j.Scorer(m.Concurrency(f.answers.o.Batch))
	return name, s, exit.Usage(err)
}
