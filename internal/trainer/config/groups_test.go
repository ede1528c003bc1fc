package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLossesConfig(t *testing.T) {
	for want, text := range map[string]string{
		"losses[1].delta: want more than 0":              "losses: [{kind: l1}, {kind: huber, delta: -1}]\n",
		"losses[0].margin: want more than 0, not 0":      "losses: [{kind: bradley_terry_margin, margin: 0}]\n",
		"losses[0].scale: want more than 0, not 0":       "losses: [{kind: bradley_terry, scale: 0}]\n",
		"losses[0].nu: want more than 0, not 0":          "losses: [{kind: davidson, nu: 0.0}]\n",
		"losses[0].theta: want more than 0, not 0":       "losses: [{kind: rao_kupper, theta: 0}]\n",
		"losses[0].delta: want more than 0, not 0":       "losses: [{kind: huber, delta: -0}]\n",
		"losses[0].draws: want more than 0, not 0":       "losses: [{kind: gaussian_draws, draws: 0}]\n",
		"losses[0].values: want the labels":              "losses: [{kind: ordinal, values: []}]\n",
		"adafactor has no betas":                         "optimizer: {name: adafactor, betas: [0.5, 0.9]}\n",
		"lion has no eps":                                "losses: [{kind: l1}]\noptimizer: {name: lion, eps: 1.0e-6}\n",
		"losses[0].kind: want one of l1":                 "losses: [{kind: margin}]\n",
		"loss: conflicts with losses":                    "losses: [{kind: l1}]\nloss: {text: 1}\n",
		"data.sampling: losses compare edits of a group": "losses: [{kind: davidson}]\n",
		"classes needs head.kind: classification":        "losses: [{kind: classes}]\n",
		"thurstone needs a head with mu and log sigma":   "losses: [{kind: thurstone}]\n",
		"losses: mode head":                              "losses: [{kind: l1}]\nmode: head\n",
		"losses[0].wight: unknown key":                   "losses: [{kind: l1, wight: 2}]\n",
		"validate.by: want one of auto, l1":              "validate: {by: accuracy}\n",
		"data.group_edits: want at most batch_size (16)": "data: {train: t.jsonl, sampling: whole_groups, group_edits: 17}\n",
		"it has no dimension \"quality\"":                "losses: [{kind: l1, dimension: quality}]\n",
	} {
		path := filepath.Join(t.TempDir(), "run.yaml")
		all := "backbone: b\nout: out\n" + text
		if !strings.Contains(text, "data:") {
			all += "data: {train: t.jsonl, sampling: rows}\n"
		}
		if err := os.WriteFile(path, []byte(all), 0o666); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}
