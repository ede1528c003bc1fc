package config

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/optim"
	"assay/internal/strictyaml"
	"assay/lora"
)

// The parameter groups that may have their own learning rates. The parts of the model are [lora.Parts].
const (
	AdapterGroup  = "adapters"
	AdapterBGroup = "adapters.B" // if optimizer.groups.adapters has a ratio
	HeadGroup     = "head"
	RowsGroup     = "rows"   // of the score token
	OtherGroup    = "others" // tensors without their own group
	LossGroup     = "losses" // parameters learned by terms of the objective, never configurable
)

// GroupsConfig sets learning rates, weight decays and schedules for groups of tensors.
type GroupsConfig struct {
	Adapters  *GroupConfig `yaml:"adapters,omitempty"`
	Head      *GroupConfig `yaml:"head,omitempty"`
	Rows      *GroupConfig `yaml:"rows,omitempty"`
	Language  *GroupConfig `yaml:"language,omitempty"` // the backbone's own parameters, by part
	Projector *GroupConfig `yaml:"projector,omitempty"`
	Vision    *GroupConfig `yaml:"vision,omitempty"`
}

// GroupConfig overrides optimizer and schedule for a parameter group, key by key.
type GroupConfig struct {
	LR          *float64        `yaml:"lr,omitempty"`           // nil: optimizer.lr
	Ratio       *float64        `yaml:"ratio,omitempty"`        // of adapters: B's rate over A's (LoRA+); nil: 1
	WeightDecay *float64        `yaml:"weight_decay,omitempty"` // nil: optimizer.weight_decay
	Schedule    *ScheduleConfig `yaml:"schedule,omitempty"`     // nil: schedule
}

// Of returns the configuration of a group; nil: none.
func (g *GroupsConfig) Of(name string) *GroupConfig {
	if g == nil {
		return nil
	}
	return map[string]*GroupConfig{AdapterGroup: g.Adapters, AdapterBGroup: g.Adapters, HeadGroup: g.Head,
		RowsGroup: g.Rows, lora.Language: g.Language, lora.Projector: g.Projector, lora.Vision: g.Vision}[name]
}

// GroupNames lists the groups in their order.
func GroupNames() []string {
	return append([]string{AdapterGroup, AdapterBGroup, HeadGroup, RowsGroup}, append(lora.Parts(), OtherGroup)...)
}

func defaultSchedule() ScheduleConfig {
	return ScheduleConfig{Kind: "constant", Cycles: 1, Decay: 0.1, Factor: 0.1, Patience: 10, Threshold: 1e-4}
}

// SetDefaults fills in keys that are set in neither the group's schedule nor the run's.
func (s *ScheduleConfig) SetDefaults() { *s = defaultSchedule() }

// scheduleKey is a key of a schedule.
type scheduleKey struct {
	name  string
	kinds []string // kinds that use it; nil: all
	value func(s *ScheduleConfig) any
	take  func(s, from *ScheduleConfig)
}

func scheduleKeyOf[T any](name string, field func(s *ScheduleConfig) *T, kinds ...string) scheduleKey {
	return scheduleKey{name, kinds, func(s *ScheduleConfig) any { return *field(s) },
		func(s, from *ScheduleConfig) { *field(s) = *field(from) }}
}

// scheduleKeys lists all keys of a schedule, kind first.
var scheduleKeys = []scheduleKey{
	scheduleKeyOf("kind", func(s *ScheduleConfig) *string { return &s.Kind }),
	scheduleKeyOf("warmup", func(s *ScheduleConfig) *float64 { return &s.Warmup }),
	scheduleKeyOf("cycles", func(s *ScheduleConfig) *int64 { return &s.Cycles }, "restarts"),
	scheduleKeyOf("decay", func(s *ScheduleConfig) *float64 { return &s.Decay }, "wsd"),
	scheduleKeyOf("factor", func(s *ScheduleConfig) *float64 { return &s.Factor }, plateau),
	scheduleKeyOf("patience", func(s *ScheduleConfig) *int64 { return &s.Patience }, plateau),
	scheduleKeyOf("threshold", func(s *ScheduleConfig) *float64 { return &s.Threshold }, plateau),
	scheduleKeyOf("min_lr", func(s *ScheduleConfig) *float64 { return &s.MinLR }, "linear", "cosine", "restarts", "wsd",
		plateau),
}

