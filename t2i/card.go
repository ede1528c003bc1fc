package t2i

import (
	"fmt"

	"assay/encoders"
	"assay/internal/modelcard"
)

var kinds = map[string]kind{
	clipScore: {encoders.Transformers, true, modelcard.Card{
		Name:    "CLIP score",
		Licence: "that of the CLIP",
		Source:  "https://github.com/openai/CLIP",
		Trained: "pictures and their captions from the web: it was not fitted to human preferences",
		Scale: "exp(logit_scale) times the cosine of picture and text: CLIP's logit, 100 times the cosine for OpenAI's " +
			"models. UniRL divides it by 30 (`scale: [0, 0.0333333333]`).",
	}},
	pickScore: {encoders.Transformers, true, modelcard.Card{
		Name:    "PickScore",
		Licence: "MIT (code); see the weights' own page for theirs",
		Source:  "https://github.com/yuvalkirstain/PickScore",
		Trained: "Pick-a-Pic: which of two generated pictures people preferred",
		Scale: "exp(logit_scale) times the cosine of picture and text. The softmax of two pictures' scores is the " +
			"probability that people prefer the one. UniRL divides it by 26 (`scale: [0, 0.0384615385]`).",
	}},
	hpsv2: {encoders.Tensor, true, modelcard.Card{
		Name:    "HPSv2",
		Licence: "Apache-2.0",
		Source:  "https://github.com/tgxs002/HPSv2",
		Trained: "HPD v2: which of several generated pictures people preferred",
		Scale:   "The cosine of picture and text.",
	}},
	aesthetic: {encoders.Torchvision, false, modelcard.Card{
		Name:    "LAION aesthetic predictor",
		Licence: "Apache-2.0",
		Source:  "https://github.com/christophschuhmann/improved-aesthetic-predictor",
		Trained: "SAC, LAION-Logos and AVA: people's ratings of pictures from 1 to 10",
		Scale:   "An estimate of the mean rating, not clipped to 1 to 10. It reads no text.",
	}},
	imageReward: {encoders.Torchvision, true, modelcard.Card{
		Name:    "ImageReward",
		Licence: "Apache-2.0",
		Source:  "https://github.com/THUDM/ImageReward",
		Trained: "comparisons of generated pictures by annotators (ImageRewardDB)",
		Scale: "(x - 0.167173)/1.033339 of the head's number x, as its own code reports it: mean 0 and deviation 1 over " +
			"its validation pictures.",
	}},
}

// writeCard writes the model card of a judge.
func (c *Config) writeCard(path string) error {
	k := kinds[c.Kind].card
	k.Cannot = []string{"edits: it sees the output and a text, and no source",
		"fine detail: it sees the centre square, much reduced"}
	if kinds[c.Kind].reads {
		k.Cannot = append(k.Cannot, "long texts: anything after the last token that it reads is ignored")
	}
	return k.Write(path, "without bounds", fmt.Sprintf("- weights and tokenizer: digest `%s`\n- preprocessing: `%s`\n",
		c.Digest, c.Preprocessing))
}
