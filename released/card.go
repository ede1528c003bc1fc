package released

import (
	"cmp"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"assay/edit"
	"assay/internal/atomicfile"
	"assay/model"
)

// card is what a model card says of an imported judge.
type card struct {
	name, licence, source string
	trained               string // on what
	scale                 string
	cannot                []string // judge
}

var editRewardCard = card{
	name:    "EditReward",
	licence: "MIT (code); see the weights' own page for theirs",
	source:  "https://github.com/TIGER-AI-Lab/EditReward",
	trained: "EditReward-Data: pairs of edits with votes of people on following the instruction and on quality, as a " +
		"ranking with uncertainty",
	scale: "The score is mu of a Gaussian without bounds: only differences between scores mean anything, and they " +
		"have no zero and no best. sigma is that Gaussian's standard deviation. Both prompts speak of 1 to 4; " +
		"the numbers do not.",
	cannot: []string{
		"how good an edit is on any fixed scale",
		"pictures in detail: each is reduced, or enlarged, to about 200,000 pixels",
		"what transparency hides: the colours below it are shown",
	},
}

var hpsv3Card = card{
	name:    "HPSv3",
	licence: "MIT (code), Apache-2.0 (weights)",
	source:  "https://huggingface.co/MizzenAI/HPSv3",
	trained: "HPDv3: pairs of generated pictures, by people's preferences",
	scale:   "The score is mu of a Gaussian without bounds, and sigma its standard deviation.",
	cannot: []string{
		"edits: it sees one picture and the text that it was made from, and no source",
		"pictures in detail: each is reduced, or enlarged, to about 200,000 pixels",
	},
}

var adieeCard = card{
	name:    "ADIEE",
	licence: "see the weights' own page",
	source:  "ADIEE: Automatic Dataset Creation and Scorer for Instruction-Guided Image Editing Evaluation",
	trained: "outputs of editors on MagicBrush and others, labelled by rules",
	scale: "0 to 10: of the classifier the expectation of 0, 5 and 10, of the regressor its output, which is not " +
		"clipped. The released code draws one of four questions at random, so that its own scores are not repeatable.",
	cannot: []string{"pictures in detail: each is resized to a square"},
}

func choicesCard(o *Options, r edit.Range) card {
	return card{
		name:    "the choices of " + filepath.Base(o.Base),
		licence: "that of the checkpoint",
		trained: "nothing: it is a stock model, asked for its next token",
		scale: fmt.Sprintf("%g to %g: the expectation of the choices' values over their likelihoods alone; all other "+
			"answers that the model would give are left out", r[0], r[1]),
		cannot: []string{"more than the model says in one token: it does not reason before it answers"},
	}
}

// writeCard writes the model card of a scorer directory.
func writeCard(path string, c *model.ScorerConfig, k *card) error {
	var b strings.Builder
	origin := c.Origin
	fmt.Fprintf(&b, "# %s\n\nImported by `score import`: a judge that was not trained here.\n\n", k.name)
	fmt.Fprintf(&b, "- Origin: %s\n- Licence: %s\n- Trained on: %s\n", cmp.Or(k.source, c.Backbone), k.licence, k.trained)
	fmt.Fprintf(&b, "- Score: %s %s\n", c.ScoreRange.Words(), "("+c.Score.Fusion+" of "+strings.Join(c.Score.Of, ", ")+")")
	fmt.Fprintf(&b, "\n## Scale\n\n%s\n\n## What it cannot judge\n\n", k.scale)
	for _, line := range k.cannot {
		fmt.Fprintf(&b, "- %s\n", line)
	}
	b.WriteString("\n## What was used\n\n")
	if !origin.Published {
		b.WriteString("The prompts are not known to be the published ones: the score is then not the published one.\n\n")
	}
	for _, name := range slices.Sorted(maps.Keys(origin.Prompts)) {
		fmt.Fprintf(&b, "- prompt `%s`: SHA-256 `%s`\n", name, origin.Prompts[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Digests.Weights)) {
		fmt.Fprintf(&b, "- weights `%s`: SHA-256 `%s`\n", name, c.Digests.Weights[name])
	}
	return atomicfile.WriteBytes(path, []byte(b.String()))
}
