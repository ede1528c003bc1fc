package model_test

import (
	"path/filepath"
	"testing"

	"assay/model"
)

// TestExportedText: graphs.json has the chat as tokenised, and the ends of an instruction at which the chat template
// strips white space. There is no text for a template that changes an instruction further.
func TestExportedText(t *testing.T) {
	const pictures = "<|vision_start|><|image_pad|><|vision_end|><|vision_start|><|image_pad|><|vision_end|>"
	const plain = "<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\n"
	const ends = "<|im_end|>\n<|im_start|>assistant\nIt is [SCORE].<|im_end|>"
	trim := "<|image_pad|>{{ messages[0]['content'][-1]['text'] | trim }}<|image_pad|>"
	upper := "<|image_pad|>{{ messages[0]['content'][-1]['text'] | upper }}<|image_pad|>"
	for _, c := range []struct{ name, template, layout, question, text, strip string }{
		{"own", "", "", "Is it [INSTRUCTION]?", plain + pictures + "Is it [INSTRUCTION]?" + ends, ""},
		{"question first", "", model.InstructionFirst, "Is it [INSTRUCTION]?",
			plain + pictures[:len(pictures)/2] + "Is it [INSTRUCTION]?" + pictures[len(pictures)/2:] + ends, ""},
		{"inside", trim, "", "Is it [INSTRUCTION]?",
			"<|image_pad|>Is it [INSTRUCTION]?<|image_pad|>It is [SCORE].<|im_end|>", ""},
		{"left", trim, "", "[INSTRUCTION]?", "<|image_pad|>[INSTRUCTION]?<|image_pad|>It is [SCORE].<|im_end|>", "left"},
		{"right", trim, "", "Is it [INSTRUCTION]",
			"<|image_pad|>Is it [INSTRUCTION]<|image_pad|>It is [SCORE].<|im_end|>", "right"},
		{"both", trim, "", "[INSTRUCTION]", "<|image_pad|>[INSTRUCTION]<|image_pad|>It is [SCORE].<|im_end|>", "both"},
		{"changed", upper, "", "Is it [INSTRUCTION]?", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := model.LoadScorerState("../testdata/oracle/qwen2_vl/scorer_sequence")
			if err != nil {
				t.Fatal(err)
			}
			p.Config.ChatTemplate, p.Config.Layout, p.Config.Passes[0].Prompt = c.template, c.layout, model.Text(c.question)
			s, err := model.NewScorer(p, model.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			e, err := s.Export(filepath.Join(t.TempDir(), "export"))
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Judge.Passes[0]; got.Text != c.text || got.Strip != c.strip {
				t.Errorf("text %q, strip %q, want %q, %q", got.Text, got.Strip, c.text, c.strip)
			}
		})
	}
}
