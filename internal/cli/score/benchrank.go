package score

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/benchmarks/fedbench"
	"assay/internal/benchmarks/registry"
	"assay/internal/benchmarks/report"
	"assay/internal/cli"
	"assay/internal/exit"
)

// rankFlags are the flags of score bench rank.
type rankFlags struct {
	scores        []string
	votes, number string
	human         string
	lower         bool
	resamples     int
	seed          uint64
}

func newBenchRankCommand() *cobra.Command {
	var f rankFlags
	c := &cobra.Command{
		Use:   "rank (--scores FILE,... | --votes FILE)",
		Short: "Rank editors by comparing their outputs: Bradley-Terry strengths, and agreement with people",
		Long: `rank compares the outputs of editors for the same samples, by a number that a run of score bench wrote,
or by votes. Numbers are in predictions.jsonl or component-NAME.jsonl: lines of id, model and the number. Votes are
lines of left, right and winner. Strengths are Bradley-Terry's, with mean 0 and 95 % intervals over samples or votes; a
tie counts as half a win for each. --human is a ranking by people, lines of model and score (higher is better) or rank
(1 is the best), with which the rank correlation is computed.`,
		Example: `  score bench rank --scores runs/bench-gedit-bench/predictions.jsonl --human arena.jsonl
  score bench rank --scores runs/bench-magicbrush/component-l1.jsonl --number l1
  score bench rank --votes votes.jsonl --json`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return rankEditors(c, &f) },
	}
	flags := c.Flags()
	flags.StringSliceVar(&f.scores, "scores", nil, "files of numbers (JSON lines)")
	flags.StringVar(&f.number, "number", "score", "name of the number in --scores")
	flags.BoolVar(&f.lower, "lower", false, "lower is better, as always for distances (l1, d_vad, ...)")
	flags.StringVar(&f.votes, "votes", "", "file of votes (JSON lines)")
	flags.StringVar(&f.human, "human", "", "ranking by people (JSON lines)")
	flags.IntVar(&f.resamples, "resamples", 1000, "bootstrap resamples")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap")
	return c
}

func rankEditors(c *cobra.Command, f *rankFlags) error {
	if (len(f.scores) == 0) == (f.votes == "") || f.resamples < 0 {
		return exit.Usagef("either --scores or --votes is needed, and --resamples is 0 or more")
	}
	for _, name := range []string{"number", "lower"} {
		if f.votes != "" && c.Flags().Changed(name) {
			return exit.Usagef("--%s requires --scores: votes name the winner", name)
		}
	}
	var contest *report.Contest
	var err error
	if f.votes != "" {
		contest, err = report.ReadVotes(f.votes)
	} else {
		contest, err = report.ReadScores(f.scores, f.number, f.lower || registry.LowerIsBetter(f.number))
	}
	if err != nil {
		return err
	}
	var given map[string]float64
	if f.human != "" {
		if given, err = report.ReadGiven(f.human); err != nil {
			return err
		}
	}
	r, err := contest.Rank(given, f.resamples, f.seed)
	if err != nil {
		return err
	}
	return cli.Print(c, r, func(w io.Writer) {
		r.Table().Print(w)
		for _, note := range r.Notes {
			fmt.Fprintln(w, "note:", note)
		}
		if h := r.Human; h != nil {
			fmt.Fprintf(w, "rank correlation with the given ranking of %d editors: Spearman %.4f [%.2f, %.2f], "+
				"Kendall's tau-b %.4f\n", h.Editors, float64(h.Spearman), float64(h.Low), float64(h.High), float64(h.Kendall))
		}
	})
}

func newBenchEnsemblesCommand() *cobra.Command {
	var sizes []int
	c := &cobra.Command{
		Use:   "ensembles FILE",
		Short: "Search the set of models whose votes recognise expressions best (FED-Bench, Table 2)",
		Long: `ensembles lets all sets of models vote on the expressions of pictures, as FED-Bench did to choose the
models that check its ground truths. They vote on the seven expressions, and on the groups positive (happy), neutral and
negative. The file has lines of id, truth, model and answer. The label with most votes wins; if several labels tie, the
set is wrong. An answer that is not one of the seven expressions is wrong and not a vote; each model's number of them is
reported ("unreadable").`,
		Example: `  score bench ensembles answers.jsonl --sizes 3,5,7,9
  score bench ensembles answers.jsonl --json`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			r, err := fedbench.ReadRecognition(args[0])
			if err != nil {
				return exit.Usage(err)
			}
			found, err := r.Search(sizes)
			if err != nil {
				return exit.Usage(err)
			}
			return cli.Print(c, found, func(w io.Writer) {
				for i, t := range found.Tables() {
					if i > 0 {
						fmt.Fprintln(w)
					}
					t.Print(w)
					for _, note := range t.Notes {
						fmt.Fprintln(w, "note:", note)
					}
				}
			})
		},
	}
	c.Flags().IntSliceVar(&sizes, "sizes", []int{3, 5}, "how many models vote")
	return c
}
