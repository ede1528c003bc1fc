// Command bench is Assay's side of `make bench`: it times training steps, scoring, picture decoding, encoders and
// generation, and prints one JSON line. The Python files next to it run it in turns with PyTorch, Pillow and
// llama.cpp.
//
//	bench step  --backbone DIR --source A.png --edit B.png --pairs 1 [--recompute] [--blocks 1000000]
//	bench score --backbone DIR --source A.png --edit B.png --pairs 64
//	bench group-step --backbone DIR --source A.png --edit B.png --edits 8 [--apart] [--first] [--recompute] [--blocks N]
//	bench group-score --backbone DIR --source A.png --edit B.png --edits 8 [--apart] [--first]
//	bench gradient --scorer DIR --source A.png --edit B.png --pairs 32 --batch 8
//	bench pictures [-steps 3] FILE...
//	bench encoders --model DIR --batch 16 --repeat 64 --steps 3 A.png B.png...
//	bench generate DIR PROMPT_TOKENS NEW_TOKENS
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"assay/data"
	"assay/edit"
	"assay/lora"
	"assay/model"
	"assay/model/exec"
	_ "assay/model/families"
)

// The task, the same as in bench.py.
const (
	question = `Rate from 0 to 10 how well the edit "[INSTRUCTION]" was carried out from the first picture to the ` +
		`second.`
	answerText  = "It is [SCORE]."
	instruction = "make the picture brighter"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("bench: ")
	names := []string{"step", "score", "group-step", "group-score", "gradient", "pictures", "encoders", "generate"}
	if len(os.Args) < 2 || !slices.Contains(names, os.Args[1]) {
		log.Fatalf("name what to time: %s (bench NAME -h lists its flags)", strings.Join(names, ", "))
	}
	if err := run(os.Args[1], os.Args[2:]); err != nil {
		log.Fatal(err)
	}
}

// step times a training step over a micro-batch of pairs that share nothing. With several pairs, they are scored
// first, untimed, because a run's validation adds to the memory peak. For a group, image features are computed
// before, and its edits run together or one by one.
func (o *options) step(state *model.ScorerState, a, b *data.Picture, group bool) error {
	n, each := o.pairs, o.pairs
	if group {
		if n, each = o.edits, o.edits; o.apart {
			each = 1
		}
	}
	t, err := model.NewTuner(state, model.TuneOptions{Options: o.model(), TextLoss: 1, ScoreLoss: 10, Share: group,
		Recompute: o.recompute})
	if err != nil {
		return err
	}
	defer t.Close()
	var samples []*model.Sample
	for _, p := range edits(a, b, n) {
		s, err := t.Sample(p, model.Ask{})
		if err != nil {
			return err
		}
		samples = append(samples, s)
	}
	labels := slices.Repeat([]float64{0.5}, n)
	validates := !group && n > 1
	u, err := t.Usage(samples[0], each, n+1, validates)
	if err != nil {
		return err
	}
	var loss float64
	var rows int
	facts := map[string]any{"tokens": len(samples[0].IDs), "loss": &loss, "planned": total(u)}
	if group {
		facts["edits"], facts["rows"] = n, &rows
	}
	if validates {
		if _, err := t.Scorer.Score01(context.Background(), samples); err != nil {
			return err
		}
	}
	return report(o.steps, facts, func() error {
		loss, rows = 0, 0
		for at := 0; at < n; at += each {
			r, err := t.Step(context.Background(), samples[at:at+each],
				model.StepInput{Labels: labels[at : at+each], Weight: 1 / float64(n), Seed: 1})
			if err != nil {
				return err
			}
			for _, v := range r.Loss {
				loss += v / float64(n)
			}
			rows += r.Tokens
		}
		return nil
	})
}

// total returns the total of a memory plan in MiB.
func total(u exec.Usage) int64 {
	bytes := int64(0)
	for _, b := range u.Bytes {
		bytes += b
	}
	return bytes >> 20
}

// options are the flags of all benchmarks.
type options struct {
	backbone, scorer, save string
	source, edit           string

	steps, pairs, batch, edits int
	blocks                     int
	recompute, apart, first    bool
}

func (o *options) flags(f *flag.FlagSet) {
	f.StringVar(&o.backbone, "backbone", "", "checkpoint")
	f.StringVar(&o.source, "source", "", "picture")
	f.StringVar(&o.edit, "edit", "", "picture")
	f.IntVar(&o.steps, "steps", 5, "timed repetitions")
	f.IntVar(&o.pairs, "pairs", 1, "pairs per step, or scored at a time")
	f.BoolVar(&o.recompute, "recompute", false, "recompute layers")
	f.IntVar(&o.blocks, "blocks", 0, "queries per attention block; a number above the sequence length: one block")
	f.StringVar(&o.save, "save", "", "only write a scorer directory")
	f.StringVar(&o.scorer, "scorer", "", "scorer directory")
	f.IntVar(&o.batch, "batch", 1, "pairs differentiated at a time")
	f.IntVar(&o.edits, "edits", 8, "edits per group")
	f.BoolVar(&o.apart, "apart", false, "compute the edits one by one")
	f.BoolVar(&o.first, "first", false, "put the instruction before the edit")
}

