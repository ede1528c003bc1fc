package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const leastGRPO = least + "mode: text\nobjective: grpo\nbatch_size: 8\n"

// TestZerosOfGRPO: an explicit 0 is not taken for an absent key.
func TestZerosOfGRPO(t *testing.T) {
	for key, want := range map[string]string{
		"num_generations":       "want at least 2",
		"max_completion_length": "want at least 1",
		"generation_batch_size": "want at least 1",
		"temperature":           "want more than 0",
		"top_p":                 "want more than 0",
		"num_iterations":        "want at least 1",
		"epsilon":               "want more than 0",
	} {
		t.Run(key, func(t *testing.T) {
			_, err := loadText(t, leastGRPO+"grpo: {"+key+": 0, rewards: [{kind: match}]}\n")
			if err == nil || strings.Count(err.Error(), "run.yaml:") != 1 ||
				!strings.Contains(err.Error(), "grpo."+key+": "+want) {
				t.Errorf("got %v, want only %q", err, want)
			}
		})
	}
}

// TestNoReward: rewards that do not count are refused.
func TestNoReward(t *testing.T) {
	_, err := loadText(t, leastGRPO+"grpo: {rewards: [{kind: match, weight: 0}]}\n")
	if err == nil || !strings.Contains(err.Error(), "grpo.rewards: with all weights 0 there is nothing to learn") {
		t.Errorf("got %v, want the weights refused", err)
	}
}

// TestRewardWeights: a weight of 0 stays 0, an absent one is recorded as 1, and both can be read back.
func TestRewardWeights(t *testing.T) {
	c, err := loadText(t, leastGRPO+"grpo: {epsilon_high: 0, rewards: [{kind: match, weight: 0}, "+
		"{kind: format, judge: esj}]}\n")
	if err != nil {
		t.Fatal(err)
	}
	zero, usual := &c.GRPO.Rewards[0], &c.GRPO.Rewards[1]
	if zero.Factor() != 0 || usual.Factor() != 1 || c.GRPO.EpsilonHigh != 0.2 || usual.Judge != "esj" {
		t.Errorf("got weights %g and %g, epsilon_high %g, judge %s; want 0, 1, 0.2 and esj", zero.Factor(), usual.Factor(),
			c.GRPO.EpsilonHigh, usual.Judge)
	}
	text, err := c.Loadable()
	if err != nil || !strings.Contains(string(text), "weight: 1.0") { // as in config.yaml of earlier versions
		t.Errorf("got\n%s\n%v, want weight: 1.0 in it", text, err)
	}
	again, err := loadText(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(c, again); d != "" {
		t.Error(d)
	}
}

// TestJudgeBesideTheConfiguration: the scorer of a reward is found from the folder of the file, whatever its name.
func TestJudgeBesideTheConfiguration(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "run.yaml")
	for judge, want := range map[string]string{
		"critic": filepath.Join(dir, "critic"), "./critic": filepath.Join(dir, "critic"), "/far/critic": "/far/critic",
		"s3://bucket/critic": "", "hf://one": "",
	} {
		t.Run(judge, func(t *testing.T) {
			text := leastGRPO + "grpo: {rewards: [{kind: judge, judge: '" + judge + "'}]}\n"
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				t.Fatal(err)
			}
			c, err := Load(path)
			switch {
			case want == "" && (err == nil || !strings.Contains(err.Error(), judge+": ")):
				t.Errorf("got %v, want an error of %s", err, judge)
			case want != "" && (err != nil || c.GRPO.Rewards[0].Judge != want):
				t.Errorf("got %+v, %v, want %s", c, err, want)
			}
		})
	}
}
