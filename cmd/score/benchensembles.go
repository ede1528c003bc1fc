package main

import (
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"assay/internal/benchmarks/fedbench"
	"assay/internal/cli"
	"assay/internal/exit"
)

func newBenchEnsemblesCommand() *cobra.Command {
	var sizes []int
	c := &cobra.Command{
		Use:   "ensembles FILE",
		Short: "Search the set of models whose votes recognise expressions best (FED-Bench, Table 2)",
		Long: `ensembles lets all sets of models vote on the expressions of pictures, as FED-Bench chose the models that
check its ground truths. They vote on the seven expressions, and regrouped to positive (happy), neutral and negative.
The file has lines of id, truth, model and answer. Most votes win; where several labels have most, the set is wrong. An
answer that is none of the seven expressions is wrong and no vote; how many a model has is told ("unreadable").`,
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
