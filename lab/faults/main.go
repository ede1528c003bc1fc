// Command faults kills Assay's commands at random instants, again and again. It makes their calls on files fail, one
// at a time, lets the clock jump, and starts several at a time on one folder or store. It compares what they have made
// in the end with what an uninterrupted run makes, byte for byte. Then it overloads a server (make faults;
// docs/reliability.md has its figures).
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"assay/internal/ptrace"
)

func main() {
	ptrace.Become()
	if len(os.Args) > 2 && os.Args[1] == askArg {
		os.Exit(askMain(os.Args[2], os.Args[3:]))
	}
	os.Setenv("CUDA_VISIBLE_DEVICES", "") // the same bytes are promised on the CPU
	c := flags()
	flag.Parse()
	c.begin = time.Now()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := c.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func flags() *campaign {
	c := &campaign{}
	flag.IntVar(&c.kills, "kills", 10, "how often each command is killed")
	flag.IntVar(&c.calls, "faults", 4, "how many calls of each command fail, of each kind of fault")
	flag.IntVar(&c.jumps, "jumps", 1, "how often each command runs while the clock jumps")
	flag.IntVar(&c.twins, "twins", 1, "how often each command is started twice at a time in one folder")
	flag.IntVar(&c.pairs, "pairs", 4, "how many pairs of commands are started at a time on one store; -1: all")
	flag.BoolVar(&c.brief, "brief", false, "kill all commands, but try the rest with quick ones alone")
	flag.DurationVar(&c.server, "server", 20*time.Second, "how long a server is overloaded")
	flag.DurationVar(&c.day, "day", 5*time.Second,
		"how long a server gets 24 requests a second; 1h: as many as a day has seconds")
	flag.DurationVar(&c.limit, "time", 0, "after this nothing new is tried, and what was is reported (0: no limit)")
	flag.IntVar(&c.jobs, "jobs", 1, "commands that run at a time")
	flag.IntVar(&c.images, "pictures", 24,
		"of how many pictures tables are made, 8 or more: rows grow with their square")
	flag.IntVar(&c.steps, "steps", 16, "steps that training takes; few of them make few calls, of which all can fail")
	flag.StringVar(&c.backbone, "backbone", "", "folder of the checkpoint that is trained: one of a layer makes few "+
		"calls (default backbones/tiny)")
	flag.StringVar(&c.only, "only", "", "names of commands, with commas between, \"server\" or \"day\"; all if empty")
	flag.StringVar(&c.bin, "bin", "bin", "folder of train, score and label")
	flag.StringVar(&c.mpi, "mpi", "build/mpi/bin", "folder of train for several processes (make mpi)")
	flag.StringVar(&c.dir, "dir", "build/faults", "folder to work in; it is removed first")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "of the instants")
	return c
}

// campaign is what is tried.
type campaign struct {
	bin, mpi, dir, only string
	kills, calls, jumps int
	twins, pairs        int
	jobs                int
	images              int // of which tables are made
	steps               int
	backbone            string
	brief               bool
	server, limit, day  time.Duration
	seed                uint64

	begin  time.Time
	chosen map[string]bool
}

func (c *campaign) wants(name string) bool { return c.only == "" || c.chosen[name] }

// choose finds the names that a list with commas between has. Some names have commas of their own.
func choose(only string, names []string) (map[string]bool, error) {
	chosen := map[string]bool{}
	for rest := only; rest != ""; {
		longest := ""
		for _, name := range names {
			if strings.HasPrefix(rest+",", name+",") && len(name) > len(longest) {
				longest = name
			}
		}
		if longest == "" {
			return nil, fmt.Errorf("--only: nothing is called %q; there are %q", rest, names)
		}
		chosen[longest] = true
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, longest), ",")
	}
	return chosen, nil
}

// late says that nothing new is to be tried.
func (c *campaign) late() bool { return c.limit > 0 && time.Since(c.begin) > c.limit }
