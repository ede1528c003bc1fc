package train

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/hub"
	"assay/internal/trainer"
	"assay/internal/trainer/bybenchmark"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/ort"
)

func init() {
	App.Configure(func(root *cobra.Command) {
		var o runOptions
		f := root.Flags()
		f.StringVar(&o.config, "config", "", "YAML file of the run (docs/training.md; all keys: docs/training-keys.md)")
		f.StringVar(&o.backbone, "backbone", "", "checkpoint directory, instead of the backbone in the file or of its init")
		f.BoolVar(&o.dryRun, "dry-run", false,
			"print steps, tokens, memory and the device plan; train nothing. The backbone's weights may be absent")
		f.StringVar(&o.memory, "device-memory", "",
			"with --dry-run: plan for a GPU with that much memory (80GB, 24GiB), which need not be present")
		f.IntVar(&o.planned, "ranks", 0, "with --dry-run: plan for N processes that train together (docs/scale.md)")
		f.BoolVar(&o.fresh, "fresh", false, "clear the run directory and start over")
		f.BoolVar(&o.resume, "resume", false, "fail if there is no checkpoint to resume from")
		f.StringVar(&o.push, "push", "",
			"Hugging Face Hub repository to push the best scorer to, after the run (see score push)")
		cli.TakesText(root, "push")
		f.BoolVar(&o.force, "force-resume", false, "resume even if the configuration, backbone or data differ")
		root.MarkFlagsMutuallyExclusive("fresh", "resume")
		root.MarkFlagsMutuallyExclusive("fresh", "force-resume")
		root.Args = cobra.NoArgs
		root.RunE = func(c *cobra.Command, _ []string) error { return o.run(c) }
	})
}

// runOptions are the flags of the bare command train.
type runOptions struct {
	config, backbone, memory     string
	push                         string // repository; "": none
	planned                      int    // processes
	dryRun, fresh, resume, force bool
}

func (o *runOptions) run(c *cobra.Command) error {
	if o.config == "" {
		return exit.Usagef("--config FILE is needed, or a subcommand (see train --help)")
	}
	if err := job.join(); err != nil {
		return err
	}
	return job.speak(o.begin(c))
}

// begin is run, after the process has joined its MPI job.
func (o *runOptions) begin(c *cobra.Command) error {
	run, err := config.Load(o.config)
	if err != nil {
		return exit.Usage(err)
	}
	if o.backbone != "" {
		if run.Backbone, err = filepath.Abs(o.backbone); err != nil {
			return err
		}
		if err := run.Check(); err != nil {
			return exit.Usage(fmt.Errorf("with --backbone %s: %w", o.backbone, err))
		}
	}
	if o.memory != "" && !o.dryRun {
		return exit.Usagef("--device-memory requires --dry-run: a run uses the available memory")
	}
	if c.Flags().Changed("ranks") && (!o.dryRun || o.planned < 1) {
		return exit.Usagef("--ranks %d: want 1 or more processes, with --dry-run: a run has the processes that mpirun or "+
			"srun starts", o.planned)
	}
	progress := func(what string, total int64, unit string) dataset.Progress {
		return cli.NewProgress(c, what, total, unit)
	}
	if o.dryRun && !job.first() {
		return nil // rank 0 plans
	}
	if o.dryRun {
		return o.plan(c, run, progress)
	}
	if err := o.checkPush(run); err != nil {
		return err
	}
	if _, err := ort.Version(); err != nil { // rather than after reading all rows
		return err
	}
	r, err := trainer.Train(c.Context(), trainer.Options{
		Config:   run,
		Factory:  models.Open,
		Fresh:    o.fresh,
		Resume:   o.resume,
		Force:    o.force,
		Progress: progress,
		Warn:     cli.Warner(c),
		Note:     cli.Noter(c),
		Strategy: job.strategy(),

		Benchmark: bybenchmark.Open,
	})
	if err != nil || !job.first() {
		return err
	}
	done := finished{Result: r}
	if o.push != "" {
		done.Pushed, err = cli.PushScorer(c, cmp.Or(r.BestScorer, r.Scorer), o.push, "", hub.Push{Message: "Upload a scorer"})
	}
	return exit.Join(err, cli.Print(c, done, done.print))
}

