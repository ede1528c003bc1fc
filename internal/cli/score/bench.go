package score

import (
	"fmt"
	"io"
	"math"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/encoders"
	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
	"assay/internal/benchmarks/runner"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/textjudge"
)

func init() { register(newBenchCommand) }

// benchFlags are the options of one benchmark.
type benchFlags struct {
	protocol.Options
	runtime     scorerFlags
	predictions string
	components  []string
	metrics     []string // what measures components
	boxes       string
	writeTo     string // folder of the authors' files
	means       string
	examples    string // file of conversations
	baseline    string
	clip, dino  string // encoders of the baselines
	captions    string
	compare     []string
	checkOrder  bool
	report, out string
	shard       cli.ShardFlags
	seed        uint64
	resamples   int
}

func newBenchCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Evaluate a scorer, judge or editor by a published benchmark's rules",
		Long: `bench computes the numbers that papers report for a benchmark, each under the name of its rule, from a
file of predictions, a scorer, a VLM judge, or a baseline. score bench list prints what each benchmark needs on disk.

--shard (i/n, any/n, auto, as in score batch) splits the items among workers, which share the folder --out. When all are
done, the same command with --merge prints the report.`,
		Example: `  score bench list
  score bench imagenhub --ratings testdata/golden/imagenhub \
      --predictions testdata/golden/imagenhub/judges/gpt4o_0shot.jsonl
  score bench genaibench --ratings GenAI-Bench --scorer backbones/tiny-scorer --report report
  score bench genaibench --ratings GenAI-Bench --judge unifiedreward-edit/pair \
      --url http://localhost:8000/v1 --model NAME`,
	}
	c.AddCommand(newBenchListCommand(), newBenchAllCommand(), newBenchRankCommand(),
		newBenchEnsemblesCommand())
	for _, b := range registry.All() {
		c.AddCommand(newBenchmarkCommand(b))
	}
	return c
}

func newBenchListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Print what each benchmark needs on disk, where it is published, and its numbers",
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
			for _, b := range registry.All() {
				list = append(list, entry{b.Name, b.Title, b.Needs, b.Published, b.Predicts, b.Rules})
			}
			return cli.Print(c, list, func(w io.Writer) {
				for _, e := range list {
					fmt.Fprintf(w, "%s\n  %s\n  needs\n    %s\n  published by %s\n  predictions\n    %s\n  numbers\n    %s\n\n",
						e.Name, e.Title,
						strings.Join(e.Needs, "\n    "), e.Published, e.Predicts, strings.Join(e.Rules, "\n    "))
				}
			})
		},
	}
}

