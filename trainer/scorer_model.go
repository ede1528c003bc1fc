package trainer

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/edit"
	"assay/internal/exit"
	"assay/internal/workers"
	"assay/lora"
	"assay/losses"
	"assay/model"
	"assay/ort"
	"assay/store"
)

// OpenModel makes the model of a configuration: a backbone with a fresh scorer on it, or with that of `init`. It is the
// Factory of the command train.
func OpenModel(_ context.Context, c *Config) (Model, error) { return openModel(c, false, 0) }

// PlanModel makes a model that is only asked for its Plan: the backbone's weights may be absent. It is the Factory of
// dry runs.
func PlanModel(_ context.Context, c *Config) (Model, error) { return openModel(c, true, 0) }

// PlanModelFor is PlanModel for a GPU with that many bytes of memory, which need not be here; 0: for what is here.
func PlanModelFor(memory int64) Factory {
	if memory == 0 {
		return PlanModel
	}
	return func(_ context.Context, c *Config) (Model, error) {
		there := *c
		if !strings.HasPrefix(c.Device, "cuda") {
			there.Device = "cuda:0"
		}
		return openModel(&there, true, memory)
	}
}

// openModel makes a model; what the backbone has no place for (its pictures, layers, tokens) is wrong configuration.
func openModel(c *Config, plan bool, memory int64) (_ Model, err error) {
	resolved := *c // auto is decided once, for device and type together
	if memory == 0 {
		if resolved.Device, err = ort.Resolve(c.Device); err != nil {
			return nil, err
		}
	}
	c = &resolved
	defer func() { err = exit.Usage(err) }()
	if c.Mode == ModeText {
		return openText(c, plan, memory)
	}
	parts, err := newParts(c, plan)
	if err != nil {
		return nil, err
	}
	if c.Mode == "head" {
		return openHead(c, parts, memory)
	}
	m := &scorerModel{}
	if err := m.begin(c, plan, memory); err != nil {
		return nil, err
	}
	o := tuneOptions(c, parts, m.store)
	if c.Train != nil {
		modules, err := backboneModules(c.Backbone)
		if err == nil {
			o.Trains, err = c.trainsTensor(modules)
		}
		if err != nil {
			return nil, errors.Join(err, m.store.Close())
		}
	}
	o.Elsewhere = memory > 0
	if err := m.take(model.NewTuner(parts, o)); err != nil {
		return nil, err
	}
	return m, nil
}

// newParts makes the scorer that is trained, and notes what its backbone is made of now: a run that goes on for days
// writes these digests, whatever has become of the files.
func newParts(c *Config, plan bool) (*model.ScorerState, error) {
	p, err := beginParts(c, plan)
	if err == nil && !plan {
		err = model.RecordDigests(p.Config)
	}
	return p, err
}

// beginParts reads the scorer that training goes on from, or makes a fresh one. What the configuration says about the
// scorer counts in both cases.
func beginParts(c *Config, plan bool) (*model.ScorerState, error) {
	if c.Judge != nil {
		return newJudgeParts(c, plan)
	}
	sc := configuredScorer(c)
	if err := sc.Normalize(); err != nil {
		return nil, err
	}
	begin := model.NewScorerState
	if plan {
		begin = model.PlanScorerState
	}
	l, err := c.adapterConfig()
	if err != nil {
		return nil, err
	}
	if c.Init == "" {
		p, err := begin(sc, l, c.Seed)
		return p, suggestParts(c, err)
	}
	if bareAdapter(c.Init) {
		return beginOnAdapter(c, sc, begin)
	}
	p, err := loadInit(c, plan)
	if err != nil {
		return nil, err
	}
	if c.Mode == "full" && p.Adapter != nil {
		return nil, fmt.Errorf("init: %s has an adapter, which mode full does not train; merge it first (train merge "+
			"--scorer %s --out DIR)",
			c.Init, c.Init)
	}
	switch {
	case p.Adapter != nil:
		if err := checkSameAdapter(c, p.Adapter); err != nil {
			return nil, err
		}
	case l != nil:
		fresh, err := begin(sc, l, c.Seed)
		if err != nil {
			return nil, suggestParts(c, err)
		}
		p.Adapter = fresh.Adapter
	}
	p.Config, p.Plan = sc, plan
	return p, nil
}

