// Command miniature writes data sets of edits whose true degree of success is known, and compares scores with the
// truth (docs/miniature.md). The demonstration, the reproduction book and the end-to-end tests are based on it.
package main

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/lab/internal/miniature"
)

var app = cli.App{Root: newMiniature}

func init() {
	app.Register(newEvaluate)
	app.Register(newMeasure)
	app.Register(newRate)
}

func main() { app.Main() }

// options are the flags of miniature.
type options struct {
	photos, out, pictures string
	size                  int
	augment               bool
	which                 miniature.Selection
	set                   miniature.Set
}

func newMiniature() *cobra.Command {
	var f options
	c := &cobra.Command{
		Use:   "miniature --photos DIR --out DIR",
		Short: "Write a data set of edits whose true degree of success is known",
		Long: `miniature crops small pictures from photographs and writes a plain data set: instructions, outputs of
candidate editors, multi-turn chains and captions. The true degree of success of every output is in a separate file.
label reads the set like any other; see docs/miniature.md. The same photographs, flags and seed make the same data set,
whatever the number of CPUs.

Exit codes: 0 done, 1 failed, 2 wrong usage.`,
		Example: `  build/lab/miniature --photos examples/photos --out data/miniature --seed 1 --held tissue,rocket
  build/lab/miniature --photos examples/photos --out data/exam --seed 2 --only tissue,rocket --exam`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if f.set.Exam && f.augment && c.Flags().Changed("augment") {
				return exit.Usagef("--augment is not for an exam, whose crops are not augmented")
			}
			return write(c, f)
		},
	}
	f.tasks(c.Flags())
	flags := c.Flags()
	flags.StringVar(&f.out, "out", "", "folder to write, new or empty")
	cli.Makes(c, "out")
	flags.IntVar(&f.set.Chains, "chains", -1, "chains of edits (default: a fifth of the instructions, none for an exam)")
	flags.StringVar(&f.pictures, "pictures", "files", "files: PNG files; embed: inside Parquet tables")
	return c
}

// tasks adds the flags that determine the tasks of a data set.
func (f *options) tasks(flags *pflag.FlagSet) {
	flags.StringVar(&f.photos, "photos", "", "folder of photographs; cat.txt next to cat.png is its caption")
	flags.Uint64Var(&f.set.Seed, "seed", 1, "seed of all random choices")
	flags.IntVar(&f.set.Instructions, "instructions", 1400, "instructions, each for a separate source")
	flags.IntVar(&f.size, "size", miniature.DefaultSize, "side of the pictures in pixels, a multiple of 8")
	flags.StringSliceVar(&f.which.Held, "held", nil, "names of photographs to leave out, such as a,b")
	flags.StringSliceVar(&f.which.Only, "only", nil, "names of the only photographs to use")
	flags.BoolVar(&f.set.Exam, "exam", false, "for testing a scorer: one output of every kind, without augmentation")
	flags.BoolVar(&f.augment, "augment", true, "mirror and turn crops, vary their colours (never for an exam)")
}

// world opens the photographs.
func (f *options) world() (*miniature.World, error) {
	if len(f.which.Held) > 0 && len(f.which.Only) > 0 {
		return nil, exit.Usagef("--held and --only: use one of the two")
	}
	photos, err := miniature.OpenPhotos(f.photos, f.size, f.which)
	if err != nil {
		return nil, exit.Usage(err)
	}
	world, err := miniature.New(photos, f.size, f.augment && !f.set.Exam)
	if err != nil {
		return nil, exit.Usage(err)
	}
	return world, nil
}

