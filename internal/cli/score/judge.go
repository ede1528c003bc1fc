package score

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"assay/chat"
	"assay/data"
	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/internal/table"
	"assay/textjudge"
)

func init() { register(newJudgeCommand) }

// judgeFlags are the flags of score judge.
type judgeFlags struct {
	answers  answerFlags
	config   string
	settings textjudge.Settings
	table    table.Options
	shard    cli.ShardFlags

	instruction string
	sources     []string           // of one edit
	pictures    map[string]*string // its other pictures, by role
}

func newJudgeCommand() *cobra.Command {
	f := judgeFlags{pictures: map[string]*string{}}
	c := &cobra.Command{
		Use: "judge --config JUDGE (--url URL --model NAME | --backbone DIR) (--in FILE --out FILE | " +
			"--source FILE --edit FILE --instruction TEXT)",
		Short: "Score edits with a VLM judge",
		Long: `judge asks a vision-language model about edits, on a server (--url) or on this machine (--backbone), parses its
answers strictly, and computes scores. --config is a folder with judge.yaml and prompts, a judge.yaml, or a shipped one:
` + strings.Join(textjudge.Shipped(), ", ") + `.

The table (JSONL, CSV or Parquet) has the columns instruction, source and edit, and edit2 or target if the judge shows
them. The output has the same rows in the same order with score, score01 (or class), dimensions, answers and error. A
question whose answer does not parse, is out of range or was cut off is asked again with other seeds; if that fails, the
row gets an error. The result reports the share of such rows, and the exit code is then 1.

Answers are stored by content, so that no question is asked twice. After Ctrl-C, a crash, or a reached cap (exit code 3)
the same command resumes.`,
		Example: `  score judge --config viescore --url http://localhost:8000/v1 --model Qwen/Qwen2.5-VL-7B-Instruct \
      --in edits.jsonl --out judged.jsonl
  score judge --config viescore --backbone Qwen2.5-VL-7B-Instruct --in edits.jsonl --out judged.jsonl
  score judge --config editscore --prompts EditScore --passes 4 --server server.yaml --in edits.jsonl --out judged.jsonl
  score judge --config unifiedreward-edit/pair --url http://localhost:8000/v1 --model unified --source a.png \
      --edit b.png --edit2 c.png --instruction "make it brighter" --json`,
		RunE: func(c *cobra.Command, _ []string) error { return runJudge(c, &f) },
	}
	f.answers.add(c)
	cli.Part(c, "Flags of --backbone", append(modelOptions("backbone"), "device", "threads")...)
	cli.Part(c, "Flags of --url, which override --server", serverOptions...)
	f.shard.Add(c)
	flags := c.Flags()
	flags.StringVar(&f.config, "config", "", "folder of a judge, a judge.yaml, or the name of a shipped judge")
	addSettings(c, &f.settings, "times to ask every question (0: as configured)")
	flags.StringVar(&f.table.In, "in", "", "table to read")
	flags.StringVar(&f.table.Out, "out", "", "table to write (.jsonl or .parquet); replaced if it exists")
	cli.Writes(c, nil, "out")
	flags.StringToStringVar(&f.table.Columns, "columns", nil, "our column=the table's column, where the names differ")
	flags.StringVar(&f.instruction, "instruction", "", "for one edit: what was asked for")
	cli.TakesText(c, "instruction")
	cli.Needs(c, "in", "columns", "shard", "merge")
	flags.StringArrayVar(&f.sources, "source", nil, "for one edit: picture before the edit; may be given several times")
	for role, what := range map[string]string{
		"edit": "edited picture", "edit2": "second edited picture of a pair", "reference": "the desired result",
	} {
		f.pictures[role] = flags.String(role, "", "for one edit: "+what)
	}
	return c
}

// single reports whether one edit is judged, not a table.
func (f *judgeFlags) single() bool {
	if slices.ContainsFunc(f.sources, func(path string) bool { return path != "" }) {
		return true
	}
	for _, p := range f.pictures {
		if *p != "" {
			return true
		}
	}
	return false
}

