package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/benchmarks"
	"assay/internal/cli"
)

func init() { register(newBenchCommand) }

// benchFlags are the options of one benchmark.
type benchFlags struct {
	benchmarks.Options
	runtime     runtimeFlags
	predictions string
	means       string
	baseline    string
	encoders    encoderFlags
	compare     []string
	checkOrder  bool
	report, out string
	seed        uint64
	resamples   int
}

func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Judge a scorer, or predictions, by the rules of a published benchmark",
		Long: `bench computes the numbers that papers print for a benchmark, each by the name of its rule, from predictions in a file, a
scorer, or a baseline. score bench list says what every benchmark needs on disk.`,
		Example: `  score bench list
  score bench imagenhub --ratings testdata/golden/imagenhub --predictions testdata/golden/imagenhub/judges/gpt4o_0shot.jsonl
  score bench genaibench --ratings GenAI-Bench --scorer backbones/tiny-scorer --report report`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newBenchListCommand())
	for _, b := range benchmarks.All() {
		c.AddCommand(newBenchmarkCommand(b))
	}
	return c
}

func newBenchListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Say what each benchmark needs on disk, where it is published, and what its numbers are",
		RunE: func(c *cobra.Command, _ []string) error {
			type entry struct {
				Name      string   `json:"name"`
				Title     string   `json:"title"`
				Needs     []string `json:"needs"`
				Published string   `json:"published"`
				Predicts  string   `json:"predictions"`
				Rules     []string `json:"rules"`
			}
			var list []entry
			for _, b := range benchmarks.All() {
				list = append(list, entry{b.Name, b.Title, b.Needs, b.Published, b.Predicts, b.Rules})
			}
			return cli.Print(c, list, func(w io.Writer) {
				for _, e := range list {
					fmt.Fprintf(w, "%s\n  %s\n  needs\n    %s\n  published by %s\n  predictions\n    %s\n  numbers\n    %s\n\n", e.Name, e.Title,
						strings.Join(e.Needs, "\n    "), e.Published, e.Predicts, strings.Join(e.Rules, "\n    "))
				}
			})
		},
	}
}

func newBenchmarkCommand(b *benchmarks.Benchmark) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   b.Name,
		Short: b.Title,
		Long: fmt.Sprintf("%s.\n\nNeeds\n  %s\n\nPredictions, JSON lines\n  %s\n\nNumbers\n  %s", b.Title, strings.Join(b.Needs, "\n  "),
			b.Predicts, strings.Join(b.Rules, "\n  ")),
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 && len(f.compare) == 0 {
				return fmt.Errorf("unexpected %q: only --compare takes several files", args)
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			f.compare = append(f.compare, args...)
			return runBench(c, b, &f)
		},
	}
	f.add(c, b)
	return c
}

