package score

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/internal/curate"
	"assay/internal/exit"
	"assay/internal/scoring"
	"assay/internal/tokens"
)

func init() { register(newConditionCommand) }

type conditionFlags struct {
	runtime                         scorerFlags
	in, out, preset, template, span string
	layouts                         []string
	columns                         map[string]string
	copied, balance                 bool
	seed                            uint64
	tokenizer                       string
}

func newConditionCommand() *cobra.Command {
	var f conditionFlags
	c := &cobra.Command{
		Use:   "condition --in TABLE (--scorer DIR | --judge NAME) --out DIR",
		Short: "Make reward-conditioned labels for the training of an editor",
		Long: `condition scores the edits of a table and appends each score, in words, to its instruction. An editor
trained on all of them, good and bad, learns what the words mean and can be asked for the best (HIVE; ADIEE, section
3.4). It writes the folder DIR: images/, labels in the chosen layouts, and failed.jsonl with the rows that could not be
scored.

Presets: adiee ("... . The image quality is four out of five.", cuts at 2, 4, 6, 8, 10), hive, paper (a digit, 1 to
5). --template with {instruction} and {word}, {level}, {level5} or {score} replaces them. Without --scorer and --judge
the column score01 is used, as score batch writes it.

Sampling rows in proportion to the column weight balances the levels. For trainers that sample uniformly
(DiffSynth-Studio, diffusers), --balance repeats rows until every level has as many as the largest. docs/tuning.md has
the command of each trainer.`,
		Example: `  score condition --in edits.jsonl --scorer backbones/tiny-scorer --out labels
  score condition --in scores.parquet --out labels --template '{instruction} (quality {level}/5)' \
      --layouts diffsynth,parquet
  score condition --in scores.parquet --out labels --layouts diffusers --balance`,
		RunE: func(c *cobra.Command, _ []string) error { return condition(c, &f) },
	}
	f.runtime.add(c)
	cli.Needs(c, "scorer|judge", "device", "threads")
	flags := c.Flags()
	flags.StringVar(&f.in, "in", "", "table with source, edit, instruction")
	flags.StringVar(&f.out, "out", "", "folder to make")
	cli.Makes(c, "out")
	flags.StringVar(&f.preset, "preset", "adiee", "words for the levels: "+presets())
	flags.StringVar(&f.template, "template", "", "template instead of a preset")
	c.MarkFlagsMutuallyExclusive("preset", "template")
	flags.StringVar(&f.span, "range", "",
		"`LOW,HIGH`: the score01 that map to 0 and 10 before the cuts; auto: the table's extremes (default 0,1)")
	flags.StringSliceVar(&f.layouts, "layouts", []string{"diffsynth"},
		"layouts of the labels: "+strings.Join(curate.LayoutNames(), ", "))
	flags.BoolVar(&f.copied, "copy", false, "copy pictures instead of linking to them")
	flags.BoolVar(&f.balance, "balance", false, "repeat rows until all levels that occur are equally frequent")
	flags.Uint64Var(&f.seed, "seed", 1, "seed that selects the rows that --balance repeats once more than others")
	cli.Needs(c, "balance", "seed")
	flags.StringVar(&f.tokenizer, "tokenizer", "", "folder with the tokenizer.json of the trainer's CLIP: count the "+
		"prompts of more than 77 tokens, instead of only those that are too long for any tokenizer")
	flags.StringToStringVar(&f.columns, "columns", nil, "our column=the table's column, where the names differ")
	return c
}

func presets() string { return strings.Join(slices.Sorted(maps.Keys(curate.Presets)), ", ") }

