package trainer

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"assay/internal/exit"
	"assay/internal/strictyaml"
	"assay/store"
)

// mayDiffer are the keys that a resumed run may have otherwise: they say where things lie, or change no number. What
// lies at the paths is compared by content.
var mayDiffer = []string{"out", "backbone", "init", "data.train", "data.validation", "data.skip", "checkpoint", "cache",
	"device_options.memory_limit", "device_options.arena", "validate.benchmark.ratings", "validate.benchmark.images",
	"validate.benchmark.votes", "validate.benchmark.targets"}

const benchmarkPrefix = "validate.benchmark: "

// differences lists what is no longer as the checkpoint has it.
func differences(old, now *state) ([]string, error) {
	var was, is map[string]any
	if err := yaml.Unmarshal([]byte(old.Config), &was); err != nil {
		return nil, fmt.Errorf("the configuration of the checkpoint: %w", err)
	}
	if err := yaml.Unmarshal([]byte(now.Config), &is); err != nil {
		return nil, err
	}
	text, err := Default().YAML()
	if err != nil {
		return nil, err
	}
	var usual map[string]any
	if err := yaml.Unmarshal(text, &usual); err != nil {
		return nil, err
	}
	// A checkpoint of an earlier version lacks newer keys: then they had their defaults.
	before, present := flatten("", usual), flatten("", is)
	past := flatten("", was)
	if _, ok := past["lora.parts"]; !ok { // but for this one, which had none: what is trained was compared already
		before["lora.parts"] = present["lora.parts"]
	}
	maps.Copy(before, past)
	out := changed("", before, present)
	out = append(out, changed("model: ", old.Model, now.Model)...)
	if len(old.Files) > 0 && len(now.Files) > 0 { // an earlier version noted none
		out = append(out, changed("backbone: ", old.Files, now.Files)...)
	}
	out = append(out, changed("data: ", old.Data, now.Data)...)
	return append(out, changed(benchmarkPrefix, old.Benchmark, now.Benchmark)...), nil
}

func flatten(key string, tree map[string]any) map[string]string {
	out := map[string]string{}
	for name, v := range tree {
		if key != "" {
			name = key + "." + name
		}
		if sub, ok := v.(map[string]any); ok && len(sub) > 0 {
			maps.Copy(out, flatten(name, sub))
		} else {
			out[name] = fmt.Sprint(v)
		}
	}
	return out
}

func changed(prefix string, was, is map[string]string) []string {
	names := slices.Sorted(maps.Keys(was))
	for _, n := range slices.Sorted(maps.Keys(is)) {
		if _, ok := was[n]; !ok {
			names = append(names, n)
		}
	}
	var out []string
	for _, n := range names {
		a, hadA := was[n]
		b, hadB := is[n]
		if a == b && hadA == hadB || prefix == "" && moved(n, a, b) {
			continue
		}
		if !hadA {
			a = "absent"
		}
		if !hadB {
			b = "absent"
		}
		out = append(out, fmt.Sprintf("%s%s: %s in the checkpoint, %s now", prefix, n, short(a), short(b)))
	}
	return out
}

// moved tells whether a key may differ. data.validation may as a path, not as a fraction.
func moved(name, a, b string) bool {
	if name == "data.validation" {
		return !number01(a) && !number01(b)
	}
	return slices.ContainsFunc(mayDiffer, func(k string) bool { return name == k || strings.HasPrefix(name, k+".") })
}

func number01(s string) bool {
	return strings.HasPrefix(s, "0") && strings.Trim(s, "0123456789.e-") == ""
}

// keepSchedules goes on with a run that was begun when a group's schedule took nothing from schedule: what it leaves
// out stays the default that the checkpoint has.
func keepSchedules(c *Config, old *state, warn func(text string)) {
	was := Default()
	if old == nil || len(c.Inherited) == 0 || strictyaml.Decode(ConfigFile, []byte(old.Config), was).Err() != nil {
		return
	}
	usual := defaultSchedule()
	for _, x := range c.Optimizer.Groups.scheduled() {
		had := was.Optimizer.Groups.of(x.name)
		if had == nil || had.Schedule == nil {
			continue
		}
		for _, k := range scheduleKeys {
			before := k.value(had.Schedule)
			if slices.Contains(c.Inherited, x.key+k.name) && k.value(&was.Schedule) == k.value(&c.Schedule) &&
				before == k.value(&usual) && before != k.value(x.Schedule) {
				k.take(x.Schedule, had.Schedule)
				warn(fmt.Sprintf("%s%s stays %v, as the run was begun: by now a new run takes it from schedule", x.key, k.name,
					before))
			}
		}
	}
}

