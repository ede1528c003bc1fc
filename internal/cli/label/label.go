package label

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/labeling"
	"assay/internal/shards"
	"assay/internal/table"
)

func init() {
	App.Configure(func(root *cobra.Command) {
		var config, shard string
		var check bool
		var rows int
		root.Use = "label --config FILE"
		root.Args = cobra.NoArgs
		root.RunE = func(c *cobra.Command, _ []string) error {
			if check {
				return runCheck(c, config, rows)
			}
			return runLabel(c, config, shard)
		}
		root.Example = `  label --config examples/label.yaml
  label --config examples/label.yaml --check   # looks at the data sets, and measures nothing
  label --config label.yaml --shard 1/4     # on four machines, 1/4 to 4/4, then:
  label merge --config label.yaml`
		root.Flags().StringVar(&config, "config", "", "YAML file of the run; see docs/label.md")
		root.Flags().StringVar(&shard, "shard", "", "i/n, or auto: measure this machine's share only, to be merged later")
		root.Flags().BoolVar(&check, "check", false, "check columns, samples and profiles, and write nothing")
		root.Flags().IntVar(&rows, "check-rows", 100, "samples of each data set that --check reads")
		cli.Needs(root, "check", "check-rows")
		root.MarkFlagsMutuallyExclusive("check", "shard")
	})
	App.Register(newMerge)
}

func newMerge() *cobra.Command {
	var config string
	c := &cobra.Command{
		Use:   "merge --config FILE [DIR...]",
		Short: "Build the table from the measurements of all shards",
		Long: `merge applies the rules to everything that label --shard measured, and writes the table and the report.
DIRs are the output folders of machines that do not share the configuration's; measurements are copied from there.
The result does not depend on the number of shards. Rules, thresholds, splits and the guard can be changed, and the
table merged again, without measuring again.`,
		Example: `  label merge --config label.yaml
  label merge --config label.yaml copied/machine1 copied/machine2`,
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, dirs []string) error { return runMerge(c, config, dirs) },
	}
	c.Flags().StringVar(&config, "config", "", "YAML file of the run")
	return c
}

// openJob reads the configuration and opens its data sets.
func openJob(c *cobra.Command, config string) (*labeling.Job, error) {
	if config == "" {
		return nil, exit.Usagef("--config is needed: a YAML file; see docs/label.md")
	}
	cfg, err := labeling.Load(config)
	if err != nil {
		return nil, exit.Usage(err)
	}
	job, err := labeling.Open(c.Context(), cfg)
	var other *labeling.PlanError
	var source *labeling.SourceError
	if c.Context().Err() == nil && (errors.As(err, &other) || errors.As(err, &source)) {
		return nil, exit.Usage(err)
	}
	if err == nil {
		for _, mix := range cfg.Mixes() { // now, not after hours of measuring
			fmt.Fprintln(c.ErrOrStderr(), "warning:", mix)
		}
	}
	return job, interrupted(c.Context(), cfg, err)
}

// interrupted marks an error that comes from the user's interrupt: all finished measurements are saved.
func interrupted(ctx context.Context, cfg *labeling.Config, err error) error {
	if err != nil && ctx.Err() != nil && !errors.Is(err, exit.ErrInterrupted) {
		return fmt.Errorf("%w in %s: rerun the same command to resume", exit.ErrInterrupted, cfg.Out)
	}
	return err
}

// parseShard parses the flag --shard, whose i may also count from 0.
func parseShard(text string) (shards.Ref, error) {
	ref, err := shards.Parse(text)
	if of, ok := strings.CutPrefix(text, "0/"); ok {
		ref, err = shards.Parse(of + "/" + of)
	}
	if !strings.HasPrefix(text, "auto") && (err != nil || ref.Count > 0 && ref.Index == 0) {
		return ref, exit.Usagef("--shard: want i/n, such as 1/4, with i at most n, not %q", text)
	}
	return ref, exit.Usage(err)
}

func runLabel(c *cobra.Command, config, shard string) error {
	ref, err := parseShard(shard)
	if err != nil {
		return err
	}
	job, err := openJob(c, config)
	if err != nil {
		return err
	}
	defer job.Close()
	if err := measure(c, job, ref); err != nil {
		return interrupted(c.Context(), job.Config, err)
	}
	if shard == "" {
		return merge(c, job)
	}
	if strings.HasPrefix(shard, "auto") {
		shard = ref.String()
	}
	v := map[string]any{"shard": shard, "out": job.Config.Out}
	return cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "shard %s is measured in %s; label merge builds the table when all are\n", shard, job.Config.Out)
	})
}

// measure measures what is left of a shard.
func measure(c *cobra.Command, job *labeling.Job, shard shards.Ref) error {
	bar := cli.Bar{Command: c, What: "measuring", Unit: "samples", Note: func(passed time.Duration) string {
		return fmt.Sprintf("%.1f pictures/s", float64(job.Pictures())/passed.Seconds())
	}}
	defer bar.Close()
	return job.Measure(c.Context(), table.Options{Shard: shard, Progress: bar.Set}, cli.Warner(c))
}

func runMerge(c *cobra.Command, config string, dirs []string) error {
	job, err := openJob(c, config)
	if err != nil {
		return err
	}
	defer job.Close()
	for _, dir := range dirs {
		if err := job.AddShard(c.Context(), dir); err != nil {
			return interrupted(c.Context(), job.Config, err)
		}
	}
	return merge(c, job)
}

func merge(c *cobra.Command, job *labeling.Job) error {
	report, err := job.Merge(c.Context())
	if err != nil {
		return interrupted(c.Context(), job.Config, err)
	}
	out := job.Config.Out
	return cli.Print(c, report, func(w io.Writer) {
		fmt.Fprintf(w, "%d rows in %s: %d labelled, %d without a label\n", report.TableRows,
			filepath.Join(out, labeling.TableFile), report.Labelled, report.Unlabelled)
		var counts []string
		for _, rule := range report.RuleNames() {
			counts = append(counts, fmt.Sprintf("%s %d", rule, report.Rules[rule]))
		}
		fmt.Fprintf(w, "rules: %s\n", strings.Join(counts, ", "))
		fmt.Fprintf(w, "profile: %s, CLIP-D %s\n", report.Profile, report.ClipD)
		fmt.Fprintf(w, "samples %s\nrows %s\n", &report.Samples, &report.Candidates)
		for _, warning := range report.Warnings {
			fmt.Fprintf(w, "warning: %s\n", warning)
		}
		if report.Bad > 0 || len(report.Skipped) > 0 {
			fmt.Fprintf(w, "%d could not be used; everything that is not in the table: %s\n", report.Bad,
				filepath.Join(out, labeling.SkippedFile))
		}
		fmt.Fprintf(w, "report: %s\n", filepath.Join(out, labeling.PageFile))
	})
}
