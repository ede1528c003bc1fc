package score

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"assay/edit"
	"assay/internal/cli"
	"assay/internal/distil"
	"assay/internal/exit"
	"assay/internal/table"
	"assay/internal/trainer"
	"assay/internal/trainer/bybenchmark"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
)

func init() { register(newDistilCommand) }

// distilFlags are the flags of score distil.
type distilFlags struct {
	scorerFlags
	distil.Options
	scorers []string
	ratings bool
}

func newDistilCommand() *cobra.Command {
	var f distilFlags
	c := &cobra.Command{
		Use:   "distil --config FILE --in FILE --held-out FILE --out DIR (--judge NAME | --scorer DIR... | --ratings)",
		Short: "Train a scorer on the answers of a slow judge",
		Long: `distil lets a judge rate a table of edits, trains a scorer on the ratings, and compares the two on edits
of other photographs (docs/distil.md). The teacher is a VLM judge that is asked several times (--judge, --passes),
several scorers (--scorer, repeated), or people, whose ratings are in the tables (--ratings: a column with lists).

--config is a configuration of train without data and out. Missing keys are filled in: a head with eleven classes that
learns the distribution of the ratings, not only their mean. --order uses only the order of the edits of one source and
instruction. --reasons also trains the judge's text, after the score, in the same pass.

OUT receives the answers, labels.jsonl and train.yaml, which train --config runs unchanged, run/ with the scorer, and
report.json. After Ctrl-C, a crash or a reached cap (exit code 3) the same command resumes. An edit on which the judge
failed has no label: it is left out and counted.`,
		Example: `  score distil --scorer A --scorer B --scorer C --config student.yaml --in edits.jsonl \
      --held-out exam.jsonl --out distilled
  score distil --judge viescore --passes 4 --url http://localhost:8000/v1 --model NAME --cost-cap 20 \
      --config student.yaml --in edits.jsonl --held-out exam.jsonl --out distilled --dry-run
  score distil --ratings --config student.yaml --in votes.jsonl --held-out exam.jsonl --out distilled \
      --truth truth.jsonl --truth-column degree --by kind,family --json`,
		RunE: func(c *cobra.Command, _ []string) error { return runDistil(c, &f) },
	}
	flags := c.Flags()
	flags.StringVar(&f.Config, "config", "", "configuration of the student's training, without data and out")
	flags.StringVar(&f.In, "in", "", "table of edits to learn from")
	flags.StringVar(&f.HeldOut, "held-out", "", "table of edits of other photographs, to compare on")
	flags.StringVar(&f.Out, "out", "", "folder of answers, labels, training and report")
	flags.StringArrayVar(&f.scorers, "scorer", nil, "a scorer of the teacher; given once per scorer")
	flags.BoolVar(&f.ratings, "ratings", false, "the tables have the ratings, lists of numbers of 0 to 1")
	flags.BoolVar(&f.Order, "order", false, "use only the order of the edits of one source and instruction")
	flags.BoolVar(&f.Reasons, "reasons", false, "also train the judge's text, after the score")
	flags.StringVar(&f.Truth, "truth", "", "table with id and the truth of held-out edits, or people's labels")
	flags.StringVar(&f.Column, "truth-column", "label", "column of --truth, numbers of 0 to 1")
	flags.StringSliceVar(&f.By, "by", nil, "columns of --truth by which the report is broken down")
	flags.BoolVar(&f.DryRun, "dry-run", false, "print how many answers are needed and what would be trained")
	flags.StringVar(&f.device, "device", "auto", "auto, cpu or cuda:N")
	flags.IntVar(&f.threads, "threads", 0, "CPU threads (0: all cores)")
	f.addJudge(c)
	flags.Lookup("judge").Usage = "a VLM judge as the teacher: a folder, a file, or a name (score judge --help lists them)"
	f.answers.local.add(c, "backbone")
	f.answers.addServer(c)
	cli.Needs(c, "judge", append(slices.Clone(judgeOptions), "backbone", "reasons")...)
	cli.Needs(c, "truth", "truth-column", "by")
	cli.Part(c, "Flags of --judge, and of the model that it asks", slices.Concat(judgeOptions, modelOptions("backbone"),
		serverOptions)...)
	return c
}

