package score

import (
	"cmp"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/edit"
	"assay/encoders"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/reward"
	"assay/metrics"
	"assay/model"
	"assay/ort"
)

type serveFlags struct {
	scorers   []string
	dimension []string
	backbone  []string
	addr      string
	tokenFile string
	clients   string
	device    string
	threads   int
	replicas  int
	reusePort bool
	mode      string
	drain     time.Duration
	answers   modelFlags
	judges    []string
	asked     scorerFlags // by the judges
	o         reward.Options
}

// add adds the flags of what is served, and where.
func (f *serveFlags) add(c *cobra.Command) {
	flags := c.Flags()
	flags.StringArrayVar(&f.scorers, "scorer", nil, "scorer directory, or name=directory; metric:METRIC (l1_source, "+
		"l2_source, a metric's YAML file) or metric:SIMILARITY:ENCODER instead of the directory; may be given several times")
	flags.StringArrayVar(&f.dimension, "dimension", nil, "dimension to report as the score, of every scorer, or "+
		"scorer=dimension for one; may be given several times (default: scorer.yaml's fusion)")
	flags.StringArrayVar(&f.backbone, "backbone", nil, "where the backbone of every scorer is now, or "+
		"scorer=directory for one; may be given several times (default: where scorer.yaml says); it must be the same one")
	cli.Needs(c, "scorer", "backbone")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8100", "address to listen on; fd:3: a listening socket, "+
		"inherited as file descriptor 3 from the process that starts the server")
	flags.StringVar(&f.tokenFile, "token-file", "", "file that holds the bearer token (default: the variable ASSAY_TOKEN)")
	f.answers.add(c, "chat-backbone")
	flags.StringArrayVar(&f.judges, "judge", nil, "VLM judge, or name=judge; may be given several times")
	flags.StringVar(&f.asked.settings.Copy, "prompts", "", "folder of the judge's own code, for the published prompts")
	flags.IntVar(&f.asked.settings.Passes, "passes", 0, "times that a judge asks every question (0: as configured)")
	f.asked.answers.addServer(c)
	own := []string{"prompts", "passes", "server", "url", "store"}
	cli.Needs(c, "judge", own...)
	cli.Part(c, "Flags of --judge, and of the model that it asks", slices.Concat(own, serverOptions)...)
	cli.Part(c, "Flags of --chat-backbone", modelOptions("chat-backbone")...)
	flags.StringVar(&f.device, "device", "auto", "auto, cpu or cuda:N; or a comma-separated list: a copy of every "+
		"scorer on each, and the chat model on the first")
	flags.IntVar(&f.replicas, "replicas", 1, "copies of every scorer on each device, at most 64; on the CPU they share "+
		"its threads and one set of weights")
	flags.StringVar(&f.mode, "mode", "resident", "resident: weights stay on the device until POST /v1/sleep; per_call: "+
		"they are loaded for a request, and unloaded before the last request in progress is answered")
	flags.DurationVar(&f.o.Stall, "stall", 0, "maximum time of a run before its copy of the scorer is reopened (0: five "+
		"minutes; --timeout with a single copy); ten times the expected time is always allowed")
	flags.BoolVar(&f.reusePort, "reuse-port", false, "share the port with other servers (SO_REUSEPORT; Linux)")
	flags.IntVar(&f.threads, "threads", 0, "CPU threads (0: all cores)")
	f.addLimits(c)
}

// addLimits adds the flags of the limits on requests.
func (f *serveFlags) addLimits(c *cobra.Command) {
	flags := c.Flags()
	flags.DurationVar(&f.drain, "drain", 2*time.Minute, "maximum time for accepted requests after SIGTERM")
	flags.Int64Var(&f.o.MaxBody, "max-body", 64<<20, "maximum bytes of a request")
	flags.Int64Var(&f.o.MaxPixels, "max-pixels", 16<<20, "maximum pixels of a picture")
	flags.IntVar(&f.o.MaxItems, "max-items", 256, "maximum edits of a request")
	flags.IntVar(&f.o.Queue, "queue", 1<<16, "maximum edits waiting in the queue")
	flags.IntVar(&f.o.Batch, "batch", 32, "maximum edits scored in one run")
	flags.Int64Var(&f.o.Memory, "memory", 2<<30, "maximum bytes of requests in memory")
	flags.DurationVar(&f.o.Wait, "wait", 10*time.Minute, "maximum expected time to an answer; requests beyond it get 429")
	flags.DurationVar(&f.o.Timeout, "timeout", 15*time.Minute, "timeout of a request")
	flags.Int64Var(&f.o.Pictures, "picture-cache", 128<<20, "bytes of decoded pictures cached for later requests")
	flags.Int64Var(&f.o.Answers, "answer-cache", 64<<20, "bytes of answers cached for retries of requests with an id")
	flags.DurationVar(&f.o.AnswerAge, "answer-age", 10*time.Minute, "maximum age of cached answers")
	flags.DurationVar(&f.o.SleepWait, "sleep-wait", time.Minute, "maximum wait of a request while the scorers sleep; "+
		"then it gets 503")
	flags.StringVar(&f.clients, "clients", "", "YAML file of clients: a list of name, token and, for a quota, "+
		"edits_per_minute")
	cli.Part(c, "Limits", "drain", "max-body", "max-pixels", "max-items", "queue", "batch", "memory", "wait", "timeout",
		"picture-cache", "answer-cache", "answer-age", "sleep-wait")
	flags.StringVar(&f.o.Cert, "cert", "", "certificate (PEM): serve HTTPS")
	flags.StringVar(&f.o.Key, "key", "", "private key (PEM) of --cert")
	for _, name := range []string{"patience", "burst"} { // of earlier versions
		flags.String(name, "", "")
		flags.MarkDeprecated(name, "callers wait for each other; --wait bounds how long")
	}
}

