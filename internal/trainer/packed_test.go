package trainer

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/data"
	"assay/edit"
	"assay/internal/long"
	"assay/internal/trainer/config"
	"assay/internal/trainer/models"
	"assay/model"
)

// pack adds a quantization_config to a configuration without weights.
func pack(t *testing.T, backbone, quantization string) {
	t.Helper()
	file := filepath.Join(backbone, "config.json")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.TrimRight(string(config), " \n")
	text = text[:len(text)-1] + `, "quantization_config": ` + quantization + "}\n"
	if err := os.WriteFile(file, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

// TestLargePackedDryRun: with 7 B parameters in 4 bits, a training step over one pair of 1,500 tokens fits into 16
// GB, and scoring it fits into 8 GB.
func TestLargePackedDryRun(t *testing.T) {
	long.Test(t)
	for name, quantization := range map[string]string{
		"gptq": `{"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": false}`,
		"bitsandbytes": `{"quant_method": "bitsandbytes", "load_in_4bit": true, "bnb_4bit_quant_type": "nf4",
			"bnb_4bit_use_double_quant": true, "llm_int8_skip_modules": ["lm_head", "visual"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			l := larges[1]
			c, _ := l.run(t)
			pack(t, c.Backbone, quantization)
			c.Pair, c.PairSize, c.TextLoss, c.MicroBatch = "sequence", []int{756, 756}, "answer", 1
			p, err := DryRun(context.Background(), c, models.OpenPlan)
			if err != nil {
				t.Fatal(err)
			}
			if p.Tokens.Max < 1500 || p.Parameters != l.backboneSize+l.trainable {
				t.Errorf("%+v tokens, %d parameters, want %d", p.Tokens, p.Parameters, l.backboneSize+l.trainable)
			}
			t.Logf("training: %v, in all %.2f GB", p.Bytes, float64(p.Need)/1e9)
			if p.Need > 16e9 {
				t.Errorf("training takes %d bytes: %v", p.Need, p.Bytes)
			}
			bytes := planScoring(t, c)
			t.Logf("scoring: %v, in all %.2f GB", bytes, float64(models.Total(bytes))/1e9)
			if models.Total(bytes) > 8e9 {
				t.Errorf("scoring takes %d bytes: %v", models.Total(bytes), bytes)
			}
		})
	}
}

// planScoring returns the memory for scoring one pair.
func planScoring(t *testing.T, c *config.Config) map[string]int64 {
	t.Helper()
	state, err := model.PlanScorerState((&model.OnePassConfig{Backbone: c.Backbone, Pair: c.Pair,
		PairSize: c.PairSize, Question: c.Question[0], Answer: c.Answer[0], Head: model.HeadConfig{Hidden: []int{256, 16}},
	}).Scorer(), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	s, err := model.NewScorer(state, model.Options{Device: "cpu"})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	picture := data.NewPicture(756, 756)
	sample, err := s.Sample(edit.New(picture, picture, "make it purple"), model.Ask{})
	if err != nil {
		t.Fatal(err)
	}
	if len(sample.IDs) < 1500 {
		t.Errorf("the pair has %d tokens", len(sample.IDs))
	}
	bytes, err := s.Usage(sample, 1)
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