func (f *judgeFlags) check(c *cobra.Command) error {
	switch {
	case f.config == "":
		return exit.Usagef("--config is needed: a folder, a judge.yaml, or one of %s",
			strings.Join(textjudge.Shipped(), ", "))
	case f.single() == (f.table.In != "" || f.table.Out != ""):
		return exit.Usagef("either --in and --out are needed, or the pictures of one edit and --instruction")
	case f.single() && !c.Flags().Changed("instruction"):
		return exit.Usagef("--instruction is needed: what was asked for")
	case !f.single() && c.Flags().Changed("instruction"):
		return exit.Usagef("--instruction is for one edit: the rows of a table have their own, in the column instruction")
	case !f.single() && (f.table.In == "" || f.table.Out == ""):
		return exit.Usagef("--in and --out are needed: a table of any format, and one ending in .jsonl or .parquet")
	case f.settings.Passes < 0:
		return exit.Usagef("--passes %d: want 1 or more, or 0 for as many as configured", f.settings.Passes)
	}
	if f.single() {
		return nil
	}
	_, err := data.FormatOf(f.table.Out)
	return exit.Usage(err)
}

func runJudge(c *cobra.Command, f *judgeFlags) error {
	if err := f.check(c); err != nil {
		return err
	}
	var err error
	if f.table.Shard, f.table.Merge, err = f.shard.Read(); err != nil {
		return err
	}
	f.table.Unchanged = f.shard.Unchanged
	m, err := f.answers.open(c)
	if err != nil {
		return err
	}
	defer m.Close()
	j, err := textjudge.Open(f.config, m, f.settings)
	if err != nil {
		return exit.Usage(err)
	}
	for _, w := range j.Warnings {
		cli.Warner(c)(w)
	}
	if f.single() {
		return judgeOne(c, f, j, m)
	}
	f.table.Workers = m.Concurrency(f.answers.local.o.Batch)
	bar := cli.Bar{Command: c, What: "judging", Unit: "rows"}
	f.table.Progress = bar.Set
	if f.table.Shard.Count > 0 {
		f.table.Told = f.shard.Told(c)
		r, err := j.TableShard(c.Context(), f.table)
		bar.Close()
		return f.shard.Finish(c, f.table.Out, r, capped(err, m.Asked().String()))
	}
	r, err := j.Table(c.Context(), f.table)
	bar.Close()
	if err != nil {
		return stopped(err, m.Asked())
	}
	v := struct {
		*textjudge.TableResult
		Asked chat.Asked `json:"asked"`
	}{r, m.Asked()}
	if err := cli.Print(c, v, func(w io.Writer) { printJudged(w, r, v.Asked) }); err != nil || r.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d of %d rows could not be judged; the column error of %s says why", r.Failed, r.Rows,
		r.Out))
}

// stopped returns the error of a run that ended early, with its progress and cost.
func stopped(err error, a chat.Asked) error {
	var s *table.InterruptedError
	if !errors.As(err, &s) {
		return err
	}
	text := fmt.Sprintf("%d of %d rows are saved in %s, with %s; run the same command to resume", s.Done, s.Rows,
		s.Journal, a)
	switch {
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%s: %w", text, exit.ErrInterrupted)
	case errors.Is(err, chat.ErrCap):
		return capped(s.Err, text)
	}
	return fmt.Errorf("%w: %s", s.Err, text)
}

func printJudged(w io.Writer, r *textjudge.TableResult, a chat.Asked) {
	fmt.Fprintf(w, "%s: %d of %d rows judged, written to %s\n", r, r.Judged, r.Rows, r.Out)
	fmt.Fprintf(w, "answers that could not be read: %d rows (%.2f %%), after %d repeats at most\n", r.Unreadable,
		100*r.UnreadableShare, r.Repeats)
	if p := r.Pairs; p != nil {
		fmt.Fprintf(w, "the two orders disagree in %d rows (%.2f %%): the first shown wins twice in %d, the second in %d\n",
			p.Disagree, 100*p.DisagreeShare, p.FirstShown, p.SecondShown)
	}
	fmt.Fprintln(w, a)
}

