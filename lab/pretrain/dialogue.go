package main

import (
	"math/rand/v2"

	"assay/data"
	"assay/lab/dialogue"
	"assay/lab/internal/miniature"
)

// The questions. The first one is a scorer's question.
const (
	askDone   = "is it done? " // yes: everything that was asked for, and nothing else
	askPartly = "is a part of it done? "
	askChange = "what was done?"
	askSource = "what was there?"
	askEdit   = "what is there?"
)

// Weights of turns: a yes or no is one word of two tokens, but matters most.
const (
	weightAnswer  = 4.0 / questions
	weightCaption = 1.0
)

// dialogueOf makes a dialogue about a pair: yes/no questions first, then descriptions.
func dialogueOf(p *miniature.Pair, rng *rand.Rand) dialogue.Dialogue {
	d := dialogue.Dialogue{Source: p.Source, Edit: p.Edit}
	for _, q := range p.Questions {
		text, yes := askDone, q.Yes()
		if rng.Float64() < 0.3 {
			text, yes = askPartly, q.Degree >= 0.4
		}
		d.Turns = append(d.Turns, dialogue.Turn{Question: text + q.Instruction, Answer: yesNo(yes), Weight: weightAnswer})
	}
	d.Turns = append(d.Turns, dialogue.Turn{Question: askChange, Answer: p.Difference, Weight: weightCaption})
	switch {
	case rng.Float64() < 0.15:
		d.Turns = append(d.Turns, dialogue.Turn{Question: askSource, Answer: p.SourceCaption, Weight: weightCaption / 2})
	case p.EditCaption != "" && rng.Float64() < 0.15:
		d.Turns = append(d.Turns, dialogue.Turn{Question: askEdit, Answer: p.EditCaption, Weight: weightCaption / 2})
	}
	return d
}

// asked returns the scorer's question with both answers.
func asked(source, edit *data.Picture, instruction string) dialogue.Dialogue {
	question := askDone + instruction
	return dialogue.Dialogue{
		Source: source,
		Edit:   edit,
		Turns: []dialogue.Turn{
			{Question: question, Answer: "yes", Weight: 1}, {Question: question, Answer: "no", Weight: 1},
		},
	}
}

func yesNo(yes bool) string {
	if yes {
		return "yes"
	}
	return "no"
}