// finished is the result of a run, and of the push of its scorer.
type finished struct {
	*trainer.Result
	Pushed *hub.Pushed `json:"pushed,omitempty"`
}

func (f finished) print(w io.Writer) {
	printResult(w, f.Result)
	if f.Pushed != nil {
		fmt.Fprintf(w, "pushed to %s, commit %s\n", f.Pushed.URL, f.Pushed.Commit)
	}
}

// checkPush reports before the run why its scorer could not be pushed.
func (o *runOptions) checkPush(run *config.Config) error {
	if o.push == "" {
		return nil
	}
	if run.Mode == config.ModeText {
		return exit.Usagef("--push is for scorers, but mode text trains an adapter")
	}
	if _, ok := hub.NameOf(run.Backbone); !ok && run.Backbone != "" && run.Mode != "full" { // which writes the backbone
		return exit.Usagef("--push: the backbone is %s, a local folder, which others do not have: give its name on the Hub "+
			"(org/name), or push afterwards with score push --backbone", run.Backbone)
	}
	_, _, err := cli.Target(o.push)
	return err
}

// plan prints what the run would do and need.
func (o *runOptions) plan(
	c *cobra.Command, run *config.Config,
	progress func(what string, total int64, unit string) dataset.Progress,
) error {
	var memory config.CacheSize
	if o.memory != "" {
		if err := memory.UnmarshalValue(o.memory); err != nil || memory <= 0 {
			return exit.Usagef("--device-memory: want a size like 80GB or 24GiB, not %q", o.memory)
		}
	}
	plan, err := trainer.DryRun(c.Context(), run, models.OpenPlanFor(int64(memory)),
		trainer.PlanOptions{Progress: progress, Ranks: o.planned, Benchmark: bybenchmark.Open})
	if err != nil {
		return err
	}
	if err := cli.Print(c, plan, func(w io.Writer) { printPlan(w, plan) }); err != nil || plan.Err() == nil {
		return err
	}
	return exit.Reported(plan.Err())
}

func printPlan(w io.Writer, p *models.Plan) {
	fmt.Fprintf(w, "device       %s\n", p.Device)
	if p.Kernels != "" {
		fmt.Fprintf(w, "kernels      %s\n", p.Kernels)
	}
	if p.Groups > 0 {
		fmt.Fprintf(w, "steps        %d of whole groups, at most %d samples; %d samples in %d groups in all\n", p.Steps,
			p.BatchSize, p.Examples, p.Groups)
	} else {
		fmt.Fprintf(w, "steps        %d of %d samples, %d samples in all\n", p.Steps, p.BatchSize, p.Examples)
	}
	fmt.Fprintf(w, "micro-batch  %d samples\n", p.MicroBatch)
	if p.Recompute != nil {
		fmt.Fprintf(w, "recompute    %v\n", p.Recompute)
	}
	fmt.Fprintf(w, "rows         %d for training, %d for validation\n", p.Rows, p.Validation)
	for _, text := range p.Warnings {
		fmt.Fprintf(w, "warning      %s\n", text)
	}
	if p.Benchmark != "" {
		fmt.Fprintf(w, "best         by %s\n", p.Benchmark)
	}
	if p.Summary != nil {
		p.Summary.Print(w)
	}
	if len(p.BadRows) > 0 {
		fmt.Fprintf(w, "set aside    %d rows that cannot be used\n", len(p.BadRows))
	}
	for _, b := range p.BadRows {
		fmt.Fprintf(w, "             %v\n", b)
	}
	if p.Tokens.Max > 0 {
		fmt.Fprintf(w, "tokens       %d to %d per sample, %.1f on average, about %.0f in all\n", p.Tokens.Min, p.Tokens.Max,
			p.Tokens.Mean, p.Tokens.Mean*float64(p.Examples))
	}
	if s := p.Shared; s != nil && s.Why != "" {
		fmt.Fprintf(w, "shared       nothing: %s\n", s.Why)
	} else if s != nil {
		fmt.Fprintf(w, "shared       %d edits of a group take %d tokens together, %d one by one\n", s.Edits, s.Together,
			s.OneByOne)
	}
	fmt.Fprintf(w, "parameters   %d, of which %d train\n", p.Parameters, p.Trainable)
	fmt.Fprintf(w, "trains       %v\n", p.Trains)
	for _, way := range p.Trains.Ways {
		fmt.Fprintf(w, "             %s\n", way)
	}
	for _, g := range p.Trains.Groups {
		fmt.Fprintf(w, "             %v\n", g)
	}
	for _, d := range p.Trains.Departures {
		fmt.Fprintf(w, "             other than init: %s\n", d)
	}
	if p.Absent != "" {
		fmt.Fprintf(w, "weights      absent: %s\n", p.Absent)
	}
	printMemory(w, p)
}