// teacher opens the teacher that the flags name; the returned function closes it.
func (f *distilFlags) teacher(c *cobra.Command, progress func(done, total int)) (distil.Teacher, func() error, error) {
	switch {
	case f.judge != "":
		j, m, err := f.openJudge(c)
		if err != nil {
			return nil, nil, err
		}
		workers := m.Concurrency(f.answers.local.o.Batch)
		if _, err := j.Scorer(workers); err != nil {
			return nil, nil, errors.Join(exit.Usage(err), m.Close())
		}
		return &distil.Words{Judge: j, Model: m, Workers: workers, Progress: progress}, m.Close, nil
	case f.ratings:
		return distil.People{Order: f.Order}, func() error { return nil }, nil
	}
	t := &distil.Scorers{Progress: progress}
	closed := func() (err error) {
		for _, j := range t.Judges {
			err = errors.Join(err, j.Close())
		}
		return err
	}
	for _, dir := range f.scorers {
		j, err := f.student(c, dir)
		if err != nil {
			return nil, nil, errors.Join(err, closed())
		}
		t.Names, t.Judges = append(t.Names, filepath.Base(filepath.Clean(dir))), append(t.Judges, j)
	}
	return t, closed, nil
}

// student opens a scorer.
func (f *distilFlags) student(c *cobra.Command, dir string) (edit.Judge, error) {
	one := runtimeFlags{scorer: dir, device: f.device, threads: f.threads}
	return one.open(c)
}

func (f *distilFlags) check() error {
	teachers := 0
	for _, given := range []bool{f.judge != "", len(f.scorers) > 0, f.ratings} {
		if given {
			teachers++
		}
	}
	switch {
	case f.Config == "" || f.In == "" || f.HeldOut == "" || f.Out == "":
		return exit.Usagef("--config, --in, --held-out and --out are needed")
	case teachers != 1:
		return exit.Usagef("exactly one teacher is needed: --judge, --scorer or --ratings")
	}
	return nil
}

func runDistil(c *cobra.Command, f *distilFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	bar := cli.Bar{Command: c, What: "rating", Unit: "edits"}
	teacher, closed, err := f.teacher(c, bar.Set)
	if err != nil {
		return err
	}
	defer closed()
	o := f.Options
	o.Open = func(dir string) (edit.Judge, error) { return f.student(c, dir) }
	note := cli.Noter(c)
	o.Note = func(text string) { // a new stage has a bar of its own
		bar.Close()
		bar = cli.Bar{Command: c, What: bar.What, Unit: bar.Unit}
		note(text)
	}
	o.Warn = cli.Warner(c)
	o.Train = trainer.Options{Factory: models.Open, Warn: o.Warn, Note: note, Benchmark: bybenchmark.Open,
		Progress: func(what string, total int64, unit string) dataset.Progress {
			return cli.NewProgress(c, what, total, unit)
		}}
	report, plan, err := distil.Run(c.Context(), teacher, o)
	bar.Close()
	var early *table.InterruptedError
	if errors.As(err, &early) && teacher.Asked() != nil {
		err = fmt.Errorf("%w (%v)", err, teacher.Asked())
	}
	if err != nil {
		return capped(err, "")
	}
	if plan != nil {
		return cli.Print(c, plan, func(w io.Writer) {
			fmt.Fprintf(w, "teacher   %s\nedits     %d to learn from, %d held out\nanswers   %d at least\n\n%s", plan.Teacher,
				plan.Rows, plan.HeldOut, plan.Answers, plan.Config)
		})
	}
	return cli.Print(c, report, report.Print)
}