// checkReach refuses a server without a token that other machines can reach.
func (f *serveFlags) checkReach(host, address string) error {
	if f.o.Token == "" && len(f.o.Clients) == 0 && !reward.Loopback(host) {
		return exit.Usagef("--addr %s can be reached from other machines: set a bearer token (ASSAY_TOKEN, --token-file or "+
			"--clients)", address)
	}
	return nil
}

// check checks the flags before anything is opened.
func (f *serveFlags) check() error {
	host, _, err := net.SplitHostPort(f.addr)
	switch {
	case len(f.scorers)+len(f.judges) == 0 && f.answers.backbone == "":
		return exit.Usagef("--scorer is needed: a scorer directory, or name=directory (or --judge, or --chat-backbone)")
	case err != nil:
		return exit.Usagef("--addr: %v (want host:port)", err)
	case f.o.Stall < 0:
		return exit.Usagef("--stall must not be negative")
	case (f.o.Cert == "") != (f.o.Key == ""):
		return exit.Usagef("--cert and --key go together")
	}
	for name, v := range map[string]int64{"max-body": f.o.MaxBody, "max-pixels": f.o.MaxPixels,
		"max-items": int64(f.o.MaxItems), "queue": int64(f.o.Queue),
		"batch": int64(f.o.Batch), "memory": f.o.Memory, "timeout": int64(f.o.Timeout), "wait": int64(f.o.Wait),
		"drain": int64(f.drain), "replicas": int64(f.replicas), "picture-cache": f.o.Pictures,
		"answer-cache": f.o.Answers, "answer-age": int64(f.o.AnswerAge), "sleep-wait": int64(f.o.SleepWait)} {
		if v <= 0 {
			return exit.Usagef("--%s must be positive", name)
		}
	}
	if f.mode != "resident" && f.mode != "per_call" {
		return exit.Usagef("--mode %q: want resident or per_call", f.mode)
	}
	f.o.PerCall = f.mode == "per_call"
	if f.replicas > maxReplicas {
		return exit.Usagef("--replicas %d: at most %d copies on each device are supported", f.replicas, maxReplicas)
	}
	if err := f.readTokens(); err != nil {
		return err
	}
	if host != "fd" {
		if err := f.checkReach(host, f.addr); err != nil {
			return err
		}
	}
	if f.o.Cert != "" {
		if _, err := tls.LoadX509KeyPair(f.o.Cert, f.o.Key); err != nil {
			return exit.Usagef("--cert %s, --key %s: %v", f.o.Cert, f.o.Key, err)
		}
	}
	return nil
}

// readTokens reads the tokens that callers must send.
func (f *serveFlags) readTokens() error {
	f.o.Token = os.Getenv("ASSAY_TOKEN")
	if f.tokenFile != "" {
		raw, err := os.ReadFile(f.tokenFile)
		if err != nil {
			return err
		}
		if f.o.Token = strings.TrimSpace(string(raw)); f.o.Token == "" {
			return exit.Usagef("%s is empty: it must hold the token", f.tokenFile)
		}
	}
	if f.clients != "" {
		raw, err := os.ReadFile(f.clients)
		if err != nil {
			return err
		}
		if f.o.Clients, err = reward.ParseClients(f.clients, raw); err != nil {
			return exit.Usage(err)
		}
	}
	if err := reward.CheckClients(f.o.Clients, f.o.Token); err != nil {
		return exit.Usage(err)
	}
	return nil
}

// byScorer returns the value of a flag for each scorer: args are VALUE for all scorers, or SCORER=VALUE for one.
func (f *serveFlags) byScorer(flag string, args []string) (map[string]string, error) {
	out, every, value := map[string]string{}, "", strings.ToUpper(flag)
	for _, arg := range f.scorers {
		name, _ := named(arg)
		out[name] = ""
	}
	for _, arg := range args {
		name, own, one := strings.Cut(arg, "=")
		_, known := out[name]
		switch {
		case one && (!known || own == ""):
			return nil, exit.Usagef("--%s %s: want %s, or SCORER=%s for a served scorer", flag, arg, value, value)
		case one:
			out[name] = own
		case every != "" && every != arg:
			return nil, exit.Usagef("--%s %s and %s: say which scorer each is for, as SCORER=%s", flag, every, arg, value)
		default:
			every = arg
		}
	}
	for name := range out {
		out[name] = cmp.Or(out[name], every)
	}
	return out, nil
}