func printMemory(w io.Writer, p *models.Plan) {
	for _, what := range slices.Sorted(maps.Keys(p.Bytes)) {
		fmt.Fprintf(w, "memory       %10.1f MiB  %s\n", float64(p.Bytes[what])/(1<<20), what)
	}
	fmt.Fprintf(w, "memory       %10.1f MiB  in all\n", float64(p.Need)/(1<<20))
	for _, what := range slices.Sorted(maps.Keys(p.Host)) {
		fmt.Fprintf(w, "on the host  %10.1f MiB  %s\n", float64(p.Host[what])/(1<<20), what)
	}
	switch {
	case p.Fits == nil:
	case *p.Fits:
		fmt.Fprintf(w, "             %10.1f MiB  are free: it fits\n", float64(p.Memory)/(1<<20))
	default:
		fmt.Fprintf(w,
			"             %10.1f MiB  are free: IT DOES NOT FIT. Reduce micro_batch or pair_size, or set "+
				"recompute: layers\n",
			float64(p.Memory)/(1<<20))
	}
}

func printResult(w io.Writer, r *trainer.Result) {
	if r.Resumed > 0 {
		fmt.Fprintf(w, "resumed at step %d\n", r.Resumed)
	}
	groups := ""
	if r.Groups > 0 {
		groups = fmt.Sprintf(" in %d groups", r.Groups)
	}
	fmt.Fprintf(w, "%d steps, %d samples%s, %.0f s, loss of the last step %.4f\n", r.Steps, r.Samples, groups, r.Seconds,
		float64(r.Loss))
	if r.Early {
		fmt.Fprintln(w, "ended early: validate.patience validations without improvement")
	}
	if v := r.Validation; v != nil && v.Loss != nil {
		fmt.Fprintf(w, "validation on %d conversations: loss %.4f per token, token accuracy %.4f\n", v.Rows,
			float64(*v.Loss), float64(*v.TokenAccuracy))
	}
	if v := r.Validation; v != nil && v.Reward != nil {
		fmt.Fprintf(w, "validation on %d prompts: reward %.4f, %.4f of the answers could be read\n", v.Rows,
			float64(*v.Reward), float64(*v.Read))
	}
	if v := r.Validation; v != nil && !math.IsNaN(float64(v.L1)) {
		fmt.Fprintf(w, "validation on %d rows: L1 %.4f, Spearman %.4f, accuracy %.4f\n", v.Rows, float64(v.L1),
			float64(v.Spearman), float64(v.Accuracy))
	}
	if v := r.Validation; v != nil && v.Pairs != nil {
		fmt.Fprintf(w, "validation on %d pairs: the better edit scores higher in %.4f\n", v.PairRows,
			float64(*v.Pairs))
	}
	if v := r.Validation; v != nil && v.Benchmark != nil {
		fmt.Fprintf(w, "benchmark: %.4f\n", float64(*v.Benchmark))
	}
	if b := r.Best; b != nil && b.Step != r.Steps && b.By != "" {
		fmt.Fprintf(w, "best validation by %s at step %d: %s\n", b.By, b.Step, r.BestScorer)
	} else if b != nil && b.Step != r.Steps {
		fmt.Fprintf(w, "lowest validation L1 %.4f at step %d: %s\n", float64(b.L1), b.Step, r.BestScorer)
	}
	fmt.Fprintf(w, "%s: %s\n", filepath.Base(r.Scorer), r.Scorer)
}