func (f *benchFlags) add(c *cobra.Command, b *benchmarks.Benchmark) {
	flags := c.Flags()
	flags.StringVar(&f.Data, "ratings", "", "published data with the human ratings: a folder or a file")
	flags.StringVar(&f.Data, "data", "", "the same as --ratings")
	flags.StringVar(&f.predictions, "predictions", "", "file of predictions (JSON lines)")
	flags.StringSliceVar(&f.compare, "compare", nil, "files of predictions to put into one table; the first one, or --predictions, is compared with the others")
	flags.StringVar(&f.baseline, "baseline", "", "a judge to compare with: random, constant, clip_d, clip_t, clip_i or dino_i")
	flags.StringVar(&f.encoders.clip, "clip", "", "CLIP checkpoint (directory or .onnx) of the clip_ baselines")
	flags.StringVar(&f.encoders.dino, "dino", "", "DINOv2 checkpoint of the baseline dino_i")
	flags.StringVar(&f.encoders.captions, "captions", "", "JSON lines of id, source_caption, target_caption for clip_d (and clip_t, instead of the instruction)")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap and of random predictions")
	flags.IntVar(&f.resamples, "resamples", 2000, "bootstrap resamples")
	flags.StringVar(&f.report, "report", "", "folder to write a report to: index.html, results.csv, results.md, results.json")
	flags.StringVar(&f.out, "out", "", "folder of a scorer's predictions.jsonl (default runs/bench-"+b.Name+"); the same folder resumes")
	flags.BoolVar(&f.checkOrder, "check-order", false, "score pairs in both orders and count how often the winner flips")
	f.runtime.add(c)
	f.Epsilon, f.BGNorm, f.Sigma = math.NaN(), "linear:255", 0.5
	for _, name := range b.Flags {
		switch name {
		case "images":
			flags.StringVar(&f.Images, name, "", "folder of the pictures")
		case "target":
			flags.StringVar(&f.Target, name, "O", "human value: O (the square root of SC x PQ), SC or PQ")
		case "votes":
			flags.StringVar(&f.Votes, name, "", "file of votes (JSON lines)")
		case "subset":
			flags.StringVar(&f.Subset, name, "test_v1", "part of the benchmark: test_v1 or test")
		case "epsilon":
			flags.Float64Var(&f.Epsilon, name, f.Epsilon, "margin of a tie, chosen elsewhere (default: the best one on the test set)")
			flags.Lookup(name).DefValue = "0" // the help prints no default then
		case "components":
			flags.StringVar(&f.predictions, name, "", "file of every sample's components or answers (JSON lines); the same as --predictions")
		case "means":
			flags.StringVar(&f.means, name, "", "CSV of published means: the overall score from them alone")
		case "bg-norm":
			flags.StringVar(&f.BGNorm, name, f.BGNorm, "normalisation of background differences: linear:K, exp:K or inverse:K")
		case "sigma":
			flags.Float64Var(&f.Sigma, name, f.Sigma, "tolerance of the expression gain")
		case "lower":
			flags.StringSliceVar(&f.Lower, name, nil, "metrics of which less is better, beside bg_rmse, lpips... and l2...")
		}
	}
}

// evaluation is what a benchmark command found.
type evaluation struct {
	systems    []benchmarks.System
	judged     []benchmarks.Judged
	comparison *benchmarks.Comparison
	facts      []string
	extra      map[string]any // added to the JSON of a single system
}

func (e *evaluation) add(name string, j benchmarks.Judged) {
	e.systems = append(e.systems, benchmarks.System{Name: name, Result: j.Result()})
	e.judged = append(e.judged, j)
}

func runBench(c *cobra.Command, b *benchmarks.Benchmark, f *benchFlags) error {
	if f.means != "" {
		r, err := b.Means(f.means)
		if err != nil {
			return err
		}
		return f.finish(c, b, &evaluation{systems: []benchmarks.System{{Name: "means", Result: r}}})
	}
	if f.checkOrder && f.runtime.scorer == "" {
		return cli.Usagef("--check-order scores pairs in both orders: give --scorer")
	}
	set, err := b.Load(f.Options)
	if err != nil {
		return cli.Usage(err)
	}
	e := &evaluation{extra: map[string]any{}}
	if f.predictions != "" {
		j, err := set.Read(f.predictions)
		if err != nil {
			return err
		}
		e.add(systemName(f.predictions), j)
	}
	encoded := slices.Contains(similarities, f.baseline)
	if encoded && f.runtime.scorer != "" {
		return cli.Usagef("--scorer and --baseline %s both run a model: run one after the other and put their predictions.jsonl into --compare", f.baseline)
	}
	if encoded || f.runtime.scorer != "" {
		if err := f.score(c, b, set, e); err != nil {
			return err
		}
	}
	if f.baseline != "" && !encoded {
		j, err := benchmarks.NewBaseline(set, f.baseline, f.seed)
		if err != nil {
			return cli.Usage(err)
		}
		e.add(j.Name, j)
		e.extra["baseline"], e.extra["seed"] = j.Name, f.seed
		if j.Expectation != nil {
			e.extra["expectation"] = j.Expectation
		}
	}
	for _, path := range f.compare {
		j, err := set.Read(path)
		if err != nil {
			return err
		}
		e.add(systemName(path), j)
	}
	if own, ok := set.(benchmarks.Answered); ok && len(e.judged) == 0 {
		if j, ok := own.Own(); ok {
			e.add("answers in the data", j)
		}
	}
	switch {
	case len(e.judged) == 0:
		return cli.Usagef("nothing to judge: give --predictions FILE, --scorer DIR, --baseline NAME, or --compare FILE FILE")
	case len(f.compare) > 0 || len(e.judged) > 1:
		distinct(e.systems)
		names := make([]string, len(e.systems))
		for i, s := range e.systems {
			names[i] = s.Name
		}
		if e.comparison, err = benchmarks.Compare(names, e.judged, f.resamples, f.seed); err != nil {
			return cli.Usage(err)
		}
	}
	return f.finish(c, b, e)
}