// of reports whether schedules of a kind use the key.
func (k *scheduleKey) of(kind string) bool { return k.kinds == nil || slices.Contains(k.kinds, kind) }

// String returns what train prints: the kind, and the other keys that it uses and that are not 0.
func (s ScheduleConfig) String() string {
	words := []string{s.Kind}
	for _, k := range scheduleKeys[1:] {
		if v := fmt.Sprint(k.value(&s)); k.of(s.Kind) && v != "0" {
			words = append(words, k.name+" "+v)
		}
	}
	return strings.Join(words, ", ")
}

// scheduleOwner is a group with its own schedule.
type scheduleOwner struct {
	*GroupConfig
	key string // prefix of the schedule's keys
}

// scheduled lists the groups with their own schedules.
func (g *GroupsConfig) scheduled() (out []scheduleOwner) {
	for _, name := range GroupNames() {
		if x := g.Of(name); x != nil && x.Schedule != nil && name != AdapterBGroup {
			out = append(out, scheduleOwner{x, "optimizer.groups." + name + ".schedule."})
		}
	}
	return out
}

// inheritSchedules fills in keys that the groups' schedules leave out from the run's schedule, if their kinds use
// them.
func (c *Config) inheritSchedules(d *strictyaml.Document) {
	for _, x := range c.Optimizer.Groups.scheduled() {
		for _, k := range scheduleKeys {
			if !d.Has(x.key+k.name) && k.of(x.Schedule.Kind) {
				k.take(x.Schedule, &c.Schedule)
			}
		}
	}
}

// settle fills in the learning rates and weight decays that the groups leave out.
func (g *GroupsConfig) settle(c *Config) {
	if g == nil {
		return
	}
	for _, x := range []*GroupConfig{g.Adapters, g.Head, g.Rows, g.Language, g.Projector, g.Vision} {
		if x == nil {
			continue
		}
		if x.LR == nil {
			rate := c.Optimizer.LR
			x.LR = &rate
		}
		if x.WeightDecay == nil {
			decay := c.Optimizer.WeightDecay
			x.WeightDecay = &decay
		}
	}
}

func (c *Config) checkGroups(d checker) {
	g := c.Optimizer.Groups
	if g == nil {
		return
	}
	for _, name := range GroupNames() {
		x, key := g.Of(name), "optimizer.groups."+name
		if x == nil || name == AdapterBGroup {
			continue
		}
		d.Want(*x.LR > 0, key+".lr", "want more than 0, not %g", *x.LR)
		if x.Ratio != nil {
			d.Want(*x.Ratio > 0, key+".ratio", "want more than 0, not %g", *x.Ratio)
		}
		d.Want(x.Ratio == nil || name == AdapterGroup, key+".ratio", "only applies to adapters, whose B matrices it sets")
		d.Want(*x.WeightDecay >= 0, key+".weight_decay", "want at least 0, not %g", *x.WeightDecay)
		peak := *x.LR
		if x.Schedule == nil || !d.Has(key+".schedule.min_lr") && x.Schedule.MinLR > 0 { // then it is the run's min_lr
			d.Want(c.Schedule.MinLR <= peak, key+".lr", "is below schedule.min_lr (%g): set one for the group, "+
				"schedule: {min_lr: ...}", c.Schedule.MinLR)
			peak = math.Inf(1)
		}
		if x.Schedule != nil {
			x.Schedule.check(d, key+".schedule.", key+".lr", peak)
		}
	}
}

// checkPlateaus refuses plateau schedules if the file configures no validation.
func (c *Config) checkPlateaus(d checker) {
	if c.Data.Validates() || d.Bad("data") {
		return
	}
	for owner := range c.Plateaus() {
		key := "schedule.kind"
		if x := c.Optimizer.Groups.Of(owner); x != nil && x.Schedule != nil {
			key = "optimizer.groups." + owner + ".schedule.kind"
		}
		d.Want(false, key, "%s", PlateauWants)
	}
}