// maxReplicas is the maximum number of copies of a scorer on a device.
const maxReplicas = 64

// cudaTolerance is the maximum difference of score01 between copies on CUDA devices, whose kernels are chosen by
// timing.
const cudaTolerance = 1e-3

// replicate opens f.replicas copies of a judge on each device. first is set for the first copy.
func (f *serveFlags) replicate(
	open func(device string, threads int, first bool) (edit.Judge, error),
) (*reward.Replicated, error) {
	devices := strings.Split(f.device, ",")
	seen := map[string]bool{}
	tolerance, onCPU := 0.0, 0
	for i, name := range devices {
		if err := ort.CheckDevice(name); err != nil {
			return nil, exit.Usage(err)
		}
		var err error
		if devices[i], err = ort.Resolve(name); err != nil {
			return nil, err
		}
		if seen[devices[i]] {
			return nil, exit.Usagef("--device %s: %s is listed twice; --replicas sets the copies on each device", f.device,
				devices[i])
		}
		if seen[devices[i]] = true; devices[i] == "cpu" {
			onCPU = f.replicas
		} else {
			tolerance = cudaTolerance
			if !slices.Contains(f.o.Devices, devices[i]) {
				f.o.Devices = append(f.o.Devices, devices[i])
			}
		}
	}
	threads := f.threads
	if threads == 0 && onCPU > 1 {
		threads = runtime.NumCPU()
	}
	if threads > 0 && onCPU > 1 {
		threads = max(threads/onCPU, 1)
	}
	return reward.Replicate(f.replicas*len(devices), tolerance, func(i int) (edit.Judge, error) {
		j, err := open(devices[i%len(devices)], threads, i == 0)
		if s, ok := j.(*model.Scorer); ok {
			if err := oneType(devices, s.Config().DType); err != nil {
				return nil, errors.Join(err, s.Close())
			}
		}
		return j, err
	})
}

// oneType refuses copies of a scorer that compute in two types: a copy also scores pictures whose features are another
// one's.
func oneType(devices []string, dtype string) error {
	if dtype != "bfloat16" || !slices.Contains(devices, "cpu") || len(devices) == 1 {
		return nil
	}
	return exit.Usagef("--device %s: the scorer computes in float32 on the CPU and in bfloat16 on a GPU: serve it from "+
		"two processes", strings.Join(devices, ","))
}

// metricPrefix is the prefix of a metric that is given instead of a scorer directory.
const metricPrefix = "metric:"

// openServed opens what --scorer names: [NAME=]DIR or [NAME=]metric:METRIC. of has the other flags of a scorer.
func (f *serveFlags) openServed(c *cobra.Command, arg string, of runtimeFlags) (string, *reward.Replicated, error) {
	name, what := named(arg)
	metric, isMetric := strings.CutPrefix(strings.TrimPrefix(arg, name+"="), metricPrefix)
	if !isMetric {
		s, err := f.replicate(func(device string, threads int, first bool) (edit.Judge, error) {
			own := of
			own.scorer, own.device, own.threads = what, device, threads
			own.quiet = !first // the first copy prints the warnings
			return own.open(c)
		})
		return name, s, err
	}
	if of.dimension != "" || of.backbone != "" {
		return "", nil, exit.Usagef("--scorer %s: --dimension and --backbone are for scorer directories", arg)
	}
	s, err := f.replicate(func(device string, threads int, _ bool) (edit.Judge, error) {
		return openMetric(metric, metrics.Options{Device: device, Threads: threads})
	})
	if err != nil {
		return "", nil, err
	}
	if strings.HasPrefix(arg, metricPrefix) {
		name, _, _ = strings.Cut(metric, ":")
		if filepath.Ext(name) != "" {
			name = s.Info().Name
		}
	}
	return name, s, nil
}

// openMetric opens a metric by its name or its YAML file, or a similarity by its kind and encoder: KIND:ENCODER.
func openMetric(what string, o metrics.Options) (edit.Judge, error) {
	if kind, encoder, ok := strings.Cut(what, ":"); ok {
		k, known := encoders.FindSimilarity(kind)
		if !known {
			return nil, exit.Usagef("metric:%s: there is no similarity %q; there are %s", what, kind,
				strings.Join(encoders.SimilarityNames(), ", "))
		}
		s, err := encoders.OpenSimilarity(k, encoder, encoders.Options{Device: o.Device, Threads: o.Threads})
		return s, exit.Named(err)
	}
	m, err := metrics.Open(what, o)
	return m, exit.Usage(err)
}