// model returns the options for opening scorers and tuners.
func (o *options) model() model.Options {
	return model.Options{Threads: runtime.NumCPU(), Blocks: o.blocks}
}

// pictures reads the source and the edit.
func (o *options) pictures() (source, edit *data.Picture, err error) {
	if source, err = data.Open(o.source, data.Limits{}); err != nil {
		return nil, nil, err
	}
	edit, err = data.Open(o.edit, data.Limits{})
	return source, edit, err
}

// state creates a new scorer over the backbone.
func (o *options) state() (*model.ScorerState, error) {
	abs, err := filepath.Abs(o.backbone)
	if err != nil {
		return nil, err
	}
	config := (&model.OnePassConfig{
		Backbone: abs,
		Pair:     model.Sequence,
		Question: question,
		Answer:   answerText,
		Head:     model.HeadConfig{Hidden: []int{256, 16}},
	}).Scorer()
	if o.first {
		config.Layout, config.ChatTemplate = model.InstructionFirst, orderedTurns
	}
	adapter := lora.NewConfig(8, 16, lora.Names{Regex: `.*language_model.*\.(q_proj|v_proj)`})
	return model.NewScorerState(config, adapter, 1)
}

func run(what string, args []string) error {
	switch what {
	case "pictures":
		return pictures(args)
	case "encoders":
		return embed(args)
	case "generate":
		return answer(args)
	}
	f := flag.NewFlagSet(what, flag.ExitOnError)
	var o options
	o.flags(f)
	f.Parse(args)
	if what == "gradient" {
		return o.gradient()
	}
	state, err := o.state()
	if err != nil {
		return err
	}
	if o.save != "" {
		if err := os.MkdirAll(o.save, 0o777); err != nil {
			return err
		}
		return state.Save(o.save)
	}
	a, b, err := o.pictures()
	if err != nil {
		return err
	}
	switch what {
	case "group-step":
		return o.step(state, a, b, true)
	case "group-score":
		return o.groupScore(state, a, b)
	case "step":
		return o.step(state, a, b, false)
	case "score":
		return o.score(state, a, b)
	}
	return fmt.Errorf("unknown benchmark %s", what)
}

// score times the scoring of pairs. Pictures are prepared and go through the vision tower every time, as in PyTorch.
func (o *options) score(state *model.ScorerState, a, b *data.Picture) error {
	ctx := context.Background()
	s, err := model.NewScorer(state, o.model())
	if err != nil {
		return err
	}
	defer s.Close()
	return report(o.steps, map[string]any{"pairs": o.pairs}, func() error {
		const chunk = 16 // as `score batch`, which prepares its table in chunks
		for first := 0; first < o.pairs; first += chunk {
			samples := make([]*model.Sample, min(chunk, o.pairs-first))
			for i := range samples {
				n := first + i
				pair := edit.New(other(a, n), other(b, n), fmt.Sprint(instruction, " ", n))
				if samples[i], err = s.Sample(pair, model.Ask{}); err != nil {
					return err
				}
			}
			if _, err := s.Score01(ctx, samples); err != nil {
				return err
			}
			s.ClearCache()
		}
		return nil
	})
}

// gradient times scores with their gradients with respect to the pictures, in batches, as in /v1/gradient.
func (o *options) gradient() error {
	s, err := model.OpenScorer(o.scorer, model.Options{Threads: runtime.NumCPU()})
	if err != nil {
		return err
	}
	defer s.Close()
	a, b, err := o.pictures()
	if err != nil {
		return err
	}
	scores := make([]float64, o.pairs)
	return report(o.steps, map[string]any{"pairs": o.pairs, "scores": &scores}, func() error {
		for first := 0; first < o.pairs; first += o.batch {
			var part []*edit.Edit
			for i := first; i < min(first+o.batch, o.pairs); i++ {
				part = append(part, edit.New(other(a, i), other(b, i), instruction))
			}
			gradients, err := s.Gradients(context.Background(), part)
			if err != nil {
				return err
			}
			for i, one := range gradients {
				scores[first+i] = one.Score01
			}
		}
		return nil
	})
}

// other returns a picture that differs in one pixel, so that no two pairs share vision features.
func other(p *data.Picture, i int) *data.Picture {
	q := p.Crop(0, 0, p.Width, p.Height)
	q.Pix[0], q.Pix[1] = byte(i), byte(i>>8)
	return q
}

// report runs f n times, after one warm-up run unless runs are long, and prints the seconds of each with the facts.
func report(n int, facts map[string]any, f func() error) error {
	if n > 1 {
		if err := f(); err != nil {
			return err
		}
	}
	var seconds, processor []float64
	for range n {
		start, used := time.Now(), processorTime()
		if err := f(); err != nil {
			return err
		}
		seconds = append(seconds, time.Since(start).Seconds())
		processor = append(processor, (processorTime() - used).Seconds())
	}
	facts["seconds"], facts["processor_seconds"] = seconds, processor
	return json.NewEncoder(os.Stdout).Encode(facts)
}

// processorTime returns the CPU time of the process, which other load on the machine changes little. It is the clock
// of Python's time.process_time; getrusage lags behind it by up to a few milliseconds.
func processorTime() time.Duration {
	var t unix.Timespec
	if unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