func newEvaluate() *cobra.Command {
	var truth, scores, column string
	c := &cobra.Command{
		Use:   "evaluate --truth FILE --scores FILE",
		Short: "Compare scores with the true degree of success",
		Long: `evaluate compares the scores of all outputs of a miniature data set with the truth. It prints rank
correlations: overall, for each family, and for outputs that look like edits of their source ("alive"). It also prints
how often the better one of two outputs for one instruction has the higher score (equal scores are wrong).`,
		Example: `  score batch --scorer DIR --in data/exam/edits.jsonl --out scores.jsonl
  build/lab/miniature evaluate --truth data/exam/truth.jsonl --scores scores.jsonl`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if truth == "" || scores == "" {
				return exit.Usagef(
					"--truth and --scores are needed: the truth file of the data set, and a table with columns id and %s", column)
			}
			known, err := miniature.ReadTruth(truth)
			if err != nil {
				return err
			}
			rows, err := miniature.Join(known, scores, column)
			if err != nil {
				return err
			}
			r := miniature.Evaluate(rows)
			return cli.Print(c, r, func(w io.Writer) { printResult(w, r) })
		},
	}
	c.Flags().StringVar(&truth, "truth", "", "truth.jsonl of the data set")
	c.Flags().StringVar(&scores, "scores", "", "table of scores, with the ids of the data set's edits table")
	c.Flags().StringVar(&column, "column", "score01", "column of the scores")
	return c
}

func printResult(w io.Writer, r miniature.Result) {
	fmt.Fprintf(w, "%d outputs, %d pairs\n", r.Outputs, r.Pairs)
	fmt.Fprintf(w, "Spearman %.3f, mean of families %.3f, one part %.3f, two parts %.3f\n", r.Spearman, r.FamilyMean,
		r.OnePart, r.TwoParts)
	fmt.Fprintf(w, "alive %.3f, mean of families %.3f\npair accuracy %.3f\n", r.Alive, r.AliveFamilyMean, r.PairAccuracy)
	for _, f := range miniature.Families {
		if rho, ok := r.Families[f]; ok {
			fmt.Fprintf(w, "  %-12s %.3f, alive %.3f\n", f, rho, r.AliveFamilies[f])
		}
	}
	for _, k := range miniature.Kinds {
		if share, ok := r.PerfectOver[k]; ok {
			fmt.Fprintf(w, "  perfect above %-16s %.3f\n", k, share)
		}
	}
}

func write(c *cobra.Command, f options) error {
	set := f.set
	if set.Chains < 0 {
		if set.Chains = set.Instructions / 5; set.Exam {
			set.Chains = 0
		}
	}
	switch {
	case f.photos == "" || f.out == "":
		return exit.Usagef("--photos and --out are needed: the folder of photographs, and the folder to write")
	case set.Instructions < 0 || set.Instructions+set.Chains == 0:
		return exit.Usagef("--instructions %d: want at least 1", set.Instructions)
	case f.pictures != "files" && f.pictures != "embed":
		return exit.Usagef("--pictures: want files or embed, not %q", f.pictures)
	}
	set.Embed = f.pictures == "embed"
	world, err := f.world()
	if err != nil {
		return err
	}
	bar := cli.NewProgress(c, "miniature", int64(set.Instructions+set.Chains), "instructions")
	defer bar.Close()
	var pictures atomic.Int64
	start := time.Now()
	summary, err := world.Write(c.Context(), f.out, set, func(n int) {
		bar.Add(1, fmt.Sprintf("%.0f pictures/s", float64(pictures.Add(int64(n)))/time.Since(start).Seconds()))
	})
	if err != nil {
		return err
	}
	rate := float64(summary.Pictures) / time.Since(start).Seconds()
	v := struct {
		*miniature.Summary
		PicturesPerSecond float64 `json:"pictures_per_second"`
	}{summary, rate}
	return cli.Print(c, v, func(w io.Writer) {
		var kinds []string
		for _, k := range miniature.Kinds {
			kinds = append(kinds, fmt.Sprintf("%s %d", k, summary.Kinds[k]))
		}
		fmt.Fprintf(w, "%d instructions with %d outputs, %d chains: %d pictures, %.0f a second\n", summary.Instructions,
			summary.Outputs, summary.Chains, summary.Pictures, rate)
		fmt.Fprintf(w, "outputs: %s\nthe truth: %s\n", strings.Join(kinds, ", "), filepath.Join(f.out, miniature.TruthFile))
	})
}