// systemName is the name of a file of predictions without folder and extension.
func systemName(path string) string {
	base := filepath.Base(path)
	return strings.TrimSuffix(base, filepath.Ext(base))
}

// distinct numbers systems of the same name.
func distinct(systems []benchmarks.System) {
	seen := map[string]int{}
	for i := range systems {
		seen[systems[i].Name]++
		if n := seen[systems[i].Name]; n > 1 {
			systems[i].Name = fmt.Sprintf("%s (%d)", systems[i].Name, n)
		}
	}
}

// finish writes the report and prints the results. Samples that could not be computed make the command fail at the end.
func (f *benchFlags) finish(c *cobra.Command, b *benchmarks.Benchmark, e *evaluation) error {
	r := &benchmarks.Report{Benchmark: b, Systems: e.systems, Comparison: e.comparison, Facts: e.facts}
	if f.report != "" {
		if err := r.Write(f.report); err != nil {
			return err
		}
	}
	v, err := e.json(b)
	if err == nil {
		err = cli.Print(c, v, func(w io.Writer) { e.print(w, r, f.report) })
	}
	failed := 0
	for _, s := range e.systems {
		failed += len(s.Result.Failed)
	}
	if err == nil && failed > 0 {
		err = cli.Reported(fmt.Errorf("%d samples could not be computed", failed))
	}
	return err
}

func (e *evaluation) json(b *benchmarks.Benchmark) (any, error) {
	if e.comparison != nil {
		type system struct {
			Name   string `json:"name"`
			Result any    `json:"result"`
		}
		var list []system
		for _, s := range e.systems {
			list = append(list, system{s.Name, s.Result.JSON})
		}
		return map[string]any{"benchmark": b.Name, "systems": list, "comparison": e.comparison}, nil
	}
	result := e.systems[0].Result.JSON
	if len(e.extra) == 0 {
		return result, nil
	}
	raw, err := json.Marshal(result)
	if err != nil {
		return nil, err
	}
	merged := map[string]any{}
	if err := json.Unmarshal(raw, &merged); err != nil {
		return nil, err
	}
	maps.Copy(merged, e.extra)
	return merged, nil
}

func (e *evaluation) print(w io.Writer, r *benchmarks.Report, folder string) {
	for _, fact := range e.facts {
		fmt.Fprintln(w, fact)
	}
	summary := r.Summary()
	if len(summary.Columns) > 0 {
		summary.Print(w)
	}
	if expectation, ok := e.extra["expectation"].(map[string]benchmarks.Value); ok {
		var parts []string
		for name, v := range expectation {
			parts = append(parts, fmt.Sprintf("%s %.4f", name, float64(v)))
		}
		slices.Sort(parts)
		fmt.Fprintf(w, "expected of random predictions: %s\n", strings.Join(parts, ", "))
	}
	for _, s := range e.systems {
		fmt.Fprintln(w)
		if len(e.systems) > 1 {
			fmt.Fprintf(w, "%s: ", s.Name)
		}
		fmt.Fprintf(w, "%d predictions used\n", s.Result.N)
		for _, note := range s.Result.Notes {
			fmt.Fprintln(w, "note:", note)
		}
		if n := len(s.Result.Missing); n > 0 {
			fmt.Fprintf(w, "missing: %d without a prediction: %v\n", n, s.Result.Missing[:min(n, 10)])
		}
		for _, failed := range s.Result.Failed {
			fmt.Fprintln(w, "not computed:", failed)
		}
		if len(e.systems) == 1 {
			for _, t := range s.Result.Tables {
				fmt.Fprintln(w)
				t.Print(w)
			}
			for _, c := range s.Result.Confusions {
				fmt.Fprintln(w)
				t := c.Table()
				t.Title = c.Title + ": truth \\ predicted"
				t.Print(w)
			}
		}
	}
	if e.comparison != nil {
		fmt.Fprintln(w)
		for _, note := range e.comparison.Notes {
			fmt.Fprintln(w, "note:", note)
		}
		e.comparison.Table().Print(w)
	}
	if folder != "" {
		fmt.Fprintf(w, "\nreport: %s\n", filepath.Join(folder, "index.html"))
	}
}
