package main

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/lab/internal/miniature"
)

func newRate() *cobra.Command {
	var in, truth, out string
	var passes int
	var noise float64
	var seed uint64
	c := &cobra.Command{
		Use:   "rate --in FILE --truth FILE --out FILE",
		Short: "Add the ratings of a noisy judge, who sees the truth",
		Long: `rate adds a column ratings to a table of edits: in each pass the judge returns the true degree with normal
noise, rounded to points of 0 to 10, as a number from 0 to 1. The noise only depends on --seed, the id and the pass.`,
		Example: `  build/lab/miniature rate --in exam/edits.jsonl --truth exam/truth.jsonl --passes 4 --noise 0.3 \
      --out rated.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if passes < 1 || !(noise >= 0) {
				return exit.Usagef("want --passes of 1 or more and --noise of 0 or more, not %d and %v", passes, noise)
			}
			return rate(c.Context(), in, truth, out, func(id string, degree float64) []float64 {
				return ratings(degree, passes, noise, seed, id)
			})
		},
	}
	flags := c.Flags()
	flags.StringVar(&in, "in", "", "table of edits with ids")
	flags.StringVar(&truth, "truth", "", "truth.jsonl of the data set")
	flags.StringVar(&out, "out", "", "JSONL file to write")
	flags.IntVar(&passes, "passes", 4, "ratings per edit")
	flags.Float64Var(&noise, "noise", 0.3, "standard deviation of a rating")
	flags.Uint64Var(&seed, "seed", 1, "seed of the noise")
	cli.Writes(c, []string{".jsonl"}, "out")
	for _, name := range []string{"in", "truth", "out"} {
		c.MarkFlagRequired(name)
	}
	return c
}

// ratings returns the ratings of an edit in each pass.
func ratings(degree float64, passes int, noise float64, seed uint64, id string) []float64 {
	h := fnv.New64a()
	h.Write([]byte(id))
	rng := rand.New(rand.NewPCG(seed, h.Sum64()))
	out := make([]float64, passes)
	for i := range out {
		out[i] = math.Round(10*min(1, max(0, degree+noise*rng.NormFloat64()))) / 10
	}
	return out
}

// rate writes the table with ratings, computed from id and degree.
func rate(ctx context.Context, in, truth, out string, of func(id string, degree float64) []float64) error {
	known, err := miniature.ReadTruth(truth)
	if err != nil {
		return exit.Usage(err)
	}
	degrees := map[string]float64{}
	for _, k := range known {
		degrees[k.ID] = k.Degree
	}
	edits, err := data.OpenTable(in)
	if err != nil {
		return exit.Usage(err)
	}
	defer edits.Close()
	columns := []data.Column{{Name: "ratings", Kind: data.KindJSON}}
	err = edits.Rewrite(ctx, out, data.FormatJSONL, columns, func(i int, rec *data.Record) error {
		row, err := edits.Read(i)
		if err != nil {
			return err
		}
		degree, ok := degrees[row.ID]
		if !ok {
			return exit.Usage(edits.At(i, fmt.Errorf("%s has no truth for %q", truth, row.ID)))
		}
		rec.Set("ratings", of(row.ID, degree))
		return nil
	})
	if err == nil {
		_, err = fmt.Fprintln(os.Stderr, out)
	}
	return err
}
