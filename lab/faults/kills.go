package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"assay/internal/ptrace"
)

// command is a command line to test: an entry of cases.yaml, which documents the fields.
type command struct {
	Name        string
	Run, Finish string
	Results     []string
	Quick       bool
	Once        string
	Mode        string
	Steps       int
	Scorer      string
	Files       map[string]string

	places map[string]string // values of names in braces
}

// args returns the words of a command line, and writes its files.
func (c *command) args(line, out string) ([]string, error) {
	places := maps.Clone(c.places)
	places["{out}"], places["{mode}"] = out, cmp.Or(c.Mode, "lora")
	if steps, err := strconv.Atoi(places["{steps}"]); err == nil && c.Steps > 0 {
		steps = min(steps, c.Steps)
		places["{steps}"], places["{validate}"] = fmt.Sprint(steps), fmt.Sprint(max(2, steps/3))
	}
	var pairs []string
	for name, place := range places {
		pairs = append(pairs, name, place)
	}
	fill := strings.NewReplacer(pairs...)
	for name, text := range c.Files {
		if err := os.WriteFile(filepath.Join(out, name), []byte(fill.Replace(text)), 0o666); err != nil {
			return nil, err
		}
	}
	if c.Scorer != "" {
		if err := copyScorer(places["{scorer}"], filepath.Join(out, c.Scorer), places["{tiny}"]); err != nil {
			return nil, err
		}
	}
	args := strings.Fields(line)
	for i, word := range args {
		args[i] = fill.Replace(word)
	}
	return args, nil
}

// copyScorer copies a scorer directory for a command, unless it exists. scorer.yaml is written last, because of
// kills.
func copyScorer(from, to, backbone string) error {
	if exists(filepath.Join(to, "scorer.yaml")) {
		return nil
	}
	if err := os.MkdirAll(to, 0o777); err != nil {
		return err
	}
	for _, name := range []string{"adapter_config.json", "adapter_model.safetensors", "head.safetensors", "scorer.yaml"} {
		raw, err := os.ReadFile(filepath.Join(from, name))
		if err != nil {
			return err
		}
		own := strings.Replace(string(raw), "backbone: ../tiny", "backbone: "+backbone, 1)
		if err := os.WriteFile(filepath.Join(to, name), []byte(own), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// storeOf returns the folder of the store of a command.
func storeOf(out string) string { return filepath.Join(out, "store") }

// environ returns the environment of a command, which keeps all its files below out.
func environ(out string) []string { return append(os.Environ(), "ASSAY_STORE="+storeOf(out)) }

// made reports whether nothing is left to do.
func (c *command) made(out string) bool { return c.Once != "" && exists(filepath.Join(out, c.Once)) }

// alone runs the command undisturbed in a new folder, and returns the digests of its results. All its runs use the
// same folder, because some files contain paths. closing removes it.
func (c *command) alone(ctx context.Context) (out string, want map[string]string, closing func(), err error) {
	root, err := os.MkdirTemp(os.TempDir(), "faults")
	if err != nil {
		return "", nil, nil, err
	}
	closing = func() { os.RemoveAll(root) }
	out = filepath.Join(root, "out")
	if err = c.run(ctx, out); err == nil {
		want, err = digests(out, c.Results)
	}
	if err != nil {
		closing()
		return "", nil, nil, err
	}
	return out, want, closing, nil
}

// killOften kills a command o.kills times. Whenever it completes, its results are compared, and it starts over.
func (o *campaign) killOften(c *command, ctx context.Context, rng *rand.Rand) (r *tally, fault error) {
	began := time.Now()
	out, want, closing, err := c.alone(ctx)
	if err != nil {
		return nil, err
	}
	defer closing()
	r = &tally{whole: time.Since(began)}
	if err := os.RemoveAll(out); err != nil {
		return nil, err
	}
	begun := 0
	defer func() {
		if ctx.Err() != nil { // the outcome of these kills is unknown
			r.kills, fault = r.kills-begun, ctx.Err()
		}
	}()
	for r.kills < o.kills && !o.late() || exists(out) {
		if ctx.Err() != nil {
			return r, ctx.Err()
		}
		if r.runs++; r.runs > 20*o.kills+20 {
			return r, fmt.Errorf("%d runs without completing", r.runs)
		}
		life := time.Hour
		if r.kills < o.kills && !o.late() {
			life = time.Duration(rng.Float64() * 1.1 * float64(r.whole))
		}
		began := time.Now()
		killed, err := c.try(ctx, out, life)
		if err != nil {
			return r, fmt.Errorf("after %d kills: %w", r.kills, err)
		}
		if !killed && begun == 0 { // the machine may be less busy than before
			r.whole = min(r.whole, time.Since(began))
		}
		if killed {
			r.kills++
			begun++
		}
		if killed && !c.made(out) {
			continue
		}
		names, err := c.unlikeAlone(ctx, out, want)
		if err != nil {
			return r, err
		}
		if len(names) > 0 {
			r.flaws = append(r.flaws, fmt.Sprintf("after %d kills, different bytes: %s", begun, strings.Join(names, ", ")))
		}
		begun = 0
	}
	return r, nil
}

// unlikeAlone finishes a completed run, returns the results that differ from an undisturbed run, and removes them.
func (c *command) unlikeAlone(ctx context.Context, out string, want map[string]string) ([]string, error) {
	if err := c.end(ctx, out); err != nil {
		return nil, err
	}
	got, err := digests(out, c.Results)
	if err != nil {
		return nil, err
	}
	return unlike(want, got), os.RemoveAll(out)
}

// run runs the command to completion.
func (c *command) run(ctx context.Context, out string) error {
	if _, err := c.try(ctx, out, time.Hour); err != nil {
		return err
	}
	return c.end(ctx, out)
}

// end runs the finishing command, which makes the result.
func (c *command) end(ctx context.Context, out string) error {
	if c.Finish == "" {
		return nil
	}
	args, err := c.args(c.Finish, out)
	if err != nil {
		return err
	}
	return check(exec.CommandContext(ctx, args[0], args[1:]...), out)
}

// try starts the command and kills it after life, unless it ends earlier.
func (c *command) try(ctx context.Context, out string, life time.Duration) (killed bool, err error) {
	if err := os.MkdirAll(out, 0o777); err != nil {
		return false, err
	}
	ctx, cancel := context.WithTimeout(ctx, life)
	defer cancel()
	args, err := c.args(c.Run, out)
	if err != nil {
		return false, err
	}
	p := exec.CommandContext(ctx, args[0], args[1:]...)
	p.Cancel = func() error { return ptrace.KillTree(p.Process.Pid) }
	err = check(p, out)
	if ctx.Err() != nil && err != nil {
		return true, nil
	}
	return false, err
}

// check runs a process, and returns an error for a nonzero exit code.
func check(p *exec.Cmd, out string) error {
	p.Env = environ(out)
	if said, err := ownThread(p); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(p.Args, " "), err, said)
	}
	return nil
}

// ownThread runs a process to completion on a dedicated thread: a tracer waits for all children of its thread.
func ownThread(p *exec.Cmd) ([]byte, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	return p.CombinedOutput()
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
