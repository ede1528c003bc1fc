package released

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/modelcard"
	"assay/model"
)

var editRewardCard = modelcard.Card{
	Name:    "EditReward",
	Licence: "MIT (code); see the weights' own page for theirs",
	Source:  "https://github.com/TIGER-AI-Lab/EditReward",
	Trained: "EditReward-Data: pairs of edits with human votes on following the instruction and on quality, as a " +
		"ranking with uncertainty",
	Scale: "The score is mu of a Gaussian without bounds: only differences between scores are meaningful; there is " +
		"no zero and no maximum. sigma is that Gaussian's standard deviation. Both prompts mention 1 to 4; " +
		"the scores are not on that scale.",
	Cannot: []string{
		"how good an edit is on any fixed scale",
		"fine detail: each picture is resized to about 200,000 pixels",
		"transparency: the judge is shown the colours of transparent pixels",
	},
}

var hpsv3Card = modelcard.Card{
	Name:    "HPSv3",
	Licence: "MIT (code), Apache-2.0 (weights)",
	Source:  "https://huggingface.co/MizzenAI/HPSv3",
	Trained: "HPDv3: pairs of generated pictures with human preferences",
	Scale:   "The score is mu of a Gaussian without bounds, and sigma its standard deviation.",
	Cannot: []string{
		"edits: it sees one picture and the text that it was generated from, and no source",
		"fine detail: each picture is resized to about 200,000 pixels",
	},
}

var adieeCard = modelcard.Card{
	Name:    "ADIEE",
	Licence: "see the weights' own page",
	Source:  "ADIEE: Automatic Dataset Creation and Scorer for Instruction-Guided Image Editing Evaluation",
	Trained: "outputs of editors on MagicBrush and others, labelled by rules",
	Scale: "0 to 10: for the classifier the expectation of 0, 5 and 10, for the regressor its output, which is not " +
		"clipped. The released code draws one of four questions at random, so its own scores are not repeatable.",
	Cannot: []string{"fine detail: each picture is resized to a square"},
}

func choicesCard(o *Options, r edit.Range) modelcard.Card {
	return modelcard.Card{
		Name:    "the choices of " + filepath.Base(o.Base),
		Licence: "that of the checkpoint",
		Trained: "nothing: it is a stock model, asked for its next token",
		Scale: fmt.Sprintf("%g to %g: the expectation of the choices' values by only their likelihoods; all other "+
			"answers that the model could give are left out", r[0], r[1]),
		Cannot: []string{"more than the model says in one token: it does not reason before it answers"},
	}
}

// writeCard writes the model card of a scorer directory.
func writeCard(path string, c *model.ScorerConfig, k modelcard.Card) error {
	var used strings.Builder
	if !c.Origin.Published {
		used.WriteString("The prompts are not known to be the published ones: the score is then not the published one.\n\n")
	}
	for _, name := range slices.Sorted(maps.Keys(c.Origin.Prompts)) {
		fmt.Fprintf(&used, "- prompt `%s`: SHA-256 `%s`\n", name, c.Origin.Prompts[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Digests.Weights)) {
		fmt.Fprintf(&used, "- weights `%s`: SHA-256 `%s`\n", name, c.Digests.Weights[name])
	}
	k.Source = cmp.Or(k.Source, c.Backbone)
	score := fmt.Sprintf("%s (%s of %s)", c.ScoreRange.Words(), c.Score.Fusion, strings.Join(c.Score.Of, ", "))
	return k.Write(path, score, used.String())
}
