// Command mutants measures how much a package's tests notice. It changes the package one small step at a time, runs its
// tests over each change, and lists the changes that survive. See lab/README.md.
package main

import (
	"assay/lab/internal/tree"
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
)

type options struct {
	sample int
	seed   uint64
	least  float64
	only   string
	list   string
	tags   string
	json   bool
}

func main() {
	var o options
	flag.IntVar(&o.sample, "sample", 0, "draw so many mutants of each package (0: all)")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	flag.Float64Var(&o.least, "least", 95, "percent of mutants that the tests of each package must notice")
	flag.StringVar(&o.only, "only", "", "only mutants whose place contains this, such as expr.go:213")
	flag.StringVar(&o.list, "equivalent", "lab/mutants/equivalent.txt", "mutants that no caller can see")
	flag.StringVar(&o.tags, "tags", "", "build tags, such as cloud for what needs object storage")
	flag.BoolVar(&o.json, "json", false, "print each mutant as JSON")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	enough, err := run(ctx, o, flag.Args(), os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "error:", err)
	}
	if err != nil || !enough {
		os.Exit(1)
	}
}

// run tries the mutants of the packages and reports whether each package notices enough of them.
func run(ctx context.Context, o options, patterns []string, out io.Writer) (bool, error) {
	if len(patterns) == 0 {
		return false, errors.New("name the packages, such as ./internal/grammar")
	}
	root, err := tree.Root("")
	if err != nil {
		return false, err
	}
	equivalent, err := readEquivalent(filepath.Join(root, o.list))
	if err != nil {
		return false, err
	}
	all, err := packages(root, o.tags, patterns)
	if err != nil {
		return false, err
	}
	scratch, err := os.MkdirTemp("", "mutants")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(scratch)
	enough := true
	for _, pkg := range all {
		t, err := newTester(ctx, root, scratch, o.tags, pkg)
		if err != nil {
			return false, err
		}
		counts, err := t.tryAll(ctx, o, equivalent, out)
		if err != nil {
			return false, err
		}
		noticed := counts.percent()
		if !o.json {
			fmt.Fprintf(out, "%s: %d killed, %d survived (%.1f%% noticed), %d equivalent, %d invalid\n", pkg.ImportPath,
				counts[Killed], counts[Survived], noticed, counts[Equivalent], counts[Invalid])
		}
		enough = enough && noticed >= o.least
	}
	return enough, nil
}

// counts is how many mutants of a package have each verdict.
type counts map[Verdict]int

// percent is the share of mutants that the tests noticed, of those that a caller could notice.
func (c counts) percent() float64 {
	if c[Killed]+c[Survived] == 0 {
		return 100
	}
	return 100 * float64(c[Killed]) / float64(c[Killed]+c[Survived])
}

func (t *tester) tryAll(ctx context.Context, o options, equivalent map[string]bool, out io.Writer) (counts, error) {
	mutants, err := t.mutants(o)
	if err != nil {
		return nil, err
	}
	c := counts{}
	for _, m := range mutants {
		verdict := Equivalent
		if !equivalent[m.key(t.root)] {
			if verdict, err = t.try(ctx, m); err != nil {
				return nil, err
			}
		}
		c[verdict]++
		switch {
		case o.json:
			line, err := json.Marshal(struct {
				Mutant
				Verdict Verdict `json:"verdict"`
			}{m, verdict})
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(out, "%s\n", line)
		case verdict == Survived:
			fmt.Fprintf(out, "survived: line %d of %s\n", m.Line, m.key(t.root))
		}
	}
	return c, nil
}

// mutants lists those of the package that the options ask for.
func (t *tester) mutants(o options) ([]Mutant, error) {
	var all []Mutant
	for _, name := range t.pkg.GoFiles {
		found, err := find(filepath.Join(t.pkg.Dir, name))
		if err != nil {
			return nil, err
		}
		for _, m := range found {
			if strings.Contains(fmt.Sprintf("%s:%d:%d", m.File, m.Line, m.Column), o.only) {
				all = append(all, m)
			}
		}
	}
	if o.sample > 0 && o.sample < len(all) {
		r := rand.New(rand.NewPCG(o.seed, 0))
		r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:o.sample]
	}
	return all, nil
}

// readEquivalent reads the list of mutants that change nothing a caller can see: one a line, by [Mutant.key], under a
// comment with the reason.
func readEquivalent(file string) (map[string]bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	all := map[string]bool{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if line := strings.TrimSpace(s.Text()); line != "" && !strings.HasPrefix(line, "#") {
			all[line] = true
		}
	}
	return all, nil
}
