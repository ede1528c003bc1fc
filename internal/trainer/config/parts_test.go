package config

import (
	"strings"
	"testing"
)

// TestGroupSchedules: keys that a group's schedule leaves out are inherited from schedule, and an explicit 0 stays 0.
func TestGroupSchedules(t *testing.T) {
	usual := defaultSchedule()
	set := func(change func(s *ScheduleConfig)) ScheduleConfig {
		s := usual
		change(&s)
		return s
	}
	for _, test := range []struct {
		whole, group string
		want         ScheduleConfig
	}{
		{"{}", "kind: plateau", set(func(s *ScheduleConfig) { s.Kind = "plateau" })},
		{"{}", "kind: plateau, patience: 0", set(func(s *ScheduleConfig) { s.Kind, s.Patience = "plateau", 0 })},
		{"{}", "kind: plateau, threshold: 0", set(func(s *ScheduleConfig) { s.Kind, s.Threshold = "plateau", 0 })},
		{"{}", "kind: wsd, decay: 0", set(func(s *ScheduleConfig) { s.Kind, s.Decay = "wsd", 0 })},
		{"{kind: cosine, min_lr: 1e-5, warmup: 7}", "kind: linear",
			set(func(s *ScheduleConfig) { s.Kind, s.MinLR, s.Warmup = "linear", 1e-5, 7 })},
		{"{kind: cosine, min_lr: 1e-5, warmup: 7}", "warmup: 3",
			set(func(s *ScheduleConfig) { s.Kind, s.MinLR, s.Warmup = "cosine", 1e-5, 3 })},
		{"{kind: cosine, min_lr: 1e-5, warmup: 7}", "warmup: 0, min_lr: 0",
			set(func(s *ScheduleConfig) { s.Kind = "cosine" })},
		{"{kind: cosine, min_lr: 1e-5, warmup: 7}", "warmup: null, min_lr: ~, kind: wsd",
			set(func(s *ScheduleConfig) { s.Kind, s.MinLR, s.Warmup = "wsd", 1e-5, 7 })},
		{"{kind: cosine, min_lr: 1e-5, warmup: 0.25}", "kind: constant", // which has no min_lr
			set(func(s *ScheduleConfig) { s.Warmup = 0.25 })},
		{"{kind: restarts, cycles: 4, min_lr: 1e-5}", "warmup: 5",
			set(func(s *ScheduleConfig) { s.Kind, s.Cycles, s.MinLR, s.Warmup = "restarts", 4, 1e-5, 5 })},
		{"{kind: restarts, cycles: 4}", "kind: wsd, decay: 6",
			set(func(s *ScheduleConfig) { s.Kind, s.Decay = "wsd", 6 })},
		{"{kind: plateau, factor: 0.5, patience: 0, threshold: 0, min_lr: 1e-5}", "factor: 0.2",
			set(func(s *ScheduleConfig) {
				s.Kind, s.Factor, s.Patience, s.Threshold, s.MinLR = "plateau", 0.2, 0, 0, 1e-5
			})},
		{"{kind: wsd, decay: 0.3, warmup: 2}", "{}",
			set(func(s *ScheduleConfig) { s.Kind, s.Decay, s.Warmup = "wsd", 0.3, 2 })},
	} {
		text := "backbone: b\nout: o\ndata: {train: t.jsonl, validation: 0.1}\nschedule: " + test.whole +
			"\noptimizer: {groups: {head: {schedule: {" + strings.Trim(test.group, "{}") + "}}}}\n"
		c, err := loadText(t, text)
		if err != nil {
			t.Errorf("%s, %s: %v", test.whole, test.group, err)
			continue
		}
		if got := *c.Optimizer.Groups.Head.Schedule; got != test.want {
			t.Errorf("schedule %s, group's %s: %+v, want %+v", test.whole, test.group, got, test.want)
		}
		resolved, err := c.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := loadText(t, string(resolved))
		if err != nil {
			t.Fatal(err)
		}
		if got := *again.Optimizer.Groups.Head.Schedule; got != test.want {
			t.Errorf("schedule %s, group's %s, from config.yaml: %+v, want %+v", test.whole, test.group, got, test.want)
		}
	}
}
