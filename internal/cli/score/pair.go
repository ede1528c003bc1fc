package score

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/edit"
	"assay/internal/cli"
	"assay/internal/exit"
	"assay/model"
	_ "assay/model/families"
	"assay/ort"
	"assay/t2i"
)

func init() { register(newPairCommand) }

// runtimeFlags select the scorer and where it runs; all commands that score share them.
type runtimeFlags struct {
	scorer, backbone, device, dimension string
	threads                             int
	quiet                               bool // warnings were printed already
}

func (f *runtimeFlags) add(c *cobra.Command) {
	f.addShared(c)
	c.Flags().StringVar(&f.backbone, "backbone", "", backboneUsage)
	cli.Needs(c, "scorer", "backbone")
}

const backboneUsage = "the scorer's backbone, if it has moved (default: where scorer.yaml says)"

// addShared is add without --backbone, which commands with --judge already have.
func (f *runtimeFlags) addShared(c *cobra.Command) {
	c.Flags().StringVar(&f.scorer, "scorer", "", "scorer directory, as written by training")
	c.Flags().StringVar(&f.device, "device", "auto", "auto, cpu or cuda:N")
	c.Flags().IntVar(&f.threads, "threads", 0, "CPU threads (0: all cores)")
	c.Flags().StringVar(&f.dimension, "dimension", "", "for scorers with several heads: the head reported as "+
		"the score (default: all, fused as in scorer.yaml)")
}

// options checks the flags.
func (f *runtimeFlags) options(c *cobra.Command) (model.Options, error) {
	if f.scorer == "" {
		return model.Options{}, exit.Usagef("--scorer is needed: a scorer directory")
	}
	if err := ort.CheckDevice(f.device); err != nil {
		return model.Options{}, exit.Usage(err)
	}
	if f.threads < 0 {
		return model.Options{}, exit.Usagef("--threads must be 0 (all cores) or more, not %d", f.threads)
	}
	threads := f.threads
	threads = cmp.Or(threads, runtime.NumCPU())
	o := model.Options{Device: f.device, Threads: threads, Dimension: f.dimension, Backbone: f.backbone}
	if !f.quiet {
		o.Warn = cli.Warner(c)
	}
	return o, nil
}

// open opens a scorer directory, or a reward of package t2i.
func (f *runtimeFlags) open(c *cobra.Command) (edit.Differentiable, error) {
	o, err := f.options(c)
	if err != nil {
		return nil, err
	}
	if t2i.Is(f.scorer) {
		if o.Dimension != "" || o.Backbone != "" {
			return nil, exit.Usagef("--dimension, --backbone: %s is a reward of one number, without a backbone", f.scorer)
		}
		j, err := t2i.Open(f.scorer, t2i.Options{Device: o.Device, Threads: o.Threads})
		if err != nil {
			return nil, exit.Named(err)
		}
		return j, nil
	}
	if _, err := model.ReadScorerConfig(filepath.Join(f.scorer, model.ConfigFile)); err != nil {
		return nil, exit.Usage(err)
	}
	s, err := model.OpenScorer(f.scorer, o)
	if err != nil {
		return nil, exit.Named(err)
	}
	return s, nil
}

func newPairCommand() *cobra.Command {
	var f runtimeFlags
	var q editFlags
	c := &cobra.Command{
		Use:   "pair --scorer DIR --source FILE --edit FILE --instruction TEXT",
		Short: "Score one edit",
		Long: `pair scores one edit: how well the edited picture follows the instruction, from 0 to 10 unless scorer.yaml
says otherwise. It is deterministic. Scores are not clipped, so values slightly outside the range occur.

--json also prints all dimensions and, if the scorer has one, sigma (the standard deviation). A calibrated scorer
(docs/calibration.md) adds interval and raw01, the score before calibration. Imported judges of single pictures
(docs/judges.md) run without --source.

For an edit with several source pictures, repeat --source in the order in which the instruction numbers them. Scorers
with pair: sequence accept any number; others refuse more than one.`,
		Example: `  score pair --scorer backbones/tiny-scorer --source testdata/oracle/images/coffee.png \
      --edit testdata/oracle/images/coffee_blur.png --instruction "blur the picture" --json
  score pair --scorer DIR --source room.png --source cup.png --edit edited.png \
      --instruction "put the cup of image 2 on the table of image 1"
  score pair --scorer backbones/tiny-scorer --source examples/photos/coffee.png --edit edited.png \
      --instruction "make it brighter"`,
		RunE: func(c *cobra.Command, _ []string) error {
			if err := q.check(c); err != nil {
				return err
			}
			return scorePair(c, &f, &q)
		},
	}
	f.add(c)
	q.add(c)
	return c
}