// configuredScorer is what a configuration says of its scorer, of format 1.
func configuredScorer(c *Config) *model.ScorerConfig {
	return (&model.OnePassConfig{
		Backbone:      c.Backbone,
		Pair:          c.Pair,
		PairSize:      c.PairSize,
		Layout:        c.Layout,
		Question:      c.Question[0],
		Answer:        c.Answer[0],
		TextLoss:      c.TextLoss,
		ScoreRange:    [2]float64{c.ScoreRange[0], c.ScoreRange[1]},
		ScoreToken:    c.ScoreToken,
		ScorePosition: c.ScorePosition,
		DType:         dtype(c),
		ChatTemplate:  c.ChatTemplate,
		EndOfTurn:     c.EndOfTurn,
		Head:          c.Head,
	}).Scorer()
}

// beginOnAdapter makes a fresh scorer around a bare adapter.
func beginOnAdapter(
	c *Config, sc *model.ScorerConfig, begin func(*model.ScorerConfig, *lora.Config, uint64) (*model.ScorerState, error),
) (*model.ScorerState, error) {
	if c.Mode == "full" {
		return nil, errors.New("init is an adapter, which mode full does not train: merge it first (train merge --backbone " +
			"DIR --adapter DIR --out DIR)")
	}
	p, err := begin(sc, nil, c.Seed)
	if err != nil {
		return nil, err
	}
	if p.Adapter, err = lora.Load(c.Init); err != nil {
		return nil, err
	}
	return p, checkSameAdapter(c, p.Adapter)
}

// dtype resolves auto: half precision where there is a GPU, float32 on the CPU.
func dtype(c *Config) string {
	if c.Dtype != "auto" {
		return c.Dtype
	}
	if strings.HasPrefix(c.Device, "cuda") {
		return "bfloat16"
	}
	return "float32"
}

func modelOptions(c *Config, s *store.Store) model.Options {
	o := model.Options{Device: c.Device, Threads: c.Threads, Cache: int64(c.Cache.Vision), CUDA: c.DeviceOptions.cuda(),
		Held: c.held}
	if o.Threads == 0 {
		o.Threads = runtime.NumCPU()
	}
	if c.Cache.Vision == Disk {
		o.Cache, o.Store = 0, s
	}
	return o
}

func tuneOptions(c *Config, p *model.ScorerState, s *store.Store) model.TuneOptions {
	o := model.TuneOptions{
		Options:   modelOptions(c, s),
		Full:      c.Mode == "full",
		TextLoss:  c.textWeight(),
		Terms:     c.Losses,
		ScoreLoss: c.Loss.Score,
		Recompute: c.Recompute == "layers",
		Share:     c.Data.Sampling == WholeGroups,
		Fixed:     strings.HasPrefix(c.Device, "cuda"),
		Resident:  resident(c),
	}
	if p.Adapter != nil {
		o.Dropout = c.Lora.Dropout
	}
	return o
}

// scorerModel trains adapter or backbone together with head and score token, in the step graph.
type scorerModel struct {
	graphModel[*model.Tuner]
	least int // edits of the largest group, which a run of the graph must hold
}

func (m *scorerModel) Step(ctx context.Context, batch []Example, weight float64, seed uint64) (*StepResult, error) {
	samples, err := prepareExamples(m.tuner, batch)
	if err != nil {
		return nil, err
	}
	labels := make([]float64, len(batch))
	for i := range batch {
		labels[i] = batch[i].Label
	}
	r, err := m.tuner.Step(ctx, samples, labels, weight, seed)
	if err != nil {
		return nil, fmt.Errorf("training on %s: %w", ids(batch), err)
	}
	return m.result(r), nil
}

// Targets is the number of tokens that an example's text loss is over.
func (m *scorerModel) Targets(e *Example) (int, error) {
	if known, ok := e.Prepared.(*prepared); ok && known.err == nil {
		return m.tuner.Targets(known.sample), nil
	}
	asked, err := e.edit()
	if err != nil {
		return 0, err
	}
	return m.tuner.CountTargets(asked, e.ask())
}

