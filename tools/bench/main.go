// Command bench is our side of `make bench`: it times training steps and scoring on a checkpoint and prints one JSON
// line. bench.py runs it beside PyTorch.
//
//	bench step  --backbone DIR --source A.png --edit B.png --pairs 1 [--recompute] [--blocks 1000000]
//	bench score --backbone DIR --source A.png --edit B.png --pairs 64
//	bench group-step --backbone DIR --source A.png --edit B.png --edits 8 [--apart] [--first] [--recompute] [--blocks N]
//	bench group-score --backbone DIR --source A.png --edit B.png --edits 8 [--apart] [--first]
//	bench gradient --scorer DIR --source A.png --edit B.png --pairs 32 --batch 8
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
	"syscall"
	"time"

	"assay/data"
	"assay/lora"
	"assay/model"
	_ "assay/model/families"
)

// The task, the same as in bench.py.
const (
	question    = `Rate from 0 to 10 how well the edit "[INSTRUCTION]" was carried out from the first picture to the second.`
	answer      = "It is [SCORE]."
	instruction = "make the picture brighter"
)

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal("bench: ", err)
	}
}

// step times a training step over a micro-batch of pairs that share nothing. Of several, scores come
// before, untimed: a run's validation adds to the peak of memory.
func step(state *model.ScorerState, a, b *data.Picture, o model.Options, pairs, steps int, recompute bool) error {
	tune := model.TuneOptions{Options: o, TextLoss: 1, ScoreLoss: 10, Recompute: recompute}
	t, err := model.NewTuner(state, tune)
	if err != nil {
		return err
	}
	defer t.Close()
	samples, labels := make([]*model.Sample, pairs), make([]float64, pairs)
	for i, p := range edits(a, b, pairs) {
		labels[i] = 0.5
		if samples[i], err = t.Prepare(p); err != nil {
			return err
		}
	}
	u, err := t.Usage(samples[0], pairs, pairs+1, pairs > 1)
	if err != nil {
		return err
	}
	var loss float64
	facts := map[string]any{"tokens": len(samples[0].IDs), "loss": &loss, "planned": total(u)}
	if pairs > 1 {
		if _, err := t.Score(context.Background(), samples); err != nil {
			return err
		}
	}
	return report(steps, facts, func() error {
		r, err := t.Step(context.Background(), samples, labels, 1/float64(pairs), 1)
		if err != nil {
			return err
		}
		loss = 0
		for _, v := range r.Loss {
			loss += v / float64(pairs)
		}
		return nil
	})
}

// total is a plan in MiB.
func total(u model.Usage) int64 {
	bytes := int64(0)
	for _, b := range u.Bytes {
		bytes += b
	}
	return bytes >> 20
}

func run() error {
	what := os.Args[1]
	f := flag.NewFlagSet(what, flag.ExitOnError)
	backbone := f.String("backbone", "", "checkpoint")
	source := f.String("source", "", "picture")
	edit := f.String("edit", "", "picture")
	steps := f.Int("steps", 5, "timed repetitions")
	pairs := f.Int("pairs", 1, "pairs of a step, or scored at a time")
	recompute := f.Bool("recompute", false, "recompute layers")
	blocks := f.Int("blocks", 0, "queries of a block of attention; so many that there is one block: none")
	save := f.String("save", "", "only write a scorer directory")
	scorer := f.String("scorer", "", "scorer directory")
	batch := f.Int("batch", 1, "pairs differentiated at a time")
	each := f.Int("edits", 8, "edits of the group")
	apart := f.Bool("apart", false, "one by one")
	first := f.Bool("first", false, "instruction before the edit")
	pieces := f.Int("pieces", 0, "columns from which a step attends in pieces")
	profile := f.String("profile", "", "prefix of traces of nodes' times; slows a little")
	f.Parse(os.Args[2:])
	if what == "gradient" {
		return gradient(*scorer, *source, *edit, *steps, *pairs, *batch)
	}

	abs, err := filepath.Abs(*backbone)
	if err != nil {
		return err
	}
	config := &model.ScorerConfig{
		Format:   1,
		Backbone: abs,
		Pair:     model.Sequence,
		Question: question,
		Answer:   answer,
		Head:     model.HeadConfig{Hidden: []int{256, 16}},
	}
	if *first {
		config.Layout, config.ChatTemplate = model.InstructionFirst, orderedTurns
	}
	adapter := lora.NewConfig(8, 16, lora.Names{Regex: `.*language_model.*\.(q_proj|v_proj)`})
	state, err := model.NewScorerState(config, adapter, 1)
	if err != nil {
		return err
	}
	if *save != "" {
		if err := os.MkdirAll(*save, 0o777); err != nil {
			return err
		}
		return state.Save(*save)
	}
	o := model.Options{Threads: runtime.NumCPU(), Blocks: *blocks, Profile: *profile, Pieces: *pieces}
	a, err := data.Open(*source, data.Limits{})
	if err != nil {
		return err
	}
	b, err := data.Open(*edit, data.Limits{})
	if err != nil {
		return err
	}
	switch what {
	case "group-step":
		return groupStep(state, a, b, o, *each, *steps, *apart, *recompute)
	case "group-score":
		return groupScore(state, a, b, *each, *steps, *apart)
	}
	if what == "step" {
		return step(state, a, b, o, *pairs, *steps, *recompute)
	}
	ctx := context.Background()
	s, err := model.NewScorer(state, o)
	if err != nil {
		return err
	}
	defer s.Close()
	// Pictures are prepared, and go through the vision tower, anew every time, as in PyTorch.
	return report(*steps, map[string]any{"pairs": *pairs}, func() error {
		const chunk = 16 // as `score batch` prepares a part of its table at a time
		for first := 0; first < *pairs; first += chunk {
			samples := make([]*model.Sample, min(chunk, *pairs-first))
			for i := range samples {
				n := first + i
				pair := model.Pair{Source: other(a, n), Edit: other(b, n), Instruction: fmt.Sprint(instruction, " ", n)}
				if samples[i], err = s.Prepare(pair); err != nil {
					return err
				}
			}
			if _, err := s.Score(ctx, samples); err != nil {
				return err
			}
			s.ClearCache()
		}
		return nil
	})
}

// gradient times scores with their gradients down to the pictures, in batches, as /v1/gradient computes them.
func gradient(dir, source, edit string, steps, pairs, batch int) error {
	s, err := model.OpenScorer(dir, model.Options{Threads: runtime.NumCPU()})
	if err != nil {
		return err
	}
	defer s.Close()
	a, err := data.Open(source, data.Limits{})
	if err != nil {
		return err
	}
	b, err := data.Open(edit, data.Limits{})
	if err != nil {
		return err
	}
	scores := make([]float64, pairs)
	return report(steps, map[string]any{"pairs": pairs, "scores": &scores}, func() error {
		for first := 0; first < pairs; first += batch {
			var part []model.Pair
			for i := first; i < min(first+batch, pairs); i++ {
				part = append(part, model.Pair{Source: other(a, i), Edit: other(b, i), Instruction: instruction})
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

// other is a picture that differs in one pixel, so that no two pairs share vision features.
func other(p *data.Picture, i int) *data.Picture {
	q := p.Crop(0, 0, p.Width, p.Height)
	q.Pix[0], q.Pix[1] = byte(i), byte(i>>8)
	return q
}

// report runs f n times and prints the seconds of each with the facts; before that once to warm up, unless a run is
// long.
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

// processorTime is what the process has used of the processor: what else runs on the machine changes it little.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
