// Command mutants does mutation testing of a package. It makes one small change at a time, runs the tests on each,
// and lists the changes that survive. See lab/README.md.
package main

import (
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

	"assay/lab/internal/tree"
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
	flag.IntVar(&o.sample, "sample", 0, "draw this many mutants of each package (0: all)")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the draw")
	flag.Float64Var(&o.least, "least", 95, "percentage of mutants that the tests of each package must notice")
	flag.StringVar(&o.only, "only", "", "only mutants whose position contains this, such as expr.go:213")
	flag.StringVar(&o.list, "equivalent", "lab/mutants/equivalent.txt", "list of equivalent mutants")
	flag.StringVar(&o.tags, "tags", "", "build tags, such as cloud for object storage")
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

// run tests the mutants of the packages and reports whether each package notices enough of them.
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

// counts is the number of mutants of a package by verdict.
type counts map[Verdict]int

// percent returns the percentage of non-equivalent mutants that the tests noticed.
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

// mutants lists the mutants of the package that the options select.
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

// readEquivalent reads the list of equivalent mutants: one per line, by [Mutant.key], under a comment with the
// reason.
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
