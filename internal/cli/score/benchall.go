package score

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/internal/benchmarks/protocol"
	"assay/internal/benchmarks/registry"
	"assay/internal/benchmarks/report"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/remote"
	"assay/internal/strictyaml"
)

// allFlags are the options of score bench all.
type allFlags struct {
	config, out, report string
	scorers             []string
	device              string
	threads, resamples  int
	seed                uint64
}

func newBenchAllCommand() *cobra.Command {
	var f allFlags
	c := &cobra.Command{
		Use:   "all --config FILE --scorer DIR",
		Short: "One table over all benchmarks: the headline number of each, a column for each scorer",
		Long: `all runs scorers on every benchmark that the configuration has data for, and prints their headline
numbers. The configuration gives the data of a benchmark as flags of its own command:

  benchmarks:
    genaibench: {ratings: GenAI-Bench}
    aurora-point: {ratings: human_ratings.json, images: AURORA, dimension: following}

Paths start at the configuration's folder. A benchmark that is missing, or on which no scorer can be run, is listed as
not run. All numbers of a column come from the same scorer. The same command resumes.`,
		Example: "  score bench all --config benchmarks.yaml --scorer backbones/tiny-scorer --report report",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return benchAll(c, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "YAML file: the data of each benchmark")
	flags.StringSliceVar(&f.scorers, "scorer", nil, "scorer directory; each gets a column")
	flags.StringVar(&f.out, "out", filepath.Join("runs", "bench-all"),
		"folder of the predictions, by scorer and benchmark; reuse it to resume")
	flags.StringVar(&f.report, "report", "",
		"folder to write a report to: index.html, results.csv, results.md, results.json")
	flags.StringVar(&f.device, "device", "auto", "auto, cpu, cuda or cuda:N")
	flags.IntVar(&f.threads, "threads", 0, "CPU threads (default: all cores)")
	flags.IntVar(&f.resamples, "resamples", 2000, "bootstrap resamples")
	flags.Uint64Var(&f.seed, "seed", 1, "seed of the bootstrap")
	return c
}

// benchmarkFlags are the flags of each benchmark's own command, by its name.
type benchmarkFlags map[string]map[string]string

// readBenchmarks reads a configuration, with absolute paths.
func readBenchmarks(path string) (benchmarkFlags, error) {
	text, folder, err := strictyaml.ReadFile(path)
	if err != nil {
		return nil, exit.Usage(err)
	}
	var c struct {
		Benchmarks benchmarkFlags `yaml:"benchmarks"`
	}
	d := strictyaml.Decode(path, text, &c)
	ours := []string{"scorer", "judge", "baseline", "predictions", "compare", "component", "components", "out", "report",
		"shard", "merge", "examples", "means", "device", "threads", "resamples", "seed"}
	for name, given := range c.Benchmarks {
		b, err := registry.Find(name)
		if err != nil {
			d.Problem("benchmarks."+name, "%v", err)
			continue
		}
		flags := newBenchmarkCommand(b).Flags()
		for flag, value := range given {
			known := flags.Lookup(flag) != nil && !slices.Contains(ours, flag)
			d.Want(known, "benchmarks."+name+"."+flag, "not an option of score bench %s that can be set here", name)
			paths := []string{"ratings", "data", "images", "votes", "targets", "human", "backbone", "editors"}
			if !slices.Contains(paths, flag) {
				continue
			}
			list := strings.Split(value, ",") // of editors
			for i, one := range list {
				list[i] = remote.Join(folder, one)
			}
			given[flag] = strings.Join(list, ",")
		}
		d.Want(given["ratings"]+given["data"] != "", "benchmarks."+name, "ratings: the benchmark's data is needed")
	}
	return c.Benchmarks, exit.Usage(d.Err())
}

func benchAll(c *cobra.Command, f *allFlags) error {
	if f.config == "" || len(f.scorers) == 0 {
		return exit.Usagef("--config and --scorer are needed: the data of the benchmarks, and what is measured")
	}
	if f.resamples < 0 {
		return exit.Usagef("--resamples %d: want 0 or more", f.resamples)
	}
	given, err := readBenchmarks(f.config)
	if err != nil {
		return err
	}
	var o report.Overview
	for _, dir := range f.scorers {
		name := systemName(dir)
		if slices.Contains(o.Judges, name) {
			return exit.Usagef("--scorer: two are named %s: copy or link one under another name", name)
		}
		o.Judges = append(o.Judges, name)
	}
	for _, b := range registry.All() {
		row, err := f.row(c, b, given[b.Name], o.Judges)
		if err != nil {
			return err
		}
		o.Rows = append(o.Rows, row)
	}
	if f.report != "" {
		if err := o.Write(f.report); err != nil {
			return err
		}
	}
	err = cli.Print(c, &o, func(w io.Writer) {
		table := o.Table()
		table.Print(w)
		for _, note := range table.Notes {
			fmt.Fprintln(w, note)
		}
		if f.report != "" {
			fmt.Fprintf(w, "\nreport: %s\n", filepath.Join(f.report, "index.html"))
		}
	})
	if n := o.Failed(); err == nil && n > 0 {
		err = exit.Reported(fmt.Errorf("%d results could not be computed", n))
	}
	return err
}

// row runs all scorers on a benchmark. An error ends the command; a failure of this benchmark alone goes into its
// cell.
func (f *allFlags) row(
	c *cobra.Command, b *protocol.Benchmark, given map[string]string, judges []string,
) (report.OverviewRow, error) {
	row := report.OverviewRow{Benchmark: b.Name, Title: b.Title}
	if given == nil {
		row.NotRun = "no data given"
		return row, nil
	}
	for _, key := range []string{"dimension", "subset", "target"} {
		if v := given[key]; v != "" {
			row.With = strings.TrimPrefix(row.With+", "+key+" "+v, ", ")
		}
	}
	set, err := b.Load(protocol.Options{Data: given["ratings"] + given["data"], Images: given["images"]})
	if _, scorable := set.(protocol.Scorable); err == nil && !scorable {
		row.NotRun = "it is computed from components or answers: no scorer can be run on it"
		return row, nil
	}
	for i, dir := range f.scorers {
		r, err := f.one(c, b, given, dir, filepath.Join(f.out, judges[i], b.Name))
		if errors.Is(err, exit.ErrInterrupted) || c.Context().Err() != nil {
			return row, err
		}
		cell := report.OverviewCell{Judge: judges[i]}
		if err != nil {
			cell.Error = err.Error()
		} else {
			cell = r.Overall(judges[i])
		}
		row.Cells = append(row.Cells, cell)
	}
	return row, nil
}

// one runs a scorer on a benchmark, as its own command does.
func (f *allFlags) one(
	c *cobra.Command, b *protocol.Benchmark, given map[string]string, scorer, out string,
) (*report.Report, error) {
	var own benchFlags
	sub := &cobra.Command{Use: b.Name}
	own.add(sub, b)
	sub.Flags().AddFlagSet(c.InheritedFlags())
	sub.SetContext(c.Context())
	sub.SetOut(c.OutOrStdout())
	sub.SetErr(c.ErrOrStderr())
	values := maps.Clone(given)
	values["scorer"], values["out"], values["device"] = scorer, out, f.device
	values["threads"], values["resamples"], values["seed"] = fmt.Sprint(f.threads), fmt.Sprint(f.resamples),
		fmt.Sprint(f.seed)
	for name, v := range values {
		if err := sub.Flags().Set(name, v); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return benchReport(sub, b, &own)
}
