package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"

	"assay/internal/exit"
	"assay/internal/store"
	"assay/internal/trainer/config"
	"assay/lora"
	"assay/model"
	"assay/model/nn"
	"assay/ort"
)

// Open opens the model of a configuration: a backbone with a new scorer, or with the scorer of `init`. It is the
// Factory of the command train.
func Open(_ context.Context, c *config.Config) (Model, error) { return openModel(c, false, 0) }

// OpenPlan opens a model that is only used for its Plan: the backbone's weights may be absent. It is the Factory of
// dry runs.
func OpenPlan(_ context.Context, c *config.Config) (Model, error) { return openModel(c, true, 0) }

// OpenPlanFor is OpenPlan for a GPU with that many bytes of memory, which need not be in this machine; 0: for this
// machine.
func OpenPlanFor(memory int64) Factory {
	if memory == 0 {
		return OpenPlan
	}
	return func(_ context.Context, c *config.Config) (Model, error) {
		there := *c
		if !strings.HasPrefix(c.Device, "cuda") {
			there.Device = "cuda:0"
		}
		return openModel(&there, true, memory)
	}
}

// OnCUDA reports whether the device of a configuration is a GPU; auto is one if this machine has one.
func OnCUDA(c *config.Config) bool {
	device, err := ort.Resolve(c.Device)
	if err != nil {
		device = c.Device // opening the model reports what is wrong with it
	}
	return strings.HasPrefix(device, "cuda")
}

// openModel opens a model; its errors, such as layers or tokens that the backbone does not have, are configuration
// errors.
func openModel(c *config.Config, plan bool, memory int64) (_ Model, err error) {
	resolved := *c // auto is decided once, for device and type together
	if memory == 0 {
		if resolved.Device, err = ort.Resolve(c.Device); err != nil {
			return nil, err
		}
	}
	c = &resolved
	defer func() { err = exit.Usage(err) }()
	if c.Mode == config.ModeText {
		return openText(c, plan, memory)
	}
	parts, err := NewParts(c, plan)
	if err != nil {
		return nil, err
	}
	if c.Mode == "head" {
		return openHead(c, parts, memory)
	}
	m := &ScorerModel{}
	if err := m.begin(c, plan, memory); err != nil {
		return nil, err
	}
	o := tuneOptions(c, parts, m.store)
	if c.Train != nil {
		modules, err := backboneModules(c.Backbone)
		if err == nil {
			o.Trains, err = c.TrainsTensor(modules)
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

// NewParts creates the scorer to train, and records the digests of its backbone's files now: a run that takes days
// writes these digests, even if the files change meanwhile.
func NewParts(c *config.Config, plan bool) (*model.ScorerState, error) {
	p, err := beginParts(c, plan)
	if err == nil && !plan {
		err = model.RecordDigests(p.Config)
	}
	return p, err
}

// beginParts reads the scorer of init, or creates a new one. The configuration's scorer settings apply in both cases.
func beginParts(c *config.Config, plan bool) (*model.ScorerState, error) {
	sc, err := configuredScorer(c)
	if err != nil {
		return nil, err
	}
	begin := model.NewScorerState
	if plan {
		begin = model.PlanScorerState
	}
	l, err := adapterConfig(c)
	if err != nil {
		return nil, err
	}
	if c.Init == "" {
		p, err := begin(sc, l, c.Seed)
		return p, suggestParts(c, err)
	}
	if config.BareAdapter(c.Init) {
		return beginOnAdapter(c, sc, begin)
	}
	p, err := loadInit(c, plan)
	if err != nil {
		return nil, err
	}
	switch {
	case p.Adapter != nil && c.Mode == "full":
		remedy := "merge it first (train merge --scorer " + c.Init + " --out DIR)"
		if c.Judge != nil {
			remedy = "use mode lora"
		}
		return nil, fmt.Errorf("init: %s has an adapter, which mode full does not train; %s", c.Init, remedy)
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

// configuredScorer returns the configured scorer: from a file of format 2, or from the run's own keys.
func configuredScorer(c *config.Config) (*model.ScorerConfig, error) {
	if c.Judge != nil {
		if c.Mode == "head" {
			return nil, errors.New("mode head trains scorers of format 1")
		}
		sc := *c.Judge
		sc.Backbone = c.Backbone
		if c.Init == "" {
			sc.Digests = nil // they are of the scorer that the file was written for
		}
		return &sc, nil
	}
	one := c.OnePass()
	one.DType = dtype(c)
	sc := one.Scorer()
	return sc, sc.Normalize()
}

// beginOnAdapter creates a new scorer around a bare adapter.
func beginOnAdapter(
	c *config.Config, sc *model.ScorerConfig,
	begin func(*model.ScorerConfig, *lora.Config, uint64) (*model.ScorerState, error),
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

// dtype resolves auto: bfloat16 on a GPU, float32 on the CPU.
func dtype(c *config.Config) string {
	if c.Dtype != "auto" {
		return c.Dtype
	}
	if strings.HasPrefix(c.Device, "cuda") {
		return "bfloat16"
	}
	return "float32"
}

func modelOptions(c *config.Config, s *store.Store) model.Options {
	o := model.Options{Device: c.Device, Threads: c.Threads, Cache: int64(c.Cache.Vision), CUDA: c.DeviceOptions.CUDA(),
		Kernels: c.DeviceOptions.Kernels,
		Held:    func(params []nn.Param) int64 { return held(c, params) }}
	o.Threads = cmp.Or(o.Threads, runtime.NumCPU())
	if c.Cache.Vision == config.Disk {
		o.Cache, o.Store = 0, s
	}
	return o
}

func tuneOptions(c *config.Config, p *model.ScorerState, s *store.Store) model.TuneOptions {
	o := model.TuneOptions{
		Options:   modelOptions(c, s),
		Full:      c.Mode == "full",
		TextLoss:  c.TextWeight(),
		Terms:     c.Losses,
		ScoreLoss: c.Loss.Score,
		Recompute: c.Recompute != "none",
		Share:     c.Data.Sampling == config.WholeGroups,
		Fixed:     strings.HasPrefix(c.Device, "cuda"),
		Resident:  Resident(c),
	}
	if p.Adapter != nil {
		o.Dropout = c.Lora.Dropout
	}
	return o
}