func newBenchmarkCommand(b *protocol.Benchmark) *cobra.Command {
	var f benchFlags
	c := &cobra.Command{
		Use:   b.Name,
		Short: b.Title,
		Long: fmt.Sprintf("%s.\n\nNeeds\n  %s\n\nPredictions, JSON lines\n  %s\n\nNumbers\n  %s", b.Title,
			strings.Join(b.Needs, "\n  "),
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

func (f *benchFlags) add(c *cobra.Command, b *protocol.Benchmark) {
	flags := c.Flags()
	flags.StringVar(&f.Data, "ratings", "", "published data with the human ratings: a folder or a file")
	flags.StringVar(&f.Data, "data", "", "the same as --ratings")
	flags.StringVar(&f.predictions, "predictions", "", "file of predictions (JSON lines)")
	flags.StringSliceVar(&f.compare, "compare", nil,
		"files of predictions to put into one table; the first one, or --predictions, is compared with the others")
	flags.StringVar(&f.baseline, "baseline", "",
		"baseline to compare with: random, constant, "+strings.Join(encoders.SimilarityNames(), ", "))
	flags.StringVar(&f.clip, "clip", "", "CLIP checkpoint (directory or .onnx) for the clip_ baselines")
	flags.StringVar(&f.dino, "dino", "", "DINOv2 checkpoint for the dino_ baselines")
	flags.StringVar(&f.captions, "captions", "",
		"JSON lines of id, source_caption, target_caption for clip_d and clip_t, if the data has none")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap and of random predictions")
	flags.IntVar(&f.resamples, "resamples", 2000, "bootstrap resamples")
	flags.StringVar(&f.report, "report", "",
		"folder to write a report to: index.html, results.csv, results.md, results.json")
	flags.StringVar(&f.out, "out", "",
		"folder of a scorer's predictions.jsonl (default runs/bench-"+b.Name+"); reuse it to resume")
	flags.BoolVar(&f.checkOrder, "check-order", false,
		"score pairs in both orders and count how often the winner flips")
	f.runtime.add(c)
	f.shard.Add(c)
	f.addOwn(flags, b.Flags)
	cli.Needs(c, "baseline", "clip", "dino", "captions")
	cli.Needs(c, "scorer|judge|baseline|component", "out", "device", "threads")
	if flags.Lookup("component") != nil {
		cli.Needs(c, "judge|component", judgeOptions...)
		cli.Needs(c, "scorer|judge|component", "backbone")
	}
	cli.Needs(c, "scorer", "dimension")
	if flags.Lookup("targets") != nil {
		cli.Needs(c, "baseline", "targets")
	}
	c.MarkFlagsMutuallyExclusive("ratings", "data")
	if flags.Lookup("boxes") != nil {
		cli.Needs(c, "component", "boxes")
	}
}

// addOwn adds the flags that the benchmark lists.
func (f *benchFlags) addOwn(flags *pflag.FlagSet, names []string) {
	f.Epsilon, f.BGNorm, f.Sigma = math.NaN(), "linear:255", 0.5
	for _, name := range names {
		switch name {
		case "images":
			flags.StringVar(&f.Images, name, "", "folder of the pictures")
		case "targets":
			flags.StringVar(&f.Targets, name, "", "ImagenHub's pictures with GroundTruth/, for clip_i and dino_i")
		case "target":
			flags.StringVar(&f.Target, name, "O", "human value: O (the square root of SC x PQ), SC or PQ")
		case "votes":
			flags.StringVar(&f.Votes, name, "", "file of votes (JSON lines)")
		case "subset":
			flags.StringVar(&f.Subset, name, "test_v1", "part of the benchmark: test_v1 or test")
		case "epsilon":
			flags.Float64Var(&f.Epsilon, name, f.Epsilon,
				"tie margin, chosen elsewhere (default: the best one on the test set)")
			flags.Lookup(name).DefValue = "0" // the help prints no default then
		case "components":
			flags.StringSliceVar(&f.components, name, nil,
				"files of every sample's components or answers (JSON lines), which are combined")
		case "component":
			flags.StringSliceVar(&f.metrics, name, nil, "what measures components of the editors' pictures, NAME=WHAT or "+
				"WHAT: metrics (YAML files; train export-metric makes some), on aim-bench and fed-bench also VLM "+
				"judges (such as aim/sc; they ask the model of --backbone, or of --url and --model) and scorers "+
				"(NAME=DIR)")
			flags.StringVar(&f.boxes, "boxes", "", "boxes, points and masks of pictures (JSON lines) for metrics that need them")
		case "editors":
			flags.StringSliceVar(&f.Editors, name, nil, "folders of the editors' pictures and their measurements")
		case "by":
			flags.StringToStringVar(&f.By, name, nil,
				"what measured a component, if the files do not say, such as sc=gpt-4o: tables compare by it")
		case "human":
			flags.StringVar(&f.Human, name, "", "file of human ratings of the samples (JSON lines) to correlate with")
		case "write-authors":
			flags.StringVar(&f.writeTo, name, "", "folder to write the files of the benchmark's authors to")
		case "examples":
			flags.StringVar(&f.examples, name, "", "write the statements as training conversations with --judge's question "+
				"and the right answer (.jsonl; train, mode: text), ask nothing")
		case "means":
			flags.StringVar(&f.means, name, "", "CSV of published means: compute only the overall score, from them")
		case "bg-norm":
			flags.StringVar(&f.BGNorm, name, f.BGNorm,
				"normalisation of background differences: linear:K, exp:K or inverse:K")
		case "sigma":
			flags.Float64Var(&f.Sigma, name, f.Sigma, "tolerance of the expression gain")
		case "lower":
			flags.StringSliceVar(&f.Lower, name, nil, "metrics for which lower is better, besides bg_rmse, lpips..., "+
				"l1... and l2...")
		default:
			panic("a benchmarks.txt lists the flag " + name + ", which is unknown here")
		}
	}
}

// writeExamples writes training conversations with a judge's question and the right answers; nothing is asked.
func (f *benchFlags) writeExamples(c *cobra.Command, set protocol.Teachable) error {
	given := []string{"examples", "ratings", "data", "images", "judge", "prompts"}
	if err := alone(c, "--examples asks nothing", given...); err != nil {
		return err
	}
	if f.runtime.judge == "" {
		return exit.Usagef("--examples needs --judge, whose question they ask")
	}
	if filepath.Ext(f.examples) != ".jsonl" {
		return exit.Usagef("%s: want a .jsonl file", f.examples)
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

// alone refuses all flags except the allowed ones.
func alone(c *cobra.Command, why string, allowed ...string) error {
	var others []string
	c.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if flag.Changed && !slices.Contains(allowed, flag.Name) {
			others = append(others, "--"+flag.Name)
		}
	})
	if len(others) > 0 {
		return exit.Usagef("%s: %s: omit this, or omit --%s", strings.Join(others, ", "), why, allowed[0])
	}
	return nil
}
