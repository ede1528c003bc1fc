package config

import (
	"strings"
	"testing"
)

// TestKeysWithoutEffect: a key without an effect is refused instead of ignored.
func TestKeysWithoutEffect(t *testing.T) {
	const run = "backbone: b\nout: o\ndata: {train: t.jsonl}\n"
	for text, want := range map[string]string{
		"schedule: {kind: cosine, cycles: 3}":                    "schedule.cycles: not used by cosine, only by restarts",
		"schedule: {kind: linear, decay: 0.3}":                   "schedule.decay: not used by linear, only by wsd",
		"schedule: {kind: cosine, factor: 0.5}":                  "schedule.factor: not used by cosine, only by plateau",
		"schedule: {patience: 3}":                                "schedule.patience: not used by constant",
		"schedule: {threshold: 0.1}":                             "schedule.threshold: not used by constant",
		"schedule: {min_lr: 1e-5}":                               "schedule.min_lr: not used by constant, only by linear",
		"optimizer: {groups: {head: {schedule: {min_lr: 0.1}}}}": "optimizer.groups.head.schedule.min_lr: ",
		"head: {kind: classification, values: [0, 0.5, 2]}":      "head.values: want the scores (0..1)",
		"head: {kind: classification, values: [-1, 0.5, 1]}":     "head.values: want the scores (0..1)",
		"schedule: {kind: restarts, cycles: 3, min_lr: 1e-6}":    "",
		"schedule: {kind: wsd, decay: 0.3, min_lr: 1e-6}":        "",
	} {
		_, err := loadText(t, run+text+"\n")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}