// editFlags name the pictures of an edit, and what was asked for.
type editFlags struct {
	sources                          []string
	output, instruction, requirement string
}

func (q *editFlags) add(c *cobra.Command) {
	c.Flags().StringArrayVar(&q.sources, "source", nil, "picture before the edit; may be given several times, in "+
		"the order in which the instruction numbers them")
	c.Flags().StringVar(&q.output, "edit", "", "picture after the edit")
	c.Flags().StringVar(&q.instruction, "instruction", "", "what was asked for")
	c.Flags().StringVar(&q.requirement, "requirement", "", "what the edit must also fulfil, for scorers that ask for it")
	cli.TakesText(c, "instruction", "requirement")
}

// check finds what is missing before anything is opened.
func (q *editFlags) check(c *cobra.Command) error {
	q.sources = slices.DeleteFunc(q.sources, func(path string) bool { return path == "" })
	if q.output == "" {
		return exit.Usagef("--source and --edit are needed: picture files")
	}
	if !c.Flags().Changed("instruction") {
		return exit.Usagef("--instruction is needed: what was asked for")
	}
	return nil
}

// open reads the pictures of an edit for a scorer.
func (q *editFlags) open(s edit.Judge) (*edit.Edit, error) {
	info := s.Info()
	switch {
	case info.Sources != 0 && len(q.sources) == 0:
		return nil, exit.Usagef("--source and --edit are needed: picture files")
	case info.Sources == 0 && len(q.sources) > 0:
		return nil, exit.Usagef("--source: this scorer judges one picture, without a source: omit it")
	case q.requirement != "" && !info.Asks:
		return nil, exit.Usagef("--requirement: no prompt of this scorer has %s", model.RequirementMark)
	}
	e := &edit.Edit{Instruction: q.instruction, Requirement: q.requirement}
	for _, path := range q.sources {
		p, err := data.Open(path, data.Limits{})
		if err != nil {
			return nil, exit.Named(err)
		}
		e.Sources = append(e.Sources, p)
	}
	if err := info.CheckSources(e); err != nil {
		return nil, exit.Usage(err)
	}
	p, err := data.Open(q.output, data.Limits{})
	if err != nil {
		return nil, exit.Named(err)
	}
	e.Output = p
	return e, nil
}

// pairResult is the output of `score pair`.
type pairResult struct {
	edit.Score
	Range  edit.Range
	Scorer string
}

// MarshalJSON writes the fields of the score, then the others.
func (r pairResult) MarshalJSON() ([]byte, error) {
	score, err := json.Marshal(r.Score)
	if err != nil {
		return nil, err
	}
	more, err := json.Marshal(struct {
		Range  edit.Range `json:"score_range"`
		Scorer string     `json:"scorer"`
	}{r.Range, r.Scorer})
	return slices.Concat(score[:len(score)-1], []byte{','}, more[1:]), err
}

func scorePair(c *cobra.Command, f *runtimeFlags, q *editFlags) error {
	s, err := f.open(c)
	if err != nil {
		return err
	}
	defer s.Close()
	e, err := q.open(s)
	if err != nil {
		return err
	}
	scores, errs, err := edit.ScoreAll(c.Context(), s, e)
	if err != nil {
		return err
	}
	if errs[0] != nil {
		return errs[0]
	}
	r := pairResult{scores[0], s.Info().Range, f.scorer}
	return cli.Print(c, r, func(w io.Writer) {
		if !math.IsNaN(r.Value) {
			fmt.Fprintf(w, "%.4f (%s)\n", r.Value, r.Range.Words())
		}
		for _, d := range r.Dimensions {
			if d.Class != "" {
				fmt.Fprintf(w, "  %s %s (%.4f)\n", d.Name, d.Class, slices.Max(d.Probabilities))
				continue
			}
			sigma := ""
			if d.Sigma != 0 {
				sigma = fmt.Sprintf(", sigma %.4f", d.Sigma)
			}
			fmt.Fprintf(w, "  %s %.4f%s\n", d.Name, d.Value, sigma)
		}
	})
}
