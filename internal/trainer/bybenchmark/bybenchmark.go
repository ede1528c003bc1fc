// Package bybenchmark lets training choose its best scorer by a published benchmark (validate.by: benchmark). It is a
// separate package so that the benchmarks and the trainer stay independent: it opens the benchmark that a
// configuration names, runs the current scorer on its items, and returns one of its numbers.
package bybenchmark

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
	"assay/internal/benchmarks/runner"
	"assay/internal/store"
	"assay/internal/trainer"
	"assay/internal/trainer/config"
)

// benchmark is a trainer.Benchmark.
type benchmark struct {
	*protocol.Benchmark
	set    protocol.Set
	items  []*edit.Edit
	number string
	part   string   // subset and human value
	files  []string // that were read
}

// Open reads the data of a benchmark that scorers can run on. It is a trainer.BenchmarkOpener.
func Open(c *config.BenchmarkConfig) (trainer.Benchmark, error) {
	b, err := registry.Find(c.Name)
	if err != nil {
		return nil, err
	}
	o := protocol.Options{Data: c.Ratings, Images: c.Images, Votes: c.Votes, Targets: c.Targets, Subset: c.Subset,
		Target: c.Target, Epsilon: math.NaN(), BGNorm: "linear:255", Sigma: 0.5}
	if err := given(b, c, &o); err != nil {
		return nil, err
	}
	var files []string
	o.Note = func(path string) { files = append(files, path) }
	set, err := b.Load(o)
	if err != nil {
		return nil, err
	}
	scorable, ok := set.(protocol.Scorable)
	if _, mixed := set.(protocol.Mixed); !ok || mixed {
		return nil, fmt.Errorf("%s: its numbers are not computed from one scorer's scores of edits", b.Name)
	}
	if _, answers := set.(protocol.Questions); answers {
		return nil, fmt.Errorf("%s: its numbers are computed from answers, not scores", b.Name)
	}
	items, err := scorable.Items()
	if err != nil {
		return nil, err
	}
	number, err := numberOf(b, set, c.Number)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 { // a resumed run could not detect changes
		return nil, fmt.Errorf("%s: it does not report which files it reads: use another benchmark", b.Name)
	}
	part := strings.Trim(o.Subset+" "+o.Target, " ")
	return &benchmark{Benchmark: b, set: set, items: items, number: number, part: part, files: files}, nil
}

// numberOf finds a number among the numbers of random predictions; "": the one that tables are sorted by.
func numberOf(b *protocol.Benchmark, set protocol.Set, name string) (string, error) {
	guess, ok := set.(protocol.Guessable)
	if !ok {
		return "", fmt.Errorf("%s: it cannot list its numbers in advance", b.Name)
	}
	var names []string
	for _, n := range guess.Guess(rand.New(rand.NewPCG(1, 1))).Result().Numbers {
		names = append(names, n.Name)
	}
	name = cmp.Or(name, b.Headline)
	if name == "" && len(names) > 0 {
		name = names[0]
	}
	if !slices.Contains(names, name) {
		return "", fmt.Errorf("number: %s has no %q here, only %s", b.Name, name, strings.Join(names, ", "))
	}
	if slices.Contains(b.Neutral, name) {
		return "", fmt.Errorf("number: neither a higher nor a lower %s is better: use another one", name)
	}
	return name, nil
}

// given fills in the default subset and target, and refuses keys that the benchmark does not use.
func given(b *protocol.Benchmark, c *config.BenchmarkConfig, o *protocol.Options) error {
	for _, key := range []struct {
		name, value, usual string
		to                 *string
	}{
		{"images", c.Images, "", nil},
		{"votes", c.Votes, "", nil},
		{"targets", c.Targets, "", nil},
		{"subset", c.Subset, "test_v1", &o.Subset},
		{"target", c.Target, "O", &o.Target},
	} {
		asks := slices.Contains(b.Flags, key.name)
		if key.value != "" && !asks {
			return fmt.Errorf("%s: not used by %s", key.name, b.Name)
		}
		if key.value == "" && asks && key.to != nil {
			*key.to = key.usual
		}
	}
	return nil
}

// String describes what is measured.
func (b *benchmark) String() string {
	return fmt.Sprintf("%s of %s, %d edits", b.number, b.Name, len(b.items))
}

// Lower reports whether lower is better.
func (b *benchmark) Lower() bool { return b.Direction(b.number) < 0 }

// Fingerprint identifies everything besides the scorer that the number depends on.
func (b *benchmark) Fingerprint() (map[string]string, error) {
	out := map[string]string{"number": strings.TrimSpace(b.String() + " " + b.part)}
	for _, path := range b.files {
		digest, err := store.FileDigest(path)
		if err != nil {
			return nil, err
		}
		name := filepath.Base(path)
		for n := 2; out[name] != ""; n++ {
			name = fmt.Sprintf("%s (%d)", filepath.Base(path), n)
		}
		out[name] = digest.String()[:32]
	}
	out["pictures and texts of the edits"] = protocol.Digest(b.items)
	return out, nil
}

// Measure computes the number as score bench does.
func (b *benchmark) Measure(ctx context.Context, s edit.Judge) (_ float64, err error) {
	dir, err := os.MkdirTemp("", "benchmark-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	r := runner.Run{Benchmark: b.Name, Items: b.items, Dir: dir}
	path, err := r.Score(ctx, runner.NewJudge(s, ""))
	if err != nil {
		return 0, err
	}
	p, err := b.set.Read(path)
	if err != nil {
		return 0, err
	}
	for _, n := range p.Result().Numbers {
		if n.Name == b.number {
			return n.Value, nil
		}
	}
	return math.NaN(), nil
}
