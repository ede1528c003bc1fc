// Command weather kills Assay's commands at random instants, again and again, makes their calls on files fail, one at a
// time, and compares what they have made in the end with what an uninterrupted run makes, byte for byte. Then it
// overloads a server (make weather; docs/reliability.md has its figures).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

func main() {
	if len(os.Args) > 2 && os.Args[1] == tracedArg {
		becomeTraced(os.Args[2:])
	}
	kills := flag.Int("kills", 10, "how often each command is killed")
	calls := flag.Int("faults", 4, "how many calls of each command fail, of each kind of fault")
	pairs := flag.Int("pairs", 1, "how often each command is started twice at a time in one folder")
	brief := flag.Bool("brief", false, "kill all commands, but try the rest with quick ones alone")
	server := flag.Duration("server", 20*time.Second, "how long a server is overloaded")
	only := flag.String("only", "", "names of commands, with commas between, or \"server\"; all if empty")
	bin := flag.String("bin", "bin", "folder of train, score and label")
	dir := flag.String("dir", "build/weather", "folder to work in; it is removed first")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the instants")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	c := campaign{
		bin:    *bin,
		dir:    *dir,
		only:   *only,
		kills:  *kills,
		calls:  *calls,
		pairs:  *pairs,
		brief:  *brief,
		server: *server,
	}
	if err := c.run(ctx, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

// campaign is what is tried.
type campaign struct {
	bin, dir, only string
	kills, calls   int
	pairs          int
	brief          bool
	server         time.Duration
}

func (c *campaign) wants(name string) bool {
	return c.only == "" || strings.Contains(","+c.only+",", ","+name+",")
}

func (c *campaign) run(ctx context.Context, seed uint64) error {
	for _, path := range []*string{&c.bin, &c.dir} {
		abs, err := filepath.Abs(*path)
		if err != nil {
			return err
		}
		*path = abs
	}
	if err := os.RemoveAll(c.dir); err != nil {
		return err
	}
	list, err := cases(c.bin, c.dir)
	if err != nil {
		return err
	}
	list = slices.DeleteFunc(list, func(one command) bool { return !c.wants(one.name) })
	fmt.Printf("seed %d\n\n", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	var failed []error
	if c.kills > 0 {
		failed = append(failed, c.killAll(ctx, list, rng))
	}
	if c.brief {
		list = slices.DeleteFunc(list, func(one command) bool { return !one.quick })
	}
	if c.calls > 0 {
		failed = append(failed, c.failAll(ctx, list, rng))
	}
	if c.pairs > 0 {
		failed = append(failed, c.pairAll(ctx, list))
	}
	if c.server > 0 && c.wants("server") {
		failed = append(failed, serverWeather(ctx, filepath.Join(c.bin, "score"), c.server, rng))
	}
	return errors.Join(failed...)
}

// killAll kills every command.
func (c *campaign) killAll(ctx context.Context, list []command, rng *rand.Rand) error {
	fmt.Println("| command | one run | kills | runs | result |")
	fmt.Println("|---|---|---|---|---|")
	var failed []string
	for _, one := range list {
		r, err := one.weather(ctx, c.kills, rng)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		said := "the same bytes"
		if len(r.differ) > 0 {
			said = "DIFFER: " + strings.Join(r.differ, ", ")
			failed = append(failed, one.name)
		}
		fmt.Printf("| %s | %.1f s | %d | %d | %s |\n", one.name, r.whole.Seconds(), r.kills, r.runs, said)
	}
	fmt.Println()
	if len(failed) > 0 {
		return fmt.Errorf("killed runs made something else: %s", strings.Join(failed, ", "))
	}
	return nil
}

// pairAll starts every command twice at a time.
func (c *campaign) pairAll(ctx context.Context, list []command) error {
	fmt.Println("| two at a time in one folder | rounds | of which one was refused |")
	fmt.Println("|---|---|---|")
	var flaws []error
	for _, one := range list {
		refused, err := one.twins(ctx, c.pairs)
		if err != nil {
			flaws = append(flaws, fmt.Errorf("%s: %w", one.name, err))
		}
		fmt.Printf("| %s | %d | %d |\n", one.name, c.pairs, refused)
	}
	fmt.Println()
	return errors.Join(flaws...)
}

// failAll makes calls of every command fail.
func (c *campaign) failAll(ctx context.Context, list []command, rng *rand.Rand) error {
	fmt.Println("| command | fault | calls | tried | ended with an error, and the next run went on | flaws |")
	fmt.Println("|---|---|---|---|---|---|")
	var flaws []error
	for _, one := range list {
		for _, kind := range slices.Sorted(maps.Keys(kinds)) {
			r, err := one.faults(ctx, kind, c.calls, rng)
			if err != nil {
				return fmt.Errorf("%s: %w", one.name, err)
			}
			for _, flaw := range r.flaws {
				flaws = append(flaws, fmt.Errorf("%s: %s", one.name, flaw))
			}
			fmt.Printf("| %s | %s | %d | %d | %d | %d |\n", one.name, kind, r.calls, r.runs, r.failed, len(r.flaws))
		}
	}
	fmt.Println()
	return errors.Join(flaws...)
}

// command is a command line that is killed.
type command struct {
	name    string
	args    func(out string) []string // program first; out is a folder of its own
	finish  func(out string) []string // a command line afterwards; nil: none
	results []string                  // files and folders below out that must be the same
	code    int                       // exit code of a whole run
	quick   bool                      // it takes a second or two
	once    string                    // folder that is made once: when it is there nothing is left to do; "": none
}

// made tells whether nothing is left to do.
func (c *command) made(out string) bool { return c.once != "" && exists(filepath.Join(out, c.once)) }

// report is what became of a command.
type report struct {
	whole       time.Duration // of one uninterrupted run
	kills, runs int
	differ      []string
}

// weather kills a command until it was killed so often. Each time that it comes to its end, what it made is compared,
// and it begins anew.
func (c *command) weather(ctx context.Context, kills int, rng *rand.Rand) (*report, error) {
	root, err := os.MkdirTemp(os.TempDir(), "weather")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(root)
	out := filepath.Join(root, "out") // always the same: paths stand in some files
	r := &report{}
	began := time.Now()
	if err := c.run(ctx, out); err != nil {
		return nil, err
	}
	r.whole = time.Since(began)
	want, err := digests(out, c.results)
	if err != nil {
		return nil, err
	}
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	for r.kills < kills || exists(out) {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if r.runs++; r.runs > 20*kills+20 {
			return nil, fmt.Errorf("%d runs, and no end", r.runs)
		}
		killed := false
		if r.kills < kills {
			life := time.Duration(rng.Float64() * 1.1 * float64(r.whole))
			if killed, err = c.try(ctx, out, life); err != nil {
				return nil, fmt.Errorf("after %d kills: %w", r.kills, err)
			}
		} else if err := c.run(ctx, out); err != nil {
			return nil, fmt.Errorf("after %d kills: %w", r.kills, err)
		}
		if killed {
			r.kills++
		}
		if killed && !c.made(out) {
			continue
		}
		if err := c.end(ctx, out); err != nil {
			return nil, err
		}
		got, err := digests(out, c.results)
		if err != nil {
			return nil, err
		}
		r.differ = append(r.differ, unlike(want, got)...)
		if err := os.RemoveAll(out); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// run lets the command come to its end.
func (c *command) run(ctx context.Context, out string) error {
	if _, err := c.try(ctx, out, time.Hour); err != nil {
		return err
	}
	return c.end(ctx, out)
}

// end runs the command that makes the result of what was done.
func (c *command) end(ctx context.Context, out string) error {
	if c.finish == nil {
		return nil
	}
	return c.check(exec.CommandContext(ctx, c.finish(out)[0], c.finish(out)[1:]...))
}

// try starts the command and kills it after life, unless it ends before.
func (c *command) try(ctx context.Context, out string, life time.Duration) (killed bool, err error) {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	args := c.args(out)
	err = c.check(exec.CommandContext(ctx, args[0], args[1:]...)) // CommandContext ends it by SIGKILL
	if ctx.Err() != nil && err != nil {
		return true, nil
	}
	return false, err
}

// check runs a process, and makes an error of an exit code that is not the wanted one.
func (c *command) check(p *exec.Cmd) error {
	said, err := p.CombinedOutput()
	if p.ProcessState != nil && p.ProcessState.Exited() && p.ProcessState.ExitCode() == c.code {
		return nil
	}
	return fmt.Errorf("%s: %v, exit code %d, want %d: %s", strings.Join(p.Args, " "), err, p.ProcessState.ExitCode(),
		c.code, said)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