// Compare trains on an objective of several terms.
func (m *scorerModel) Compare(
	ctx context.Context,
	batch []Example,
	items [][]losses.Item,
	weight float64,
	seed, draws uint64,
) (*StepResult, error) {
	samples, err := prepareExamples(m.tuner, batch)
	if err != nil {
		return nil, err
	}
	r, err := m.tuner.Compare(ctx, samples, items, weight, seed, draws)
	if err != nil {
		return nil, fmt.Errorf("training on %s: %w", ids(batch), err)
	}
	return m.result(r), nil
}

func (m *scorerModel) result(r *model.StepResult) *StepResult {
	return &StepResult{
		Loss:      r.Loss,
		CE:        r.CE,
		ScoreLoss: r.ScoreLoss,
		Score:     r.Score,
		Tokens:    r.Tokens,
		Terms:     r.Terms,
		Grads:     m.gradients(r.Grads),
	}
}

func (m *scorerModel) Score(ctx context.Context, batch []Example) ([]float64, error) {
	samples, err := prepareExamples(m.tuner, batch)
	if err != nil {
		return nil, err
	}
	return m.tuner.Scorer().Score01(ctx, samples)
}

func (m *scorerModel) SaveScorer(dir string) error { return m.tuner.SaveScorer(dir) }

// Fingerprint is that of the backbone, and of what a scorer of format 2 asks.
func (m *scorerModel) Fingerprint() map[string]string {
	out := m.graphModel.Fingerprint()
	if m.config.Judge != nil {
		sc := *m.config.Judge
		sc.Backbone, sc.Weights, sc.Digests = "", "", nil
		if d := m.config.Judge.Digests; d != nil && sc.Origin != nil { // where checkpoints of earlier versions have them
			o := *sc.Origin
			o.Weights, o.Base, sc.Origin = d.Weights, d.Backbone, &o
		}
		if text, err := yaml.Marshal(&sc); err == nil {
			sum := sha256.Sum256(text)
			out["scorer"] = hex.EncodeToString(sum[:16])
		}
	}
	return out
}

// Inspector decodes pictures and counts the tokens of the text, asked in every wording.
func (m *scorerModel) Inspector() func(*Example) error {
	pictures := m.inspector()
	return func(e *Example) error {
		if err := pictures.example(e); err != nil {
			return err
		}
		return checkTexts(m.tuner, m.config, e)
	}
}

// texter is what counts the tokens of a question's text: a Tuner or a Scorer.
type texter interface {
	CheckText(*edit.Edit, model.Ask) error
}

func checkTexts(m texter, c *Config, e *Example) error {
	for _, q := range c.Question {
		for _, a := range c.Answer {
			if err := m.CheckText(&edit.Edit{Instruction: e.Row.Instruction}, model.Ask{Question: q, Answer: a}); err != nil {
				return err
			}
		}
	}
	return nil
}

// preparer is what turns edits into samples: a Tuner or a Scorer.
type preparer interface {
	Sample(*edit.Edit, model.Ask) (*model.Sample, error)
}

// prepareExamples reads, augments and tokenises a batch on all cores. Pictures whose features are known are not read.
func prepareExamples(p preparer, batch []Example) ([]*model.Sample, error) {
	samples := make([]*model.Sample, len(batch))
	err := workers.Each(len(batch), runtime.NumCPU(), func(i int) (err error) {
		if samples[i], err = prepareExample(p, &batch[i]); err != nil {
			return fmt.Errorf("%s: %w", batch[i].Row.ID, err)
		}
		samples[i].Share = batch[i].Share
		return nil
	})
	if err != nil {
		return nil, err
	}
	return samples, nil
}

func prepareExample(p preparer, e *Example) (*model.Sample, error) {
	if known, ok := e.Prepared.(*prepared); ok {
		return known.sample, known.err
	}
	asked, err := e.edit()
	if err != nil {
		return nil, err
	}
	return p.Sample(asked, e.ask())
}

// edit is an example as a scorer sees it.
func (e *Example) edit() (*edit.Edit, error) {
	c, err := e.contents()
	if err != nil {
		return nil, err
	}
	return edit.New(examplePicture{e, c[0], e.Row.Source}, examplePicture{e, c[1], e.Row.Edit}, e.Row.Instruction), nil
}

// ask has the templates that were drawn for an example.
func (e *Example) ask() model.Ask { return model.Ask{Question: e.Question, Answer: e.Answer} }