// flagOf returns the flag of a role. Sources share a flag: a second --source is source2.
func flagOf(role string) string {
	if n := edit.SourceOf(role); n > 1 {
		return fmt.Sprintf("source (number %d)", n)
	}
	return role
}

// readEdits reads the pictures of the edit that the flags name, or of both edits of a pair.
func readEdits(f *judgeFlags, j *textjudge.Judge) ([]*edit.Edit, error) {
	edits := []*edit.Edit{{Instruction: f.instruction}}
	if j.Config.Pair {
		edits = append(edits, &edit.Edit{})
	}
	given := map[string]string{}
	for i, path := range f.sources {
		given[edit.SourceRole(i)] = path
	}
	for role, path := range f.pictures {
		given[role] = *path
	}
	roles, all := j.Roles(), strings.Join(j.Roles(), ", ")
	if i := slices.Index(roles, "sources"); i >= 0 {
		roles = slices.Delete(roles, i, i+1)
		for k := range max(len(f.sources), 1) {
			roles = append(roles, edit.SourceRole(k))
		}
	}
	for _, role := range slices.Sorted(maps.Keys(given)) {
		if given[role] != "" && !slices.Contains(roles, role) {
			return nil, exit.Usagef("--%s: no question of this judge shows it; the judge shows %s", flagOf(role), all)
		}
	}
	for _, role := range roles {
		if given[role] == "" {
			return nil, exit.Usagef("--%s is needed: this judge shows %s", flagOf(role), all)
		}
		p, err := data.Image{Path: given[role]}.Open("", data.Limits{})
		if err != nil {
			return nil, fmt.Errorf("--%s: %w", flagOf(role), err)
		}
		if role == "edit2" && j.Config.Pair {
			edits[1].Output = p
		} else {
			edits[0].Set(role, p)
		}
	}
	return edits, nil
}

// judgeOne judges one edit.
func judgeOne(c *cobra.Command, f *judgeFlags, j *textjudge.Judge, m *chat.Kept) error {
	edits, err := readEdits(f, j)
	if err != nil {
		return err
	}
	r, err := j.Ask(c.Context(), edits...)
	var unread *textjudge.AnswerError
	if err != nil && !errors.As(err, &unread) {
		return err
	}
	v := map[string]any{
		"judge": j.Config.Name, "rule": j.Config.Rule, "constrained": j.Config.Constrained, "answers": r.Answers,
		"prompts": j.Asks, "warnings": j.Warnings, "asked": m.Asked(),
	}
	if err != nil { // no number
		v["error"] = err.Error()
		return errors.Join(cli.Print(c, v, func(w io.Writer) { printAnswers(w, r) }), exit.Reported(err))
	}
	v["dimensions"] = r.Dimensions
	said := fmt.Sprintf("%.4f", r.Score)
	switch {
	case r.Agree != nil:
		v["preference"], v["agree"] = r.Score, *r.Agree
	case j.Config.Scores():
		v["score"], v["score01"] = r.Score, r.Score01
	case r.Class != "":
		v["class"], said = r.Class, r.Class
	default:
		said = "no score"
	}
	return cli.Print(c, v, func(w io.Writer) {
		fmt.Fprintf(w, "%s  (%s, rule %s)\n", said, j.Config.Name, j.Config.Rule)
		for _, name := range slices.Sorted(maps.Keys(r.Dimensions)) {
			fmt.Fprintf(w, "  %s %.4f\n", name, r.Dimensions[name])
		}
		if r.Agree != nil && !*r.Agree {
			fmt.Fprintln(w, "  the two orders disagree")
		}
		printAnswers(w, r)
	})
}

func printAnswers(w io.Writer, r *textjudge.Result) {
	for _, a := range r.Answers {
		fmt.Fprintf(w, "%s: %s\n", a.Question, strings.TrimSpace(a.Text))
		if a.Error != "" {
			fmt.Fprintf(w, "  not read: %s\n", a.Error)
		}
	}
}
