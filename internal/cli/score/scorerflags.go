package score

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/scoring"
	"assay/model"
	"assay/textjudge"
)

// scorerFlags select what scores: a scorer directory, or a VLM judge.
type scorerFlags struct {
	runtimeFlags
	judge    string // of textjudge; "": the scorer
	settings textjudge.Settings
	answers  answerFlags

	unread      unread // of the judge's rows so far
	constrained bool   // whether the judge's answers are
}

// unread counts rows with unreadable answers, and all rows that were answered.
type unread struct{ rows, answered int }

func (u *unread) count(scores scoring.Scores) {
	for _, line := range scores.Lines {
		if line.Unreadable {
			u.rows++
		}
		if line.Unreadable || line.Error == "" {
			u.answered++
		}
	}
}

func (u *unread) share() float64 { return float64(u.rows) / float64(max(u.answered, 1)) }

// result adds to a result how many of the judge's answers could not be read; nothing without a judge.
func (f *scorerFlags) result(v map[string]any) map[string]any {
	if f.judge != "" {
		v["unreadable"], v["unreadable_share"] = f.unread.rows, f.unread.share()
		v["constrained"] = f.constrained
	}
	return v
}

// printUnread prints the same as text.
func (f *scorerFlags) printUnread(w io.Writer) {
	if f.judge != "" {
		printUnreadable(w, f.unread.rows, f.unread.share())
	}
}

func (f *scorerFlags) add(c *cobra.Command) {
	f.runtimeFlags.addShared(c)
	f.addJudge(c)
	f.answers.local.add(c, "backbone")
	f.answers.addServer(c)
	c.Flags().Lookup("backbone").Usage = "with --scorer: " + backboneUsage + ". With --judge: the Hugging Face " +
		"checkpoint directory of the model"
	cli.Needs(c, "judge", judgeOptions...)
	cli.Needs(c, "scorer|judge", "backbone")
	cli.Part(c, "Flags of --judge, and of the model that it asks", slices.Concat(judgeOptions, modelOptions("backbone"),
		serverOptions)...)
}

// judgeOptions are the further flags of --judge and its model.
var judgeOptions = []string{"prompts", "passes", "average", "constrained", "few-shot", "few-shot-examples",
	"server", "url", "store"}

// addJudge adds the flags of the judge, without the flags of its model.
func (f *scorerFlags) addJudge(c *cobra.Command) {
	flags := c.Flags()
	flags.StringVar(&f.judge, "judge", "", "instead of --scorer, a VLM judge: a folder, a file, or a name (score judge "+
		"--help lists them). It asks the model of --backbone, or of --url and --model")
	addSettings(c, &f.settings, "times that the judge asks every question (0: as configured)")
}

// addSettings adds the flags for the settings of a judge.
func addSettings(c *cobra.Command, s *textjudge.Settings, passes string) {
	flags := c.Flags()
	flags.StringVar(&s.Copy, "prompts", "", "folder of the judge's own code, for the published prompts")
	flags.IntVar(&s.Passes, "passes", 0, passes)
	flags.StringVar(&s.Average, "average", "", "how several passes are averaged: last (mean of the scores) or first "+
		"(score of the means) (default: as configured)")
	flags.BoolVar(&s.Constrained, "constrained", false,
		"restrict the model's tokens to the judge's grammar, so that every answer is readable; results say so")
	flags.StringVar(&s.FewShot, "few-shot", "", "table of examples (.jsonl, as score bench --examples writes them), "+
		"shown before the question; a picture that is asked about must not be among them")
	flags.IntVar(&s.Examples, "few-shot-examples", 0, "number of examples, each answer equally often (0: 8)")
	cli.Needs(c, "few-shot", "few-shot-examples")
}

// given reports whether there is a scorer or judge.
func (f *scorerFlags) given() bool { return f.scorer != "" || f.judge != "" }

// wordsJudge is a VLM judge with its model.
type wordsJudge struct {
	edit.Judge
	model *chat.Kept
}

// Close frees the model.
func (j *wordsJudge) Close() error { return j.model.Close() }

// options checks the flags of a scorer.
func (f *scorerFlags) options(c *cobra.Command) (model.Options, error) {
	for _, name := range modelOptions("backbone") {
		if c.Flags().Changed(name) {
			return model.Options{}, exit.Usagef("--%s requires --judge", name)
		}
	}
	f.backbone = f.answers.local.backbone
	return f.runtimeFlags.options(c)
}

// open opens the scorer or judge that the flags name.
func (f *scorerFlags) open(c *cobra.Command) (edit.Judge, error) {
	if f.judge == "" {
		if _, err := f.options(c); err != nil {
			return nil, err
		}
		return f.runtimeFlags.open(c)
	}
	j, m, err := f.openJudge(c)
	if err != nil {
		return nil, err
	}
	s, err := j.Scorer(m.Concurrency(f.answers.local.o.Batch))
	if err != nil {
		m.Close()
		return nil, exit.Usage(err)
	}
	return &wordsJudge{s, m}, nil
}

// openJudge opens the judge over the model that the flags name, which the caller closes.
func (f *scorerFlags) openJudge(c *cobra.Command) (*textjudge.Judge, *chat.Kept, error) {
	if f.scorer != "" || f.dimension != "" {
		return nil, nil, exit.Usagef("--judge replaces --scorer and --dimension: omit them")
	}
	f.answers.local.o.Threads, f.answers.local.o.Device = f.threads, f.device
	m, err := f.answers.open(c)
	if err != nil {
		return nil, nil, err
	}
	j, err := f.judgeOver(c, f.judge, m)
	if err != nil {
		m.Close()
		return nil, nil, err
	}
	return j, m, nil
}

// modelName returns the name of the model that a judge asks.
func (f *answerFlags) modelName() string {
	switch {
	case f.model != "":
		return f.model
	case f.local.backbone != "":
		return filepath.Base(filepath.Clean(f.local.backbone))
	}
	return systemName(f.server)
}

// asked describes the model that a judge asks, and the prompts if they are not the judge's own.
func (f *scorerFlags) asked() string {
	text := " by " + f.answers.modelName()
	if f.settings.Copy != "" {
		text += ", prompts of " + filepath.Base(filepath.Clean(f.settings.Copy))
	}
	return text
}

// judgeOver opens a judge over a model.
func (f *scorerFlags) judgeOver(c *cobra.Command, config string, m *chat.Kept) (*textjudge.Judge, error) {
	j, err := textjudge.Open(config, m, f.settings)
	if err != nil {
		return nil, exit.Usage(err)
	}
	f.constrained = j.Config.Constrained
	for _, w := range j.Warnings {
		cli.Warner(c)(w)
	}
	return j, nil
}

// printUnreadable prints how many answers could not be read.
func printUnreadable(w io.Writer, n int, share float64) {
	fmt.Fprintf(w, "answers that could not be read: %d rows (%.2f %%)\n", n, 100*share)
}
