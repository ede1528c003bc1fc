package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/runner"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/textjudge"
)

// writeExamples writes what a model learns a judge's answers from; nothing is asked.
func (f *benchFlags) writeExamples(c *cobra.Command, set protocol.Teachable) error {
	given := []string{"examples", "ratings", "data", "images", "judge", "prompts"}
	if err := alone(c, "--examples asks nothing", given...); err != nil {
		return err
	}
	if f.runtime.judge == "" {
		return exit.Usagef("--examples needs --judge, whose question they ask")
	}
	if filepath.Ext(f.examples) != ".jsonl" {
		return exit.Usagef("%s: a .jsonl file is wanted", f.examples)
	}
	judge, err := textjudge.OpenExamples(f.runtime.judge, f.runtime.settings)
	if err != nil {
		return exit.Usage(err)
	}
	for _, w := range judge.Warnings {
		cli.Warner(c)(w)
	}
	n, err := runner.WriteExamples(f.examples, set, judge)
	if err != nil {
		return exit.Usage(err)
	}
	return cli.Print(c, map[string]any{"examples": f.examples, "written": n}, func(w io.Writer) {
		fmt.Fprintf(w, "%d conversations written to %s\n", n, f.examples)
	})
}

// alone refuses flags besides the ones that mean something here.
func alone(c *cobra.Command, why string, allowed ...string) error {
	var others []string
	c.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !slices.Contains(allowed, flag.Name) {
			others = append(others, "--"+flag.Name)
		}
	})
	if len(others) > 0 {
		return exit.Usagef("%s: %s: leave this out, or leave out --%s", strings.Join(others, ", "), why, allowed[0])
	}
	return nil
}
