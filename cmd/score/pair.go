package main

import (
	"context"
	"fmt"
	"io"
	"runtime"

	"github.com/spf13/cobra"

	"assay/data"
	"assay/internal/cli"
	"assay/model"
	_ "assay/model/families"
	"assay/ort"
)

func init() { register(newPairCommand) }

// runtimeFlags are where scoring runs; the same for every command that scores.
type runtimeFlags struct {
	scorer, device string
	threads        int
}

func (f *runtimeFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.scorer, "scorer", "", "scorer directory, as training writes it")
	c.Flags().StringVar(&f.device, "device", "auto", "auto, cpu or cuda:N")
	c.Flags().IntVar(&f.threads, "threads", 0, "CPU threads (0: all cores)")
}

// options checks the flags.
func (f *runtimeFlags) options() (model.Options, error) {
	if f.scorer == "" {
		return model.Options{}, cli.Usagef("--scorer is needed: a scorer directory")
	}
	if err := ort.CheckDevice(f.device); err != nil {
		return model.Options{}, cli.Usage(err)
	}
	if f.threads < 0 {
		return model.Options{}, cli.Usagef("--threads is 0 (all cores) or more, not %d", f.threads)
	}
	threads := f.threads
	if threads == 0 {
		threads = runtime.NumCPU()
	}
	return model.Options{Device: f.device, Threads: threads}, nil
}

func (f *runtimeFlags) open() (*model.Scorer, error) {
	o, err := f.options()
	if err != nil {
		return nil, err
	}
	return model.OpenScorer(f.scorer, o)
}

func newPairCommand() *cobra.Command {
	var f runtimeFlags
	var source, edit, instruction string
	c := &cobra.Command{
		Use:   "pair --scorer DIR --source FILE --edit FILE --instruction TEXT",
		Short: "Score one edit",
		Long: `pair says how well an edited picture follows an instruction: one deterministic forward pass, on the
scorer's range (0 to 10 unless its scorer.yaml says otherwise; not clipped).`,
		Example: `  score pair --scorer backbones/tiny-scorer --source testdata/oracle/images/coffee.png \
      --edit testdata/oracle/images/coffee_blur.png --instruction "blur the picture" --json
  score pair --scorer backbones/tiny-scorer --source examples/photos/coffee.png --edit edited.png \
      --instruction "make it brighter"`,
		RunE: func(c *cobra.Command, _ []string) error {
			if source == "" || edit == "" {
				return cli.Usagef("--source and --edit are needed: picture files")
			}
			if !c.Flags().Changed("instruction") {
				return cli.Usagef("--instruction is needed: what was asked for")
			}
			s, err := f.open()
			if err != nil {
				return err
			}
			defer s.Close()
			score01, err := scorePair(c.Context(), s, source, edit, instruction)
			if err != nil {
				return err
			}
			cfg := s.Config()
			score := cfg.Range(score01)
			return cli.Print(c, map[string]any{"score": score, "score01": score01, "score_range": cfg.ScoreRange,
				"scorer": f.scorer}, func(w io.Writer) {
				fmt.Fprintf(w, "%.4f (on %g to %g)\n", score, cfg.ScoreRange[0], cfg.ScoreRange[1])
			})
		},
	}
	f.add(c)
	c.Flags().StringVar(&source, "source", "", "picture before the edit")
	c.Flags().StringVar(&edit, "edit", "", "picture after the edit")
	c.Flags().StringVar(&instruction, "instruction", "", "what was asked for")
	return c
}

// openPair reads the pictures of a pair.
func openPair(source, edit, instruction string) (p model.Pair, err error) {
	p.Instruction = instruction
	if p.Source, err = data.Open(source, data.Limits{}); err != nil {
		return p, err
	}
	p.Edit, err = data.Open(edit, data.Limits{})
	return p, err
}

func scorePair(ctx context.Context, s *model.Scorer, source, edit, instruction string) (float64, error) {
	p, err := openPair(source, edit, instruction)
	if err != nil {
		return 0, err
	}
	sample, err := s.Prepare(p)
	if err != nil {
		return 0, err
	}
	scores, err := s.Score(ctx, []*model.Sample{sample})
	if err != nil {
		return 0, err
	}
	return scores[0], nil
}
