package main

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/model"
	"assay/reward"
)

func init() { register(newServeCommand) }

type serveFlags struct {
	scorers   []string
	addr      string
	tokenFile string
	device    string
	threads   int
	drain     time.Duration
	o         reward.Options
}

func newServeCommand() *cobra.Command {
	f := serveFlags{}
	c := &cobra.Command{
		Use:   "serve --scorer [NAME=]DIR",
		Short: "Serve scores and their gradients over HTTP",
		Long: `serve answers trainers of image editors: POST /v1/score, POST /v1/gradient, and /score, /rewards and /health as UniRL's reward
service has them; GET /openapi.json describes all, GET / is a page to try a pair with, GET /metrics is for Prometheus.
docs/reward.md says what to run for which trainer.

Several scorers are served by name: --scorer adiee=DIR --scorer strict=DIR2; without a name it is the folder's.

On any address but loopback a bearer token is required: the variable ASSAY_TOKEN or --token-file. A request is accepted only
if it, and all that wait already, will be done in about 1 + patience times what each would take alone; the others get 429
with Retry-After at once. SIGTERM or Ctrl-C: nothing new is accepted, what was accepted is answered.`,
		Example: `  score serve --scorer backbones/tiny-scorer
  ASSAY_TOKEN=$(cat token) score serve --scorer adiee=runs/adiee/scorer --addr 0.0.0.0:8100`,
		RunE: func(c *cobra.Command, _ []string) error { return serve(c, &f) },
	}
	flags := c.Flags()
	flags.StringArrayVar(&f.scorers, "scorer", nil, "scorer directory, or name=directory; may be given several times")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8100", "address to listen on")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the bearer token (default: the variable ASSAY_TOKEN)")
	flags.StringVar(&f.device, "device", "auto", "auto, cpu or cuda:N")
	flags.IntVar(&f.threads, "threads", 0, "CPU threads (0: all cores)")
	flags.DurationVar(&f.drain, "drain", 2*time.Minute, "how long accepted requests may take after SIGTERM")
	flags.Int64Var(&f.o.MaxBody, "max-body", 64<<20, "bytes of a request")
	flags.Int64Var(&f.o.MaxPixels, "max-pixels", 16<<20, "pixels of a picture")
	flags.IntVar(&f.o.MaxItems, "max-items", 256, "edits of a request")
	flags.IntVar(&f.o.Queue, "queue", 1024, "edits that may wait")
	flags.IntVar(&f.o.Batch, "batch", 32, "edits scored in one run")
	flags.Int64Var(&f.o.Memory, "memory", 1<<30, "bytes of requests held at a time")
	flags.DurationVar(&f.o.Timeout, "timeout", time.Minute, "of a request")
	flags.Float64Var(&f.o.Patience, "patience", 0.8, "a request may wait this many times what it takes alone")
	flags.IntVar(&f.o.Burst, "burst", 8, "requests accepted beyond that after a second of rest: callers that come all at once")
	return c
}

// check finds all that is wrong with the flags before anything is opened.
func (f *serveFlags) check() error {
	host, _, err := net.SplitHostPort(f.addr)
	switch {
	case len(f.scorers) == 0:
		return cli.Usagef("--scorer is needed: a scorer directory, or name=directory")
	case err != nil:
		return cli.Usagef("--addr: %v (host:port is wanted)", err)
	case f.o.Patience < 0 || f.o.Burst < 0:
		return cli.Usagef("--patience and --burst must not be negative")
	}
	for name, v := range map[string]int64{"max-body": f.o.MaxBody, "max-pixels": f.o.MaxPixels, "max-items": int64(f.o.MaxItems), "queue": int64(f.o.Queue),
		"batch": int64(f.o.Batch), "memory": f.o.Memory, "timeout": int64(f.o.Timeout), "drain": int64(f.drain)} {
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
	if f.o.Token == "" && !reward.Loopback(host) {
		return cli.Usagef("--addr %s can be reached from other machines: set a bearer token (ASSAY_TOKEN or --token-file)", f.addr)
	}
	return nil
}

func serve(c *cobra.Command, f *serveFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	var names []string
	var scorers []reward.Scorer
	for _, arg := range f.scorers {
		name, dir, named := strings.Cut(arg, "=")
		if !named {
			name, dir = "", arg
			if abs, err := filepath.Abs(dir); err == nil {
				name = filepath.Base(abs)
			}
		}
		one := runtimeFlags{scorer: dir, device: f.device, threads: f.threads}
		s, err := one.open()
		if err != nil {
			return err
		}
		defer s.Close()
		names, scorers = append(names, name), append(scorers, reward.Scorer(s))
	}
	s, err := reward.NewServer(f.o, names, scorers)
	if err != nil {
		return cli.Usage(err)
	}
	defer s.Close()
	if err := s.Warm(c.Context()); err != nil {
		return err
	}
	l, err := net.Listen("tcp", f.addr)
	if err != nil {
		return err
	}
	ready := map[string]any{"address": "http://" + l.Addr().String(), "scorers": names}
	err = cli.Print(c, ready, func(w io.Writer) {
		fmt.Fprintf(w, "serving %s on http://%s (Ctrl-C ends it)\n", strings.Join(names, ", "), l.Addr())
	})
	if err != nil {
		return err
	}
	return s.Serve(c.Context(), l, f.drain)
}

var _ reward.Scorer = (*model.Scorer)(nil)
