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
	"assay/store"
	"assay/trainer/checkpoint"
	"assay/trainer/config"
	"assay/trainer/models"
)

const benchmarkPrefix = "validate.benchmark: "

// differences lists what is no longer as the checkpoint has it.
func differences(old, now *checkpoint.State) ([]string, error) {
	var was, is map[string]any
	if err := yaml.Unmarshal([]byte(old.Config), &was); err != nil {
		return nil, fmt.Errorf("the configuration of the checkpoint: %w", err)
	}
	if err := yaml.Unmarshal([]byte(now.Config), &is); err != nil {
		return nil, err
	}
	text, err := config.Default().YAML()
	if err != nil {
		return nil, err
	}
	var usual map[string]any
	if err := yaml.Unmarshal(text, &usual); err != nil {
		return nil, err
	}
	// A checkpoint of an earlier version lacks newer keys: then they had their defaults.
	before, present := config.Flatten("", usual), config.Flatten("", is)
	past := config.Flatten("", was)
	if _, ok := past["lora.parts"]; !ok { // but for this one, which had none: what is trained was compared already
		before["lora.parts"] = present["lora.parts"]
	}
	maps.Copy(before, past)
	out := config.Changed("", before, present)
	out = append(out, config.Changed("model: ", old.Model, now.Model)...)
	if len(old.Files) > 0 && len(now.Files) > 0 { // an earlier version noted none
		out = append(out, config.Changed("backbone: ", old.Files, now.Files)...)
	}
	out = append(out, config.Changed("data: ", old.Data, now.Data)...)
	return append(out, config.Changed(benchmarkPrefix, old.Benchmark, now.Benchmark)...), nil
}

// describeTrained says what the run trains.
func (t *Trainer) describeTrained() models.Trained {
	d := models.Describe(t.model)
	d.Departures, d.Groups, d.Ways = t.config.Departures(), models.TrainedGroups(t.config, t.model.Params()), models.Ways(t.config)
	return d
}

// describe notes what a resumed run must find again.
func (t *Trainer) describe() error {
	text, err := t.config.YAML()
	if err != nil {
		return err
	}
	t.trains = t.describeTrained()
	t.state = checkpoint.State{Format: 1, Identity: checkpoint.Identity{Config: string(text),
		Model: maps.Clone(t.model.Fingerprint()), Data: t.data.Fingerprint}}
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
	scorer := t.config.ResultPath()
	if _, err := os.Lstat(scorer); err == nil && !o.Fresh {
		return exit.Usagef("%s is there, but no checkpoint to go on from: choose another out, or overwrite it with --fresh",
			scorer)
	}
	return nil
}

// compare refuses to go on with something else, unless told to.
func (t *Trainer) compare(old *checkpoint.State, dir string, o *Options) error {
	was, err := models.TrainedIn(dir)
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
func (t *Trainer) adopt(old *checkpoint.State) {
	s := *old
	s.Identity = t.state.Identity
	if !maps.Equal(old.Benchmark, s.Benchmark) {
		s.ForgetBest()
	}
	t.state = s
}
