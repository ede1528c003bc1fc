// Command weather kills Assay's commands at random instants, again and again, and compares what they have made in the
// end with what an uninterrupted run makes, byte for byte (make weather; docs/reliability.md has its figures).
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"time"
)

func main() {
	kills := flag.Int("kills", 10, "how often each command is killed")
	only := flag.String("only", "", "names of commands, with commas between; all if empty")
	bin := flag.String("bin", "bin", "folder of train, score and label")
	dir := flag.String("dir", "build/weather", "folder to work in; it is removed first")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of the instants")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := campaign(ctx, *bin, *dir, *only, *kills, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
		os.Exit(1)
	}
}

func campaign(ctx context.Context, bin, dir, only string, kills int, seed uint64) error {
	bin, err := filepath.Abs(bin)
	if err != nil {
		return err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	list, err := cases(bin, dir)
	if err != nil {
		return err
	}
	fmt.Printf("seed %d\n\n", seed)
	fmt.Println("| command | one run | kills | runs | result |")
	fmt.Println("|---|---|---|---|---|")
	rng := rand.New(rand.NewPCG(seed, 1))
	var failed []string
	for _, c := range list {
		if only != "" && !strings.Contains(","+only+",", ","+c.name+",") {
			continue
		}
		r, err := c.weather(ctx, kills, rng)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		said := "the same bytes"
		if len(r.differ) > 0 {
			said = "DIFFER: " + strings.Join(r.differ, ", ")
			failed = append(failed, c.name)
		}
		fmt.Printf("| %s | %.1f s | %d | %d | %s |\n", c.name, r.whole.Seconds(), r.kills, r.runs, said)
	}
	if len(failed) > 0 {
		return fmt.Errorf("killed runs made something else: %s", strings.Join(failed, ", "))
	}
	return nil
}

// command is a command line that is killed.
type command struct {
	name    string
	args    func(out string) []string // program first; out is a folder of its own
	finish  func(out string) []string // a command line afterwards; nil: none
	results []string                  // files and folders below out that must be the same
	code    int                       // exit code of a whole run
}

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
