package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"

	"github.com/spf13/cobra"

	"assay/internal/optim"
	"assay/internal/strictyaml"
	"assay/internal/trainer/config"
	"assay/internal/trainer/dataset"
	"assay/internal/trainer/models"
	"assay/internal/workers"
	"assay/lab/dialogue"
	"assay/lab/internal/miniature"
	"assay/model"
	"assay/model/fresh"
)

func init() { app.Register(newBackboneCommand) }

//go:embed tiny.yaml
var tinySizes []byte

//go:embed tiny.jinja
var tinyTemplate []byte

func newBackboneCommand() *cobra.Command {
	var o course
	c := &cobra.Command{
		Use:     "backbone",
		Short:   "Pretrain a Qwen2.5-VL on descriptions of edits and yes/no questions",
		Example: "  pretrain backbone --photos examples/photos --out build/pretrain/backbone",
		Args:    cobra.NoArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return runBackbone(c, &o) },
	}
	o.flags(c, course{out: "build/pretrain/backbone", steps: 8000, batch: 32, lr: 1e-3, every: 500})
	return c
}

func runBackbone(c *cobra.Command, o *course) error {
	world, err := o.world(true)
	if err != nil {
		return err
	}
	run := o.config()
	run.Backbone, run.Pair, run.PairSize = filepath.Join(o.out, "fresh"), model.Frames, []int{o.size, o.size}
	return o.train(c, run, func(_ context.Context, c *config.Config) (models.Model, error) {
		return newBackboneModel(c, world, 20000)
	}, drawn{1500, degreeAsked(world, o.seed)}, "miniature dialogues 1")
}

// degreeAsked returns the true degree of success of validation pair i.
func degreeAsked(world *miniature.World, seed uint64) func(i int) (float64, error) {
	return func(i int) (float64, error) {
		p, err := world.Pair(generator(seed, forValidation, i), 1)
		if err != nil {
			return 0, err
		}
		return p.Questions[0].Degree, nil
	}
}

// makeBackbone makes the checkpoint that pretraining starts from; its tokenizer is trained on the given number of
// dialogues.
func makeBackbone(dir string, world *miniature.World, seed uint64, dialogues int) error {
	sizes, err := fresh.Defaults(fresh.Qwen25VL)
	if err != nil {
		return err
	}
	d := strictyaml.Decode("tiny.yaml", tinySizes, &sizes)
	if err := d.Err(); err != nil {
		return err
	}
	var text bytes.Buffer
	for i := range dialogues {
		pair, err := world.Pair(generator(seed, 0, i), 2)
		if err != nil {
			return err
		}
		for _, t := range dialogueOf(pair, generator(seed, 0, i)).Turns {
			fmt.Fprintln(&text, t.Question)
			fmt.Fprintln(&text, t.Answer)
		}
	}
	corpus := dir + ".txt"
	if err := os.MkdirAll(filepath.Dir(dir), 0o777); err != nil {
		return err
	}
	if err := os.WriteFile(corpus, text.Bytes(), 0o666); err != nil {
		return err
	}
	defer os.Remove(corpus)
	if _, err := fresh.Create(dir, sizes, []string{corpus}, seed); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "chat_template.jinja"), tinyTemplate, 0o666)
}

// backboneModel is the trained model; dialogues are drawn by the index of the example.
type backboneModel struct {
	tuner  *dialogue.Tuner
	world  *miniature.World
	seed   uint64
	params []optim.Param
}

// newBackboneModel opens the checkpoint of the configuration, and makes it first if it does not exist.
func newBackboneModel(c *config.Config, world *miniature.World, dialogues int) (*backboneModel, error) {
	if !exists(filepath.Join(c.Backbone, "config.json")) {
		if err := makeBackbone(c.Backbone, world, c.Seed, dialogues); err != nil {
			return nil, err
		}
	}
	t, err := dialogue.New(c.Backbone, c.Pair, c.PairSize, model.Options{Device: c.Device, Threads: c.Threads})
	if err != nil {
		return nil, err
	}
	return &backboneModel{tuner: t, world: world, seed: c.Seed, params: optim.NewParams(t.Params())}, nil
}

func (m *backboneModel) Params() []optim.Param { return m.params }

// prepare draws and tokenises dialogues.
func (m *backboneModel) prepare(
	batch []dataset.Example, draw func(i int) (dialogue.Dialogue, error),
) ([]*dialogue.Sample, error) {
	samples := make([]*dialogue.Sample, len(batch))
	return samples, workers.Each(len(batch), runtime.NumCPU(), func(i int) error {
		d, err := draw(i)
		if err == nil {
			samples[i], err = m.tuner.Prepare(d)
		}
		return err
	})
}

// questions is the number of yes/no questions about a pair.
const questions = 3

func (m *backboneModel) Step(
	ctx context.Context, batch []dataset.Example, in models.StepInput,
) (*models.StepResult, error) {
	samples, err := m.prepare(batch, func(i int) (dialogue.Dialogue, error) {
		rng := generator(m.seed, forTraining, batch[i].Index)
		pair, err := m.world.Pair(rng, questions)
		if err != nil {
			return dialogue.Dialogue{}, err
		}
		return dialogueOf(pair, rng), nil
	})
	if err != nil {
		return nil, err
	}
	r, err := m.tuner.Step(ctx, samples, in.Weight)
	if err != nil {
		return nil, err
	}
	out := &models.StepResult{
		Loss:      r.Loss,
		Tokens:    r.Tokens,
		Score:     make([]float64, len(batch)),
		ScoreLoss: make([]float64, len(batch)),
		Grads:     optim.Gradients(m.params, r.Grads),
	}
	for i, first := range r.First {
		for _, nll := range first[:questions] {
			out.ScoreLoss[i] += nll / questions
			out.Score[i] += (1 - math.Exp(-nll)) / questions // the metric l1 is then the mean probability of a wrong answer
		}
	}
	return out, nil
}

// Score returns the probability that the answer is yes.
func (m *backboneModel) Score(ctx context.Context, batch []dataset.Example) ([]float64, error) {
	samples, err := m.prepare(batch, func(i int) (dialogue.Dialogue, error) {
		pair, err := m.world.Pair(generator(m.seed, forValidation, batch[i].Index), 1)
		if err != nil {
			return dialogue.Dialogue{}, err
		}
		return asked(pair.Source, pair.Edit, pair.Questions[0].Instruction), nil
	})
	if err != nil {
		return nil, err
	}
	return judge(ctx, m.tuner, samples)
}

// judge returns the probability of yes for samples of asked.
func judge(ctx context.Context, t *dialogue.Tuner, samples []*dialogue.Sample) ([]float64, error) {
	r, err := t.Measure(ctx, samples)
	if err != nil {
		return nil, err
	}
	scores := make([]float64, len(samples))
	for i, first := range r.First {
		yes, no := math.Exp(-first[0]), math.Exp(-first[1])
		scores[i] = yes / (yes + no)
	}
	return scores, nil
}

func (m *backboneModel) SaveScorer(dir string) error { return m.tuner.SaveInto(dir) }

func (m *backboneModel) Fingerprint() map[string]string {
	print, err := m.tuner.BackboneFingerprint()
	if err != nil { // which differs from any stored fingerprint
		print = err.Error()
	}
	return map[string]string{"backbone": print}
}

func (m *backboneModel) Close() error { return m.tuner.Close() }