// check checks a schedule; rate is the key of its peak.
func (s *ScheduleConfig) check(d checker, prefix, rate string, peak float64) {
	d.oneOf(prefix+"kind", s.Kind, "constant", "linear", "cosine", "restarts", "wsd", plateau)
	d.Want(s.Cycles >= 1, prefix+"cycles", "want at least 1, not %d", s.Cycles)
	steps(d, prefix+"decay", s.Decay)
	steps(d, prefix+"warmup", s.Warmup)
	d.Want(s.MinLR >= 0 && (s.MinLR <= peak || peak <= 0), prefix+"min_lr", "want at least 0 and at most %s, not %g", rate,
		s.MinLR)
	d.Want(s.Factor > 0 && s.Factor < 1, prefix+"factor", "want more than 0 and below 1, not %g", s.Factor)
	d.Want(s.Patience >= 0, prefix+"patience", "want at least 0, not %d", s.Patience)
	d.Want(s.Threshold >= 0 && s.Threshold < 1, prefix+"threshold", "want at least 0 and below 1, not %g", s.Threshold)
	usual := defaultSchedule() // a resolved config.yaml contains these values
	for _, k := range scheduleKeys {
		d.Want(k.of(s.Kind) || k.value(s) == k.value(&usual), prefix+k.name, "not used by %s, only by %s", s.Kind,
			strings.Join(k.kinds, ", "))
	}
}

// GroupOf returns the parameter group of a tensor by its name.
func GroupOf(name string) string {
	_, adapted := lora.ModuleOf(name)
	path, brought := lora.ParameterOf(name)
	switch {
	case adapted:
		return AdapterGroup
	case brought:
		return lora.Part(path)
	case strings.HasPrefix(name, "losses."):
		return LossGroup
	case IsTokenRow(name):
		return RowsGroup
	case headTensor(name):
		return HeadGroup
	}
	return lora.Part(lora.Canonical(name))
}

// Rates returns the group whose learning rate a tensor uses: OtherGroup if the configuration has no such group.
func (c *Config) Rates(name string) string {
	group := GroupOf(name)
	x := c.Optimizer.Groups.Of(group)
	switch {
	case x == nil:
		return OtherGroup
	case lora.IsB(name) && x.Ratio != nil:
		return AdapterBGroup
	}
	return group
}

// DecayOf returns a group's weight decay.
func (c *Config) DecayOf(group string) float64 {
	if x := c.Optimizer.Groups.Of(group); x != nil {
		return *x.WeightDecay
	}
	return c.Optimizer.WeightDecay
}

// ScheduleOf returns the schedule of a group, and its peak.
func (c *Config) ScheduleOf(group string) (s *ScheduleConfig, peak float64) {
	x := c.Optimizer.Groups.Of(group)
	if x == nil {
		return &c.Schedule, c.Optimizer.LR
	}
	if x.Schedule != nil {
		return x.Schedule, *x.LR
	}
	return &c.Schedule, *x.LR
}

// CourseOf returns a group's learning rate schedule in a run of total steps.
func (c *Config) CourseOf(group string, total int64) optim.Schedule {
	s, peak := c.ScheduleOf(group)
	course := s.course(peak, total)
	if group == AdapterBGroup {
		course = course.Scaled(*c.Optimizer.Groups.Adapters.Ratio)
	}
	return course
}

// PlanFile records what a run trains and on what device: its models.Resolved, with what auto resolved to.
const PlanFile = "plan.json"

// The files that store the run ID at an MLflow server and at W&B (clients/python/assay_reward/wandb_run.py).
const (
	MLflowFile = "mlflow.json"
	WandBFile  = "wandb.json"
)

// headTensor reports whether a tensor is layers.N.weight or layers.N.bias of a head, or the rows of choices.
func headTensor(name string) bool {
	if rest, ok := strings.CutPrefix(name, "heads."); ok { // of format 2: heads.NAME.layers.N.weight
		if strings.HasSuffix(rest, ".rows") {
			return true
		}
		if i := strings.Index(rest, ".layers."); i >= 0 {
			name = rest[i+1:]
		}
	}
	parts := strings.Split(name, ".")
	return len(parts) == 3 && parts[0] == "layers" && (parts[2] == "weight" || parts[2] == "bias")
}