// describeTrained says what the run trains.
func (t *Trainer) describeTrained() Trained {
	d := describeModel(t.model)
	d.Departures, d.Groups, d.Ways = t.config.Departures(), t.config.trainedGroups(t.model.Params()), t.config.ways()
	return d
}

// describe notes what a resumed run must find again.
func (t *Trainer) describe() error {
	text, err := t.config.YAML()
	if err != nil {
		return err
	}
	t.trains = t.describeTrained()
	t.state = state{Format: 1, Config: string(text), Model: maps.Clone(t.model.Fingerprint()), Data: t.data.fingerprint}
	if t.state.Model == nil {
		t.state.Model = map[string]string{}
	}
	if m, ok := t.model.(interface {
		Files() (map[string]string, error)
	}); ok {
		if t.state.Files, err = m.Files(); err != nil {
			return err
		}
	}
	if err := t.fingerprintBenchmark(); err != nil {
		return err
	}
	if t.config.Init == "" {
		return nil
	}
	for _, name := range []string{"head.safetensors", "adapter_model.safetensors"} {
		digest, err := store.FileDigest(filepath.Join(t.config.Init, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		t.state.Model["init "+name] = digest.String()[:32]
	}
	return nil
}

// checkVacant makes sure that a fresh run overwrites nothing but what a run without a checkpoint left. A scorer is
// written after the last checkpoint, so one without it is not of such a run.
func (t *Trainer) checkVacant(o *Options) error {
	scorer := t.config.resultPath()
	if _, err := os.Lstat(scorer); err == nil && !o.Fresh {
		return exit.Usagef("%s is there, but no checkpoint to go on from: choose another out, or overwrite it with --fresh",
			scorer)
	}
	return nil
}

// compare refuses to go on with something else, unless told to.
func (t *Trainer) compare(old *state, dir string, o *Options) error {
	was, err := trainedIn(dir)
	if err != nil {
		return err
	}
	if was.Digest != t.trains.Digest { // its tensors fit nothing else, whatever the user forces
		return exit.Usage(fmt.Errorf("the run in %s trains\n  %v in the checkpoint of step %d,\n  %v now (lora.parts, "+
			"lora.targets, mode, head and init decide)\nundo the change, choose another out, or begin anew with --fresh",
			t.config.Out, was, old.Step, t.trains))
	}
	diff, err := differences(old, &t.state)
	if err != nil {
		return err
	}
	rows, listed, err := t.data.MatchLedger(t.config.Out)
	if err != nil {
		return err
	}
	if listed && len(rows) == 0 { // the tables may be others, these are their rows
		diff = slices.DeleteFunc(diff, func(s string) bool { return strings.HasPrefix(s, "data: ") })
	} else if len(rows) > 10 {
		rows = append(rows[:10], fmt.Sprintf("data: and %d more rows", len(rows)-10))
	}
	diff = append(diff, rows...)
	if len(diff) == 0 {
		return nil
	}
	what := strings.Join(diff, "\n  ")
	if o.Force {
		if o.Warn != nil {
			o.Warn("going on although this differs:\n  " + what)
		}
		return nil
	}
	return exit.Usage(fmt.Errorf("the run in %s stands at step %d and was begun otherwise:\n  %s\nundo the change, "+
		"choose another out, begin anew with --fresh, or go on all the same with --force-resume",
		t.config.Out, old.Step, what))
}

// adopt takes over a checkpoint's counters.
func (t *Trainer) adopt(old *state) {
	s := *old
	s.Config, s.Model, s.Data, s.Benchmark = t.state.Config, t.state.Model, t.state.Data, t.state.Benchmark
	s.Files = t.state.Files
	if !maps.Equal(old.Benchmark, s.Benchmark) {
		s.forgetBest()
	}
	t.state = s
}