func condition(c *cobra.Command, f *conditionFlags) error {
	template, ok := curate.Presets[f.preset]
	if f.template != "" {
		template, ok = curate.Template(f.template), true
	}
	switch {
	case f.in == "" || f.out == "":
		return exit.Usagef("--in and --out are needed: a table, and a folder to make")
	case !ok:
		return exit.Usagef("--preset %q: want one of %s", f.preset, presets())
	}
	if err := template.Check(); err != nil {
		return exit.Usage(err)
	}
	if len(f.layouts) == 0 {
		return exit.Usagef("--layouts is empty: want some of %s", strings.Join(curate.LayoutNames(), ", "))
	}
	for _, l := range f.layouts {
		if curate.Layouts[l] == nil {
			return exit.Usagef("--layouts %q: want some of %s", l, strings.Join(curate.LayoutNames(), ", "))
		}
	}
	t, err := data.OpenTable(f.in, data.WithColumns(f.columns), data.WithFound(f.columns))
	if err != nil {
		return exit.Usage(err)
	}
	defer t.Close()
	scores, err := rateRows(c, &f.runtime, t)
	if err != nil {
		return err
	}
	job := curate.Conditioning{Template: template, Layouts: f.layouts, Copy: f.copied, Balance: f.balance, Seed: f.seed}
	if job.Low, job.High, err = parseRange(f.span, scores); err != nil {
		return err
	}
	if f.tokenizer != "" {
		tokenizer, err := openTokenizer(f.tokenizer)
		if err != nil {
			return err
		}
		defer tokenizer.Close()
		job.Tokens = func(text string) (int, error) {
			ids, err := tokenizer.Encode(text, true)
			return len(ids), err
		}
	}
	r, err := job.Write(t, scores, f.out)
	if err != nil {
		return err
	}
	if r.Cut > 0 {
		cli.Warner(c)(cutText(r, f.tokenizer))
	}
	v := map[string]any{"out": f.out, "rows": r.Rows, "labelled": r.Labelled, "failed": r.Failed, "levels": r.Levels,
		"written": r.Written, "cut": r.Cut}
	err = cli.Print(c, f.runtime.result(v), func(w io.Writer) {
		fmt.Fprintf(w, "%d of %d rows labelled in %s; levels one to five: %v\n", r.Labelled, r.Rows, f.out, r.Levels)
		if f.balance {
			fmt.Fprintf(w, "repeated to %d rows, equally many of every level\n", r.Written)
		}
		f.runtime.printUnread(w)
	})
	if err != nil || r.Failed == 0 {
		return err
	}
	return exit.Reported(fmt.Errorf("%d rows could not be used; %s says why. The first: %s", r.Failed,
		filepath.Join(f.out, "failed.jsonl"), r.Reason))
}

// openTokenizer opens a tokenizer without truncation.
func openTokenizer(folder string) (*tokens.Tokenizer, error) {
	raw, err := os.ReadFile(filepath.Join(folder, "tokenizer.json"))
	if err != nil {
		return nil, exit.Usagef("--tokenizer: %w", err)
	}
	var file map[string]json.RawMessage
	if err = json.Unmarshal(raw, &file); err == nil {
		file["truncation"], file["padding"] = json.RawMessage("null"), json.RawMessage("null") // all tokens count
		raw, err = json.Marshal(file)
	}
	if err != nil {
		return nil, exit.Usagef("--tokenizer %s: tokenizer.json: %w", folder, err)
	}
	tokenizer, err := tokens.New(raw)
	if err != nil {
		return nil, exit.Usagef("--tokenizer %s: tokenizer.json: %w", folder, err)
	}
	return tokenizer, nil
}

// cutText returns the warning about prompts that CLIP's text encoder truncates.
func cutText(r *curate.ConditioningResult, tokenizer string) string {
	counted := "more than 75 words, digits and marks, each of which is a token or more (--tokenizer counts exactly)"
	if tokenizer != "" {
		counted = "more tokens by " + tokenizer
	}
	return fmt.Sprintf("%d of %d prompts are too long for CLIP's text encoder (%d tokens), which cuts off the end with "+
		"the score. They have %s. Put the score first: "+
		"--template 'Image quality {word} out of five. {instruction}'", r.Cut, r.Labelled,
		curate.ClipTokens, counted)
}

// parseRange parses --range: the score01 that map to 0 and 10.
func parseRange(text string, scores scoring.Scores) (low, high float64, err error) {
	if text == "auto" {
		if low, high, err = curate.ScoreRange(scores); err != nil {
			err = fmt.Errorf("--range auto: %w", err)
		}
		return low, high, err
	}
	if text == "" {
		for _, line := range scores.Lines {
			if line.Value.Unbounded {
				return 0, 0, exit.Usagef("--range is needed: low,high or auto, since the scores are unbounded")
			}
		}
		text = "0,1"
	}
	first, second, _ := strings.Cut(text, ",")
	low, errLow := strconv.ParseFloat(strings.TrimSpace(first), 64)
	high, errHigh := strconv.ParseFloat(strings.TrimSpace(second), 64)
	if width := high - low; errors.Join(errLow, errHigh) != nil || !(width > 0) || math.IsInf(width, 1) {
		return 0, 0, exit.Usagef("--range %q: want two finite numbers, LOW,HIGH, the lower one first; or auto", text)
	}
	return low, high, nil
}
