package t2i

import (
	"fmt"
	"strings"

	"assay/encoders"
	"assay/internal/atomicfile"
)

// card is what a model card says of a reward.
type card struct {
	licence, source string
	trained         string // on what
	scale           string
}

var kinds = map[string]kind{
	clipScore: {"CLIP score", encoders.Transformers, true, card{
		licence: "that of the CLIP",
		source:  "https://github.com/openai/CLIP",
		trained: "pictures and their captions from the web: it was not fitted to anybody's preferences",
		scale: "exp(logit_scale) times the cosine of picture and text: CLIP's logit, 100 times the cosine for OpenAI's " +
			"models. UniRL divides it by 30 (`scale: [0, 0.0333333333]`).",
	}},
	pickScore: {"PickScore", encoders.Transformers, true, card{
		licence: "MIT (code); see the weights' own page for theirs",
		source:  "https://github.com/yuvalkirstain/PickScore",
		trained: "Pick-a-Pic: which of two generated pictures people preferred",
		scale: "exp(logit_scale) times the cosine of picture and text. The softmax of two pictures' scores is the " +
			"probability that people prefer the one. UniRL divides it by 26 (`scale: [0, 0.0384615385]`).",
	}},
	hpsv2: {"HPSv2", encoders.Tensor, true, card{
		licence: "Apache-2.0",
		source:  "https://github.com/tgxs002/HPSv2",
		trained: "HPD v2: which of several generated pictures people preferred",
		scale:   "The cosine of picture and text.",
	}},
	aesthetic: {"LAION aesthetic predictor", encoders.Torchvision, false, card{
		licence: "Apache-2.0",
		source:  "https://github.com/christophschuhmann/improved-aesthetic-predictor",
		trained: "SAC, LAION-Logos and AVA: people's ratings of pictures from 1 to 10",
		scale:   "An estimate of the mean rating, not clipped to 1 to 10. It reads no text.",
	}},
	imageReward: {"ImageReward", encoders.Torchvision, true, card{
		licence: "Apache-2.0",
		source:  "https://github.com/THUDM/ImageReward",
		trained: "comparisons of generated pictures by annotators (ImageRewardDB)",
		scale: "(x - 0.167173)/1.033339 of the head's number x, as its own code reports it: mean 0 and deviation 1 over " +
			"its validation pictures.",
	}},
}

// write writes a model card.
func (k *card) write(path, name string, c *Config) error {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\nImported by `score import`: a judge that was not trained here.\n\n", name)
	fmt.Fprintf(&b, "- Origin: %s\n- Licence: %s\n- Trained on: %s\n", k.source, k.licence, k.trained)
	b.WriteString("- Score: without bounds\n")
	fmt.Fprintf(&b, "\n## Scale\n\n%s\n\n## What it cannot judge\n\n", k.scale)
	b.WriteString("- edits: it sees the output and a text, and no source\n" +
		"- pictures in detail: it sees the middle square, much reduced\n")
	if kinds[c.Kind].reads {
		b.WriteString("- long texts: what is behind the last token that it reads does not count\n")
	}
	fmt.Fprintf(&b, "\n## What was used\n\n- weights and tokenizer: digest `%s`\n- preprocessing: `%s`\n", c.Digest,
		c.Preprocessing)
	return atomicfile.WriteBytes(path, []byte(b.String()))
}
