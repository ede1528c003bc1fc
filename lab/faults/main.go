// Command faults repeatedly kills Assay's commands at random times. It makes their file system calls fail, one at a
// time, makes the clock jump, and runs several commands concurrently on one folder or store. It compares their final
// results byte for byte with those of an uninterrupted run. Then it overloads a server (make faults;
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
	os.Setenv("CUDA_VISIBLE_DEVICES", "") // byte-identical results are only guaranteed on the CPU
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
	flag.IntVar(&c.kills, "kills", 10, "kills of each command")
	flag.IntVar(&c.calls, "faults", 4, "failing calls of each command, for each kind of fault")
	flag.IntVar(&c.jumps, "jumps", 1, "runs of each command while the clock jumps")
	flag.IntVar(&c.twins, "twins", 1, "rounds of each command with two concurrent runs in one folder")
	flag.IntVar(&c.pairs, "pairs", 4, "pairs of commands that run concurrently on one store; -1: all")
	flag.BoolVar(&c.brief, "brief", false, "kill all commands, but run the other tests only on quick ones")
	flag.DurationVar(&c.server, "server", 20*time.Second, "how long a server is overloaded")
	flag.DurationVar(&c.day, "day", 5*time.Second,
		"how long a server gets 24 requests per second; 1h: one for every second of a day")
	flag.DurationVar(&c.limit, "time", 0, "after this time start no new test, and report the results so far (0: no limit)")
	flag.IntVar(&c.jobs, "jobs", 1, "commands to run concurrently")
	flag.IntVar(&c.images, "pictures", 24,
		"pictures for the tables, 8 or more: rows grow with their square")
	flag.IntVar(&c.steps, "steps", 16, "training steps; with few steps there are few calls, which can all be made to fail")
	flag.StringVar(&c.backbone, "backbone", "", "folder of the checkpoint to train: one with a single layer makes few "+
		"calls (default backbones/tiny)")
	flag.StringVar(&c.only, "only", "", "names of commands separated by commas, \"server\" or \"day\"; all if empty")
	flag.StringVar(&c.bin, "bin", "bin", "folder of train, score and label")
	flag.StringVar(&c.mpi, "mpi", "build/mpi/bin", "folder of train for several processes (make mpi)")
	flag.StringVar(&c.dir, "dir", "build/faults", "working folder; it is removed first")
	flag.Uint64Var(&c.seed, "seed", uint64(time.Now().UnixNano()), "seed of the random times")
	return c
}

// campaign describes the tests to run.
type campaign struct {
	bin, mpi, dir, only string
	kills, calls, jumps int
	twins, pairs        int
	jobs                int
	images              int // pictures for the tables
	steps               int
	backbone            string
	brief               bool
	server, limit, day  time.Duration
	seed                uint64

	begin  time.Time
	chosen map[string]bool
}

func (c *campaign) wants(name string) bool { return c.only == "" || c.chosen[name] }

// choose finds the names in a comma-separated list. Some names contain commas themselves.
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
			return nil, fmt.Errorf("--only: unknown name %q; the names are %q", rest, names)
		}
		chosen[longest] = true
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, longest), ",")
	}
	return chosen, nil
}

// late reports whether the time limit is over.
func (c *campaign) late() bool { return c.limit > 0 && time.Since(c.begin) > c.limit }
